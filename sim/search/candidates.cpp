#include "sim/search/candidates.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "sim/search/family_result.h"
#include "sim/search/parallel_for.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Instant;
using model::Job;
using model::Plan;

// Compiled programs that all threads together may keep.
constexpr std::size_t kCompiledBytes = 256U << 20U;
constexpr std::size_t kRoundFirst = 64;
constexpr std::size_t kRoundMax = 1024;

bool ranks_before(const Candidate& a, const Candidate& b) {
  return std::tuple(a.pace(), a.memory, a.code) < std::tuple(b.pace(), b.memory, b.code);
}

// The best times so far, of which the worst says what can still be pruned.
class BestTimes {
 public:
  explicit BestTimes(std::size_t count) : count_(count) {}

  void add(double pace) {
    times_.insert(std::upper_bound(times_.begin(), times_.end(), pace), pace);
    if (times_.size() > count_) times_.pop_back();
  }
  bool prunes(double bound) const { return times_.size() == count_ && bound > times_.back(); }

 private:
  std::size_t count_;
  std::vector<double> times_;  // A sequence.
};

// Takes plans in the order of their bounds, in rounds, until none left can be among the best.
class BestFirst {
 public:
  // `among` may be empty: all.
  BestFirst(const std::vector<Candidate>& plans, std::size_t count, Candidates::Filter among)
      : plans_(plans),
        among_(std::move(among)),
        best_(count),
        round_size_(std::min(kRoundFirst, std::max<std::size_t>(4 * count, 8))) {}

  // Places of the plans to evaluate next; none: that was all.
  const std::vector<std::size_t>& next_round() {
    round_.clear();
    for (; next_ < plans_.size() && round_.size() < round_size_; ++next_) {
      if (best_.prunes(plans_[next_].bound_pace())) {
        next_ = plans_.size();
        break;
      }
      if (!among_ || among_(plans_[next_])) round_.push_back(next_);
    }
    round_size_ = std::min(2 * round_size_, kRoundMax);
    return round_;
  }
  // The plans of the round are evaluated.
  void finish_round() {
    for (const std::size_t place : round_) best_.add(plans_[place].pace());
  }
  std::size_t num_seen() const { return next_; }

 private:
  const std::vector<Candidate>& plans_;
  Candidates::Filter among_;
  BestTimes best_;
  std::size_t round_size_;
  std::size_t next_ = 0;
  std::vector<std::size_t> round_;
};

}  // namespace

Candidates::Candidates(const Job& job, const SearchSpace& space, Bytes memory_limit,
                       int num_threads, SharedWork* shared)
    : job_(job),
      space_(space),
      memory_limit_(memory_limit),
      shared_(shared),
      counts_(no_counts(space)) {
  MEGATWIN_ASSERT(num_threads >= 1, num_threads);
  for (int thread = 0; thread < num_threads; ++thread) {
    workers_.push_back(std::make_unique<SearchWorker>(
        job, kCompiledBytes / static_cast<std::size_t>(num_threads)));
  }
}

void Candidates::merge(const FamilyResult& result) {
  num_legal_ += result.num_legal;
  fitting_.insert(fitting_.end(), result.fitting.begin(), result.fitting.end());
  if (result.leanest && is_leaner(*result.leanest, leanest_)) leanest_ = result.leanest;
  for (std::size_t key = 0; key < counts_.size(); ++key) {
    for (std::size_t i = 0; i < counts_[key].size(); ++i) {
      const ValueCount& found = result.counts[key][i];
      counts_[key][i].legal += found.legal;
      counts_[key][i].fit += found.fit;
      if (found.leanest && is_leaner(*found.leanest, counts_[key][i].leanest)) {
        counts_[key][i].leanest = found.leanest;
      }
    }
  }
}

void Candidates::run(const Pieces& pieces) {
  if (shared_ != nullptr) {
    shared_->run(pieces, num_threads());
  } else {
    parallel_for(pieces.count, num_threads(), pieces.here);
  }
}

void Candidates::enumerate(const ProgressCallback& progress) {
  const std::vector<PlanFamily> families = plan_families(job_, space_);
  std::mutex merge_mutex;
  std::int64_t done = 0;
  const auto add = [&](const FamilyResult& result) {
    // Sums and minima: the order of merging does not show. The list is sorted below.
    const std::lock_guard lock(merge_mutex);
    merge(result);
    ++done;
    if (progress) {
      progress({kPricingPlans, done, static_cast<std::int64_t>(families.size())});
    }
  };
  run({.kind = WorkKind::Families,
       .count = families.size(),
       .neighbours_share = true,
       .here =
           [&](std::size_t i, int thread) {
             add(family_result(job_, space_, memory_limit_, families[i], worker(thread)));
           },
       .request = [](std::size_t /*i*/, ByteWriter& /*out*/) {},  // All list the same families.
       .take = [&](std::size_t /*i*/, ByteReader& in) { add(read_family_result(in)); }});
  std::sort(fitting_.begin(), fitting_.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.bound_pace(), a.code) < std::tuple(b.bound_pace(), b.code);
  });
}

