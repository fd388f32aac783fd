// The plans of a search that are legal, with what is known of each: memory and a lower bound of the
// step time for all of them, the exact time for those that were worth evaluating. Deterministic for
// any number of threads and processes.
#ifndef MEGATWIN_SIM_SEARCH_CANDIDATES_H_
#define MEGATWIN_SIM_SEARCH_CANDIDATES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "sim/search/memory_profile.h"
#include "sim/search/plan_list.h"
#include "sim/search/plan_pricer.h"
#include "sim/search/result_store.h"
#include "sim/search/search_space.h"
#include "sim/search/shared_work.h"
#include "sim/search/step_evaluator.h"

namespace megatwin::sim {

struct Candidate {
  PlanCode code;
  bool evaluated = false;
  model::Bytes memory;
  model::Instant bound;            // No schedule of the plan is faster.
  model::Instant time;             // When evaluated: the step without its overhead.
  model::Joules energy_bound;      // No step of the plan needs less.
  model::Seconds overhead;         // Of the step, beside time and bound.
  std::int64_t batch = 1;          // Sequences of a step.
  std::int64_t micro_batches = 1;  // Of a replica.

  model::Seconds step_time() const { return model::to_seconds(time) + overhead; }
  // Seconds a sequence. Plans are compared by these, since batches may differ.
  double pace() const { return step_time().value / static_cast<double>(batch); }
  double bound_pace() const {
    return (model::to_seconds(bound) + overhead).value / static_cast<double>(batch);
  }
};

// What `amount`, a time or an energy of a step of `batch` sequences, is for `wanted` sequences.
template <class Amount>
Amount paced(std::int64_t wanted, std::int64_t batch, Amount amount) {
  return {static_cast<double>(wanted) / static_cast<double>(batch) * amount.value};
}

// Of all legal plans with one value of one key.
struct ValueCount {
  std::int64_t legal = 0;
  std::int64_t fit = 0;
  std::optional<Candidate> leanest;  // The one with the least memory.
};

struct WorkProgress {
  std::string_view phase;
  std::int64_t done = 0, total = 0;
  double begun = 0;  // What the parts in hand come to, for the time that is left.
};
using ProgressCallback = std::function<void(const WorkProgress&)>;
// What Candidates::enumerate() calls its phase.
constexpr std::string_view kPricingPlans = "pricing plans";

// What one thread needs to price and evaluate plans.
class SearchWorker {
 public:
  SearchWorker(const model::Job& job, std::size_t compiled_bytes_max)
      : pricer(job), evaluator(compiled_bytes_max) {}

  // Of the plan that was priced last.
  model::Bytes memory(const model::Plan& plan, const PricedPlan& priced) {
    const MemoryProfile& profile = profiles.get(plan, *priced.layout);
    if (priced.number != last_number_ || &profile != last_profile_) {
      last_number_ = priced.number;
      last_profile_ = &profile;
      last_memory_ = memory_peak(pricer.job(), priced, profile);
    }
    return last_memory_;
  }
  model::Instant time(const model::Plan& plan) {
    return evaluator.makespan(plan, pricer.price(plan));
  }
  // Of a legal plan.
  model::Instant time(const model::Job& job, const SearchSpace& space, const PlanCode& code) {
    return time(splits.plan_of(job, space, code));
  }

  PlanPricer pricer;
  MemoryProfiles profiles;
  StepEvaluator evaluator;
  LayerSplits splits;  // Of the space that is searched.

 private:
  // Plans that differ in sends alone follow each other, and hold the same.
  std::uint64_t last_number_ = 0;  // Of what was priced.
  const MemoryProfile* last_profile_ = nullptr;
  model::Bytes last_memory_;
};

struct FamilyResult;

class Candidates {
 public:
  // `memory_limit` is what a plan may need at most; `shared` hands work to other processes. `job`,
  // `space` and `shared` must outlive this.
  Candidates(const model::Job& job, const SearchSpace& space, model::Bytes memory_limit,
             int num_threads, SharedWork* shared = nullptr);

  // Lists every legal plan of the space with its memory and bound; keeps those that fit, by bound.
  void enumerate(const ProgressCallback& progress);

  // From now on times are looked up in the store before they are worked out, and kept there after.
  // What a store holds is tried on a few plans first; when they come out otherwise, all of it is
  // forgotten. Call after enumerate(); `store` must outlive this.
  void use(ResultStore& store);

  // Evaluates the candidates at these places, if they were not.
  void evaluate(std::span<const std::size_t> places) { evaluate(places, {}); }

  // Evaluates in the order of the bounds until no plan left can be among the best `count`.
  void evaluate_best(std::size_t count, const ProgressCallback& progress);
  // Evaluates, of each of these sets of plans, until no plan left can be its fastest.
  using Filter = std::function<bool(const Candidate&)>;
  void evaluate_fastest(std::span<const Filter> sets);
  void evaluate_all(const ProgressCallback& progress);
  // Evaluates until no plan left can be on the front of time and memory. A plan is beaten when
  // another is no slower and needs no more than (1 + `slack`) of its memory.
  void evaluate_front(double slack, const ProgressCallback& progress);

  const std::vector<Candidate>& fitting() const { return fitting_; }
  std::int64_t num_legal() const { return num_legal_; }
  std::int64_t num_evaluated() const { return num_evaluated_; }
  const std::optional<Candidate>& leanest() const { return leanest_; }
  std::size_t num_values(SpaceKey key) const {
    return counts_[static_cast<std::size_t>(key)].size();
  }
  const ValueCount& count(SpaceKey key, std::size_t index) const {
    return counts_[static_cast<std::size_t>(key)][index];
  }
  // Places of evaluated candidates, those with the least time a sequence first; equals by memory,
  // then as listed.
  std::vector<std::size_t> ranking() const;
  // The first of ranking() that `among` takes.
  std::optional<std::size_t> fastest(const Filter& among) const;
  model::Plan plan(const Candidate& candidate) const {
    return plan_of(job_, space_, candidate.code);
  }
  SearchWorker& worker(int thread) { return *workers_[static_cast<std::size_t>(thread)]; }
  int num_threads() const { return static_cast<int>(workers_.size()); }
  // Runs pieces here, and in other processes where there are any.
  void run(const Pieces& pieces);

 private:
  void merge(const FamilyResult& result);
  PlanShape shape(const Candidate& candidate) const;
  void evaluate(std::span<const std::size_t> places, const ProgressCallback& progress);
  void finish(std::span<const std::size_t> places, std::span<const model::Instant> times);
  std::vector<std::size_t> open_places(const std::vector<std::size_t>& by_memory,
                                       double slack) const;

  std::optional<model::Instant> stored_time(const PlanCode& code) const;
  bool is_true(const StoredTime& stored);

  const model::Job& job_;
  const SearchSpace& space_;
  model::Bytes memory_limit_;
  SharedWork* shared_;
  ResultStore* store_ = nullptr;
  std::vector<StoredTime> stored_;  // By code.
  std::vector<std::unique_ptr<SearchWorker>> workers_;
  std::vector<Candidate> fitting_;
  std::vector<std::vector<ValueCount>> counts_;  // By key and index of its value.
  std::optional<Candidate> leanest_;
  std::int64_t num_legal_ = 0;
  std::int64_t num_evaluated_ = 0;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_CANDIDATES_H_
