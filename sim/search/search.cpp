#include "sim/search/search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "model/assert.h"
#include "model/plan_check.h"
#include "sim/search/decided_plans.h"
#include "sim/search/energy_front.h"
#include "sim/search/helper.h"
#include "sim/search/impossible_wish.h"
#include "sim/search/plan_list.h"
#include "sim/search/plan_reports.h"
#include "sim/search/space_key.h"
#include "sim/search/step_bound.h"
#include "sim/simulate.h"
#include "sim/simulation_problems.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Job;
using model::Plan;
using model::Seconds;

// Plans whose memory and energy differ by less are one point of the front.
constexpr double kFrontSlack = 0.01;
constexpr std::size_t kFrontMax = 20;

class Search {
 public:
  // `job` is plain; finalists are simulated as `checked` has it.
  Search(const Job& job, const Job& checked, const SearchSpace& space, const SearchOptions& options)
      : job_(job),
        space_(space),
        options_(options),
        memory_limit_(search_memory_limit(job, options)),
        reports_(job, checked, memory_limit_),
        explainer_(job, space, memory_limit_),
        shared_(options.processes),
        candidates_(job_, space_, memory_limit_, options.num_threads, &shared_) {}

  SearchResult run() {
    candidates_.enumerate(options_.progress);
    result_.candidates = result_.evaluated.bound = candidates_.num_legal();
    result_.fit = static_cast<std::int64_t>(candidates_.fitting().size());
    result_.depth = reports_.depth();
    result_.not_searched = not_searched(job_, space_);
    simulate_baseline();
    if (candidates_.fitting().empty()) {
      count_evaluated();
      result_.impossible = impossible_wish(job_, space_, candidates_, options_);
      return std::move(result_);
    }
    if (options_.store != nullptr) candidates_.use(*options_.store);
    candidates_.evaluate_best(static_cast<std::size_t>(options_.num_best), options_.progress);
    simulate_best();
    simulate_decided();
    find_front();
    find_losers();
    add_decided_losers();
    find_switches();
    if (options_.exhaustive) evaluate_rest();
    rank_baseline();
    result_.evaluated.of_fitting = candidates_.num_evaluated();
    count_evaluated();
    result_.plans = candidates_.fitting();
    return std::move(result_);
  }

 private:
  void report_progress(std::string_view phase, std::size_t done, std::size_t total) {
    if (!options_.progress) return;
    const std::lock_guard lock(progress_mutex_);
    options_.progress({phase, static_cast<std::int64_t>(done), static_cast<std::int64_t>(total)});
  }

  void count_evaluated() {
    SearchResult::Evaluated& evaluated = result_.evaluated;
    evaluated.dataflow =
        evaluated.of_fitting + evaluated.baseline + evaluated.front + evaluated.switches;
    MEGATWIN_ASSERT(evaluated.of_fitting <= result_.fit, evaluated.of_fitting, " of ", result_.fit);
  }

  // The file's own plan, whatever the search may vary; one that simulate refuses has no place.
  void simulate_baseline() {
    if (!simulation_problems(job_, false).empty()) return;
    auto answer = simulate(job_, {.sensitivities = false});
    if (const auto* refusal = std::get_if<PlanRefusal>(&answer)) {
      if (refusal->report) ++result_.evaluated.baseline;
      return;
    }
    ++result_.evaluated.baseline;
    auto& report = std::get<SimulationReport>(answer);
    if (report.memory_peak > memory_limit_) return;
    const Seconds plain_time = report.step_time;
    result_.baseline =
        reports_.is_plain()
            ? FoundPlan{std::move(report), is_decided(job_.plan.schedule) ? "events" : "dataflow",
                        plain_time}
            : reports_.finalist(job_.plan, plain_time, false);
  }