std::optional<Instant> Candidates::stored_time(const PlanCode& code) const {
  const auto found =
      std::lower_bound(stored_.begin(), stored_.end(), code,
                       [](const StoredTime& stored, const PlanCode& c) { return stored.code < c; });
  if (found == stored_.end() || found->code != code) return std::nullopt;
  return found->time;
}

bool Candidates::is_true(const StoredTime& stored) {
  for (const Candidate& candidate : fitting_) {
    if (candidate.code != stored.code) continue;
    return candidate.bound <= stored.time &&
           worker(0).time(job_, space_, candidate.code) == stored.time;
  }
  return false;  // Only plans that fit are ever stored.
}

void Candidates::use(ResultStore& store) {
  constexpr std::size_t kTried = 3;
  store_ = &store;
  stored_ = store.load();
  for (std::size_t i = 0; i < std::min(kTried, stored_.size()); ++i) {
    if (is_true(stored_[i * (stored_.size() - 1) / (kTried - 1)])) continue;
    store.clear();
    stored_.clear();
  }
}

PlanShape Candidates::shape(const Candidate& candidate) const {
  const int pipeline = space_.pipeline[candidate.code[SpaceKey::Pipeline]];
  // As plan_of() has it.
  const auto schedule = pipeline == 1 ? model::ScheduleKind::OneForwardOneBackward
                                      : space_.schedule[candidate.code[SpaceKey::Schedule]];
  return {schedule, pipeline, space_.model_chunks[candidate.code[SpaceKey::ModelChunks]],
          candidate.micro_batches};
}

void Candidates::evaluate(std::span<const std::size_t> places, const ProgressCallback& progress) {
  struct Work {
    std::int64_t tasks;
    PlanShape shape;
    std::size_t place;
  };
  std::vector<Work> work;
  for (const std::size_t place : places) {
    Candidate& candidate = fitting_[place];
    if (candidate.evaluated) continue;
    ++num_evaluated_;
    if (const auto stored = stored_time(candidate.code)) {
      candidate.time = *stored;
      candidate.evaluated = true;
    } else {
      const PlanShape its_shape = shape(candidate);
      work.push_back({num_tasks(its_shape), its_shape, place});
    }
  }
  std::sort(work.begin(), work.end(), [&](const Work& a, const Work& b) {
    // Long ones first, so that no thread is left alone with one at the end; within a shape those
    // that share prices side by side.
    return std::tie(b.tasks, a.shape, fitting_[a.place].code) <
           std::tie(a.tasks, b.shape, fitting_[b.place].code);
  });
  // Plans of one shape go to one thread, unless there are so many that others would wait.
  constexpr std::size_t kRunMax = 16;
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const bool same = i > 0 && work[i].shape == work[i - 1].shape && i - starts.back() < kRunMax;
    if (!same) starts.push_back(i);
  }
  starts.push_back(work.size());
  std::vector<std::size_t> in_order;
  in_order.reserve(work.size());
  for (const Work& one : work) in_order.push_back(one.place);
  const auto places_of = [&](std::size_t run) {
    return std::span(in_order).subspan(starts[run], starts[run + 1] - starts[run]);
  };
  std::mutex progress_mutex;
  std::size_t done = 0;
  const auto add = [&](std::size_t run, std::span<const Instant> times) {
    finish(places_of(run), times);
    if (!progress) return;
    const std::lock_guard lock(progress_mutex);
    done += times.size();
    progress({"evaluating plans", static_cast<std::int64_t>(done),
              static_cast<std::int64_t>(work.size())});
  };
  run({.kind = WorkKind::Times,
       .count = starts.size() - 1,
       .here =
           [&](std::size_t i, int thread) {
             std::vector<Instant> times;
             for (const std::size_t place : places_of(i)) {
               times.push_back(worker(thread).time(job_, space_, fitting_[place].code));
             }
             add(i, times);
           },
       .request =
           [&](std::size_t i, ByteWriter& out) {
             std::vector<PlanCode> codes;
             for (const std::size_t place : places_of(i)) codes.push_back(fitting_[place].code);
             out.put_list(codes);
           },
       .take = [&](std::size_t i, ByteReader& in) { add(i, in.list<Instant>()); }});
}

