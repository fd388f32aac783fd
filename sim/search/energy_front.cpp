#include "sim/search/energy_front.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "sim/search/loser_reasons.h"
#include "sim/search/parallel_for.h"
#include "sim/search/step_energy.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Joules;
using model::Seconds;

// Plans simulated at once, whatever the number of threads: the next ones depend on what came out.
constexpr std::size_t kRound = 16;

class FrontSearch {
 public:
  FrontSearch(const model::Job& job, Candidates& candidates, const EnergyFrontOptions& options)
      : job_(job), candidates_(candidates), options_(options) {}

  EnergyFront run() {
    candidates_.evaluate_front(options_.slack, options_.progress);
    measure(fast_and_lean());
    std::vector<std::size_t> order(candidates_.fitting().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(share(plan(a)) * plan(a).energy_bound.value, a) <
             std::tuple(share(plan(b)) * plan(b).energy_bound.value, b);
    });
    for (std::size_t next = 0; next < order.size() && front_.complete;) {
      std::vector<std::size_t> open;
      for (; next < order.size() && open.size() < kRound; ++next) {
        if (!is_beaten(order[next])) open.push_back(order[next]);
      }
      candidates_.evaluate(open);  // Bounds get tighter: fewer are left to simulate.
      std::erase_if(open, [&](std::size_t place) { return is_beaten(place); });
      front_.complete = points_.size() + open.size() <= options_.simulated_max;
      if (front_.complete) measure(open);
    }
    front_.simulated = points_.size();
    keep_unbeaten();
    return std::move(front_);
  }

 private:
  const Candidate& plan(std::size_t place) const { return candidates_.fitting()[place]; }

  // Of the plan's step, for as many sequences as the job's own batch has.
  double share(const Candidate& candidate) const {
    return static_cast<double>(job_.plan.global_batch) / static_cast<double>(candidate.batch);
  }

  // The front of time and memory alone.
  std::vector<std::size_t> fast_and_lean() const {
    std::vector<std::size_t> places;
    Bytes leanest{1e300};
    for (const std::size_t place : candidates_.ranking()) {
      if ((1 + options_.slack) * plan(place).memory >= leanest) continue;
      leanest = plan(place).memory;
      places.push_back(place);
    }
    return places;
  }

  void measure(std::span<const std::size_t> places) {
    std::vector<FrontPoint> found(places.size());
    parallel_for(places.size(), candidates_.num_threads(), [&](std::size_t i, int /*thread*/) {
      const SimulationReport report =
          report_of_plan(job_, candidates_.plan(plan(places[i])), {.sensitivities = false});
      const double part = share(plan(places[i]));
      found[i] = {places[i],
                  part * report.step_time,
                  report.memory_peak,
                  {part * report.energy_per_step.value}};
    });
    points_.insert(points_.end(), found.begin(), found.end());
    if (options_.progress) {
      options_.progress({"weighing energy", static_cast<std::int64_t>(points_.size()),
                         static_cast<std::int64_t>(options_.simulated_max)});
    }
  }

  // Whether something simulated is no slower than the plan can be, and no larger or hungrier.
  bool is_beaten(std::size_t place) const {
    const Candidate& candidate = plan(place);
    const Seconds bound = model::to_seconds(candidate.bound);
    const Seconds least = candidate.evaluated ? model::to_seconds(candidate.time) : bound;
    const Joules energy = candidate.energy_bound + idle_energy(job_, least - bound);
    const Seconds least_time = share(candidate) * least;
    const Joules least_energy{share(candidate) * energy.value};
    return std::any_of(points_.begin(), points_.end(), [&](const FrontPoint& point) {
      if (point.place == place) return true;
      return point.time <= least_time && is_as_small(point, candidate.memory, least_energy);
    });
  }

  bool is_as_small(const FrontPoint& point, Bytes memory, Joules energy) const {
    return point.memory <= (1 + options_.slack) * memory &&
           point.energy.value <= (1 + options_.slack) * energy.value;
  }

  void keep_unbeaten() {
    std::sort(points_.begin(), points_.end(), [](const FrontPoint& a, const FrontPoint& b) {
      return std::tuple(a.time, a.memory, a.energy, a.place) <
             std::tuple(b.time, b.memory, b.energy, b.place);
    });
    for (const FrontPoint& point : points_) {
      const bool beaten =
          std::any_of(front_.points.begin(), front_.points.end(), [&](const FrontPoint& faster) {
            return is_as_small(faster, point.memory, point.energy);
          });
      if (!beaten) front_.points.push_back(point);
    }
  }

  const model::Job& job_;
  Candidates& candidates_;
  const EnergyFrontOptions& options_;
  std::vector<FrontPoint> points_;  // Everything simulated.
  EnergyFront front_;
};

}  // namespace

EnergyFront energy_front(const model::Job& job, Candidates& candidates,
                         const EnergyFrontOptions& options) {
  return FrontSearch(job, candidates, options).run();
}

}  // namespace megatwin::sim
