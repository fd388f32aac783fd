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
// Where nothing is pruned between rounds; each round ends with threads that wait for the last one.
constexpr std::size_t kRoundOfAll = 4096;

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
      progress({"pricing plans", done, static_cast<std::int64_t>(families.size())});
    }
  };
  run({.kind = WorkKind::Families,
       .count = families.size(),
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
    return candidate.bound <= stored.time && worker(0).time(plan(candidate)) == stored.time;
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

void Candidates::evaluate(std::span<const std::size_t> places) {
  struct Work {
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
      work.push_back({shape_of(plan(candidate)), place});
    }
  }
  std::sort(work.begin(), work.end(), [](const Work& a, const Work& b) {
    // Long ones first, so that no thread is left alone with one at the end.
    return std::tuple(-num_tasks(a.shape), a.shape, a.place) <
           std::tuple(-num_tasks(b.shape), b.shape, b.place);
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
  for (const Work& one : work) in_order.push_back(one.place);
  const auto places_of = [&](std::size_t run) {
    return std::span(in_order).subspan(starts[run], starts[run + 1] - starts[run]);
  };
  run({.kind = WorkKind::Times,
       .count = starts.size() - 1,
       .here =
           [&](std::size_t i, int thread) {
             std::vector<Instant> times;
             for (const std::size_t place : places_of(i)) {
               times.push_back(worker(thread).time(plan(fitting_[place])));
             }
             finish(places_of(i), times);
           },
       .request =
           [&](std::size_t i, ByteWriter& out) {
             std::vector<PlanCode> codes;
             for (const std::size_t place : places_of(i)) codes.push_back(fitting_[place].code);
             out.put_list(codes);
           },
       .take = [&](std::size_t i, ByteReader& in) { finish(places_of(i), in.list<Instant>()); }});
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

void Candidates::evaluate_best(std::size_t count, const ProgressCallback& progress,
                               const std::function<bool(const Candidate&)>& among) {
  BestTimes best(count);
  std::size_t next = 0;
  std::size_t round_size = std::min(kRoundFirst, std::max<std::size_t>(4 * count, 8));
  while (next < fitting_.size() && !best.prunes(fitting_[next].bound_pace())) {
    std::vector<std::size_t> round;
    while (next < fitting_.size() && round.size() < round_size &&
           !best.prunes(fitting_[next].bound_pace())) {
      if (!among || among(fitting_[next])) round.push_back(next);
      ++next;
    }
    evaluate(round);
    for (const std::size_t place : round) best.add(fitting_[place].pace());
    round_size = std::min(2 * round_size, kRoundMax);
    if (progress) {
      progress({"evaluating plans", static_cast<std::int64_t>(next),
                static_cast<std::int64_t>(fitting_.size())});
    }
  }
}

void Candidates::evaluate_all(const ProgressCallback& progress) {
  std::vector<std::size_t> round;
  for (std::size_t place = 0; place < fitting_.size(); ++place) {
    round.push_back(place);
    if (round.size() < kRoundOfAll && place + 1 < fitting_.size()) continue;
    evaluate(round);
    round.clear();
    if (progress) {
      progress({"evaluating plans", static_cast<std::int64_t>(place + 1),
                static_cast<std::int64_t>(fitting_.size())});
    }
  }
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

std::optional<std::size_t> Candidates::fastest(
    const std::function<bool(const Candidate&)>& among) const {
  std::optional<std::size_t> first;
  for (std::size_t place = 0; place < fitting_.size(); ++place) {
    if (!fitting_[place].evaluated || !among(fitting_[place])) continue;
    if (!first || ranks_before(fitting_[place], fitting_[*first])) first = place;
  }
  return first;
}

}  // namespace megatwin::sim