void Candidates::finish(std::span<const std::size_t> places, std::span<const Instant> times) {
  std::vector<StoredTime> finished;
  for (std::size_t i = 0; i < places.size(); ++i) {
    Candidate& candidate = fitting_[places[i]];
    candidate.time = times[i];
    candidate.evaluated = true;
    MEGATWIN_ASSERT(candidate.bound <= candidate.time,
                    "a plan beats its bound: ", candidate.bound.ns, " against ", candidate.time.ns);
    finished.push_back({candidate.code, candidate.time});
  }
  if (store_ != nullptr) store_->add(finished);
}

void Candidates::evaluate_best(std::size_t count, const ProgressCallback& progress) {
  BestFirst search(fitting_, count, {});
  for (;;) {
    const std::vector<std::size_t>& round = search.next_round();
    if (round.empty()) return;
    evaluate(round);
    search.finish_round();
    if (progress) {
      progress({"evaluating plans", static_cast<std::int64_t>(search.num_seen()),
                static_cast<std::int64_t>(fitting_.size())});
    }
  }
}

// In step, so that one round has work for many threads; what is evaluated is the same as one by
// one.
void Candidates::evaluate_fastest(std::span<const Filter> sets) {
  std::vector<BestFirst> searches;
  for (const Filter& set : sets) searches.emplace_back(fitting_, 1, set);
  for (;;) {
    std::vector<std::size_t> all;
    for (BestFirst& search : searches) {
      const std::vector<std::size_t>& round = search.next_round();
      all.insert(all.end(), round.begin(), round.end());
    }
    if (all.empty()) return;
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    evaluate(all);
    for (BestFirst& search : searches) search.finish_round();
  }
}

void Candidates::evaluate_all(const ProgressCallback& progress) {
  std::vector<std::size_t> all(fitting_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  evaluate(all, progress);
}

void Candidates::evaluate_front(double slack, const ProgressCallback& progress) {
  std::vector<std::size_t> by_memory(fitting_.size());
  std::iota(by_memory.begin(), by_memory.end(), std::size_t{0});
  std::sort(by_memory.begin(), by_memory.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(fitting_[a].memory, a) < std::tuple(fitting_[b].memory, b);
  });
  std::int64_t rounds = 0;
  for (;;) {
    const std::vector<std::size_t> open = open_places(by_memory, slack);
    if (open.empty()) return;
    evaluate(open);
    if (progress) progress({"weighing memory against time", ++rounds, 0});
  }
}

// Of the plans that nothing evaluated beats yet, the most promising of each stretch of memory.
std::vector<std::size_t> Candidates::open_places(const std::vector<std::size_t>& by_memory,
                                                 double slack) const {
  std::vector<std::size_t> open;
  std::optional<double> fastest;  // Of the evaluated plans up to `reach`, a sequence.
  std::size_t reach = 0;
  Bytes stretch_end{-1};
  for (const std::size_t place : by_memory) {
    const Candidate& candidate = fitting_[place];
    const Bytes allowed = (1 + slack) * candidate.memory;
    for (; reach < by_memory.size() && fitting_[by_memory[reach]].memory <= allowed; ++reach) {
      const Candidate& other = fitting_[by_memory[reach]];
      if (other.evaluated && (!fastest || other.pace() < *fastest)) fastest = other.pace();
    }
    if (candidate.evaluated || (fastest && candidate.bound_pace() >= *fastest)) continue;
    if (candidate.memory <= stretch_end) {
      open.back() = std::min(open.back(), place);  // Places are in the order of bounds.
    } else {
      open.push_back(place);
      stretch_end = allowed;
    }
  }
  return open;
}

std::vector<std::size_t> Candidates::ranking() const {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < fitting_.size(); ++place) {
    if (fitting_[place].evaluated) places.push_back(place);
  }
  std::sort(places.begin(), places.end(),
            [&](std::size_t a, std::size_t b) { return ranks_before(fitting_[a], fitting_[b]); });
  return places;
}

std::optional<std::size_t> Candidates::fastest(const Filter& among) const {
  std::optional<std::size_t> first;
  for (std::size_t place = 0; place < fitting_.size(); ++place) {
    if (!fitting_[place].evaluated || !among(fitting_[place])) continue;
    if (!first || ranks_before(fitting_[place], fitting_[*first])) first = place;
  }
  return first;
}

}  // namespace megatwin::sim