  void simulate_best() {
    std::vector<std::size_t> places = candidates_.ranking();
    places.resize(std::min(places.size(), static_cast<std::size_t>(options_.num_best)));
    std::vector<ReportQuestion> questions;
    for (const std::size_t place : places) {
      const Candidate& candidate = candidates_.fitting()[place];
      questions.push_back({.kind = ReportQuestion::Kind::Finalist,
                           .plan = candidates_.plan(candidate),
                           .plain_time = candidate.step_time()});
    }
    auto answers = reports_.ask(candidates_, questions, [&](std::size_t done) {
      report_progress("simulating the best", done, places.size());
    });
    std::vector<FoundPlan> found;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Bytes memory = candidates_.fitting()[places[i]].memory;
      MEGATWIN_ASSERT(answers[i].has_value(), "a fixed order holds more than in the search");
      MEGATWIN_ASSERT(answers[i]->report.memory_peak == memory,
                      answers[i]->report.memory_peak.value, " bytes, ", memory.value,
                      " in the search");
      found.push_back(*std::move(answers[i]));
    }
    result_.evaluated.events = static_cast<std::int64_t>(places.size());
    order_best(places, std::move(found));
  }

  // Every plan that fits: the proof that none of those that were pruned is among the best. Last, so
  // that front and losers are of the same plans as without.
  void evaluate_rest() {
    candidates_.evaluate_all(options_.progress);
    std::vector<std::size_t> first = candidates_.ranking(), found = finalists_;
    first.resize(found.size());
    std::sort(first.begin(), first.end());
    std::sort(found.begin(), found.end());
    MEGATWIN_ASSERT(first == found, "a plan that was pruned is among the best");
  }

  // Schedules without a fixed order, for the sizes of the best that have one.
  void simulate_decided() {
    const std::vector<std::size_t> ranking = candidates_.ranking();
    for (const model::ScheduleKind kind : space_.decided) {
      std::size_t next = 0;
      const auto plans = decided_plans(
          job_, kind, static_cast<std::size_t>(options_.num_best), [&]() -> std::optional<Plan> {
            if (next == ranking.size()) return std::nullopt;
            return candidates_.plan(candidates_.fitting()[ranking[next++]]);
          });
      std::vector<ReportQuestion> questions;
      questions.reserve(plans.size());
      for (const Plan& plan : plans) {
        questions.push_back(
            {.kind = ReportQuestion::Kind::Decided, .plan = plan, .plain_time = {}});
      }
      auto found = reports_.ask(candidates_, questions, {});
      result_.evaluated.events += static_cast<std::int64_t>(plans.size());
      for (auto& plan : found) {
        if (plan) decided_.push_back(*std::move(plan));
      }
    }
    if (decided_.empty()) return;
    std::vector<FoundPlan> all = std::move(result_.best);
    all.insert(all.end(), decided_.begin(), decided_.end());
    result_.best.clear();
    for (const std::size_t i : order_of(all)) result_.best.push_back(std::move(all[i]));
    if (std::ssize(result_.best) > options_.num_best) {
      result_.best.resize(static_cast<std::size_t>(options_.num_best));
    }
  }

  // The best of each kind that is not among the best of all, beside the fixed orders that lost.
  void add_decided_losers() {
    for (const model::ScheduleKind kind : space_.decided) {
      const FoundPlan* first = nullptr;
      for (const FoundPlan& found : decided_) {
        const bool is_better = first == nullptr || paced(found.report.plan, found.plain_time) <
                                                       paced(first->report.plan, first->plain_time);
        if (found.report.plan.schedule == kind && is_better) first = &found;
      }
      const auto is_listed = [&](const FoundPlan& found) {
        return found.report.plan.schedule == kind;
      };
      if (first == nullptr) continue;
      if (std::any_of(result_.best.begin(), result_.best.end(), is_listed)) continue;
      result_.losers.insert(result_.losers.begin(),
                            explainer_.explain_slow(first->report.plan, winner().code));
    }
  }

  // Contention and disturbances may change the order; what could not be simulated with them is
  // last.
  void order_best(const std::vector<std::size_t>& places, std::vector<FoundPlan> found) {
    for (const std::size_t i : order_of(found)) {
      finalists_.push_back(places[i]);
      result_.best.push_back(std::move(found[i]));
    }
  }

  Seconds paced(const Plan& plan, Seconds time) const {
    return sim::paced(job_.plan.global_batch, plan.global_batch, time);
  }

  std::vector<std::size_t> order_of(const std::vector<FoundPlan>& found) const {
    std::vector<std::size_t> order(found.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const auto rank_of = [&](const FoundPlan& plan) {
        return std::tuple(plan.depth != reports_.depth(),
                          paced(plan.report.plan, plan.report.step_time));
      };
      return rank_of(found[a]) < rank_of(found[b]);
    });
    return order;
  }

  void rank_baseline() {
    if (!result_.baseline) return;
    int rank = 1;
    const Seconds own = paced(job_.plan, result_.baseline->plain_time);
    for (const FoundPlan& found : decided_) {
      if (paced(found.report.plan, found.plain_time) < own) ++rank;
    }
    for (const std::size_t place : candidates_.ranking()) {
      const Candidate& candidate = candidates_.fitting()[place];
      if (sim::paced(job_.plan.global_batch, candidate.batch, candidate.step_time()) < own) ++rank;
    }
    // Plans that were pruned are slower than the tenth best; a baseline behind that has no rank.
    if (options_.exhaustive || rank <= options_.num_best) result_.baseline_rank = rank;
  }

  const Candidate& winner() const { return candidates_.fitting()[finalists_.front()]; }

  void find_front() {
    EnergyFront front = energy_front(job_, candidates_, reports_,
                                     {.slack = kFrontSlack, .progress = options_.progress});
    result_.front_complete = front.complete;
    result_.evaluated.front = static_cast<std::int64_t>(front.simulated);
    for (const std::size_t i : spread(front.points)) {
      result_.front.push_back({std::move(front.reports[i])});
    }
  }

  // Of a long front, evenly spread points with the fastest, the leanest and the thriftiest.
  static std::vector<std::size_t> spread(const std::vector<FrontPoint>& points) {
    std::vector<std::size_t> all(points.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (points.size() <= kFrontMax) return all;
    const auto least = [&](auto FrontPoint::*what) {
      const auto place = std::min_element(
          points.begin(), points.end(),
          [&](const FrontPoint& a, const FrontPoint& b) { return a.*what < b.*what; });
      return static_cast<std::size_t>(place - points.begin());
    };
    std::set<std::size_t> kept = {least(&FrontPoint::memory), least(&FrontPoint::energy)};
    constexpr std::size_t kEven = kFrontMax - 2;
    for (std::size_t i = 0; i < kEven; ++i) kept.insert(i * (points.size() - 1) / (kEven - 1));
    return {kept.begin(), kept.end()};
  }

  // One value of one key that the winner has not.
  struct Other {
    SpaceKey key;
    std::uint16_t index;
  };

  // The best plan of each value that the winner does without, then the runners-up.
  void find_losers() {
    const Candidate best = winner();
    std::set<PlanCode> taken = {best.code};
    std::vector<PlanCode> slow, large;
    std::vector<Candidates::Filter> with_value;
    for (const Other& other : other_values(best.code)) {
      const ValueCount& count = candidates_.count(other.key, other.index);
      if (count.legal == 0) continue;
      if (count.fit == 0) {
        if (taken.insert(count.leanest->code).second) large.push_back(count.leanest->code);
        continue;
      }
      with_value.emplace_back(
          [other](const Candidate& candidate) { return candidate.code[other.key] == other.index; });
    }
    candidates_.evaluate_fastest(with_value);
    for (const Candidates::Filter& has_value : with_value) {
      if (const auto place = candidates_.fastest(has_value)) {
        const Candidate& candidate = candidates_.fitting()[*place];
        if (taken.insert(candidate.code).second) slow.push_back(candidate.code);
      }
    }
    for (const std::size_t place : candidates_.ranking()) {
      if (std::ssize(slow) + std::ssize(large) >= options_.num_losers) break;
      const Candidate& candidate = candidates_.fitting()[place];
      if (taken.insert(candidate.code).second) slow.push_back(candidate.code);
    }
    explain(best.code, slow, large);
  }

  std::vector<Other> other_values(const PlanCode& best) const {
    std::vector<Other> others;
    for (int i = 0; i < kNumSpaceKeys; ++i) {
      const auto key = static_cast<SpaceKey>(i);
      for (std::size_t index = 0; index < candidates_.num_values(key); ++index) {
        if (index != best[key]) others.push_back({key, static_cast<std::uint16_t>(index)});
      }
    }
    return others;
  }

  void explain(const PlanCode& best, const std::vector<PlanCode>& slow,
               const std::vector<PlanCode>& large) {
    result_.losers.resize(slow.size() + large.size());
    std::atomic<std::size_t> done = 0;
    const auto question_of = [&](std::size_t i) -> LoserQuestion {
      const bool fits = i < slow.size();
      return {.plan = fits ? slow[i] : large[i - slow.size()], .fits = fits, .winner = best};
    };
    const auto add = [&](std::size_t i, Loser loser) {
      result_.losers[i] = std::move(loser);
      report_progress("asking why others lost", ++done, result_.losers.size());
    };
    candidates_.run(
        {.kind = WorkKind::Losers,
         .count = result_.losers.size(),
         .here = [&](std::size_t i, int /*thread*/) { add(i, explainer_.explain(question_of(i))); },
         .request = [&](std::size_t i, ByteWriter& out) { out.put(question_of(i)); },
         .take =
             [&](std::size_t i, ByteReader& in) {
               add(i, read_loser(plan_of(job_, space_, question_of(i).plan), in));
             }});
    std::stable_sort(result_.losers.begin(), result_.losers.begin() + std::ssize(slow),
                     [&](const Loser& a, const Loser& b) {
                       return paced(a.plan, *a.step_time) < paced(b.plan, *b.step_time);
                     });
    if (std::ssize(result_.losers) > options_.num_losers) {
      result_.losers.resize(static_cast<std::size_t>(options_.num_losers));
    }
  }

  // Every key of the winner turned to each other value, and nothing else.
  void find_switches() {
    const Plan plan = candidates_.plan(winner());
    SearchSpace both = space_;  // Overlap switches both ways, to see what each is worth.
    both.layers = {LayerSplit::Even, LayerSplit::Ends, LayerSplit::Auto};
    for (auto* overlap : {&both.overlap_grad_reduce, &both.overlap_param_gather,
                          &both.overlap_tensor_parallel, &both.overlap_p2p}) {
      *overlap = {(*overlap)[0], !(*overlap)[0]};
    }
    SearchWorker& worker = candidates_.worker(0);
    for (int i = 0; i < kNumSpaceKeys; ++i) {
      const auto key = static_cast<SpaceKey>(i);
      for (std::size_t index = 0; key != SpaceKey::Data && index < num_values(both, key); ++index) {
        add_switch(worker, plan, key, with_value(both, plan, key, index));
      }
    }
  }

  Plan with_value(const SearchSpace& space, const Plan& plan, SpaceKey key,
                  std::size_t index) const {
    PlanCode code;
    code[key] = static_cast<std::uint16_t>(index);
    Plan source = plan_of(job_, space, code);
    // A lone stage has no schedule; the one asked for is what counts here.
    source.schedule = space.schedule[code[SpaceKey::Schedule]];
    Plan changed = plan;
    copy_value(source, key, changed);
    // The replicas follow the sizes; the layers follow the stages.
    changed.data = model::data_from_gpus(changed, job_.cluster.num_gpus()).value_or(0);
    const std::size_t split =
        key == SpaceKey::Layers ? index : std::size_t{winner().code[SpaceKey::Layers]};
    const auto& splits = key == SpaceKey::Layers ? space.layers : space_.layers;
    deal_layers(job_, job_.plan, splits[split], changed);
    return changed;
  }

  void add_switch(SearchWorker& worker, const Plan& plan, SpaceKey key, const Plan& changed) {
    SwitchEffect effect{
        .key = key, .from = value_text(plan, key), .to = value_text(changed, key), .plan = changed};
    const auto is_told = [&](const SwitchEffect& other) {
      return other.key == key && other.to == effect.to;
    };
    if (effect.from == effect.to || !bears_on(job_, plan, key)) return;
    if (std::any_of(result_.switches.begin(), result_.switches.end(), is_told)) return;
    const auto problems =
        model::plan_problems(job_.transformer, changed, job_.cluster, job_.software);
    if (!problems.empty()) {
      effect.refusal = problems.front();
    } else {
      const PricedPlan& priced = worker.pricer.price(changed);
      if (is_endless(changed, priced)) return;
      effect.memory = worker.memory(changed, priced);
      effect.step_time = model::to_seconds(worker.evaluator.makespan(changed, priced));
      effect.fits = *effect.memory <= memory_limit_;
      ++result_.evaluated.switches;
    }
    result_.switches.push_back(std::move(effect));
  }

  const Job& job_;
  const SearchSpace& space_;
  const SearchOptions& options_;
  Bytes memory_limit_;
  PlanReports reports_;
  LoserExplainer explainer_;
  SharedWork shared_;
  Candidates candidates_;
  std::vector<std::size_t> finalists_;  // Places of the best fixed orders, as checked.
  std::vector<FoundPlan> decided_;      // The others that were simulated and fit.
  SearchResult result_;
  std::mutex progress_mutex_;
};

}  // namespace

SearchResult search(const Job& job, const SearchSpace& space, const SearchOptions& options) {
  SearchOptions resolved = options;
  resolved.num_threads = search_threads(options);
  const Job plain = plain_job(job);
  const Job checked = checked_job(job, resolved);
  return Search(plain, checked, space, resolved).run();
}

}  // namespace megatwin::sim
