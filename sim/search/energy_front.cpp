#include "sim/search/energy_front.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

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
  FrontSearch(const model::Job& job, Candidates& candidates, const PlanReports& reports,
              const EnergyFrontOptions& options)
      : job_(job), candidates_(candidates), reports_(reports), options_(options) {}

  EnergyFront run() {
    candidates_.evaluate_front(options_.slack, options_.progress);
    measure(fast_and_lean());
    const std::vector<std::size_t> order = by_energy();
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
  template <class Amount>
  Amount of_job(const Candidate& candidate, Amount amount) const {
    return paced(job_.plan.global_batch, candidate.batch, amount);
  }

  // All plans, those that may need least energy first.
  std::vector<std::size_t> by_energy() const {
    std::vector<std::pair<Joules, std::size_t>> energies;
    for (std::size_t place = 0; place < candidates_.fitting().size(); ++place) {
      energies.emplace_back(of_job(plan(place), plan(place).energy_bound), place);
    }
    std::sort(energies.begin(), energies.end());
    std::vector<std::size_t> order;
    order.reserve(energies.size());
    for (const auto& [energy, place] : energies) order.push_back(place);
    return order;
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
    std::vector<ReportQuestion> questions;
    for (const std::size_t place : places) {
      questions.push_back({.plan = candidates_.plan(plan(place)), .plain_time = {}});
    }
    auto found = reports_.ask(candidates_, questions, {});
    for (std::size_t i = 0; i < places.size(); ++i) {
      SimulationReport& report = found[i]->report;
      const Candidate& candidate = plan(places[i]);
      points_.push_back({places[i], of_job(candidate, report.step_time), report.memory_peak,
                         of_job(candidate, report.energy_per_step)});
      reports_of_.emplace(places[i], std::move(report));
    }
    if (options_.progress) {
      options_.progress({"weighing energy", static_cast<std::int64_t>(points_.size()),
                         static_cast<std::int64_t>(options_.simulated_max)});
    }
  }

  // Whether something simulated is no slower than the plan can be, and no larger or hungrier.
  bool is_beaten(std::size_t place) {
    const Candidate& candidate = plan(place);
    // Both with what the step has beside its tasks, as the simulated ones.
    const Seconds bound = model::to_seconds(candidate.bound) + candidate.overhead;
    const Seconds least = candidate.evaluated ? candidate.step_time() : bound;
    const Joules energy = candidate.energy_bound + idle_energy(job_, least - bound);
    const Seconds least_time = of_job(candidate, least);
    const Joules least_energy = of_job(candidate, energy);
    const auto beats = [&](const FrontPoint& point) {
      if (point.place == place) return true;
      return point.time <= least_time && is_as_small(point, candidate.memory, least_energy);
    };
    // Plans that need alike are mostly beaten by one and the same.
    if (last_ < points_.size() && beats(points_[last_])) return true;
    const auto found = std::find_if(points_.begin(), points_.end(), beats);
    if (found == points_.end()) return false;
    last_ = static_cast<std::size_t>(found - points_.begin());
    return true;
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
      if (beaten) continue;
      front_.points.push_back(point);
      front_.reports.push_back(std::move(reports_of_.at(point.place)));
    }
  }

  const model::Job& job_;
  Candidates& candidates_;
  const PlanReports& reports_;
  const EnergyFrontOptions& options_;
  std::vector<FrontPoint> points_;                      // Everything simulated,
  std::map<std::size_t, SimulationReport> reports_of_;  // by place.
  std::size_t last_ = 0;                                // The point that beat a plan last.
  EnergyFront front_;
};

}  // namespace

EnergyFront energy_front(const model::Job& job, Candidates& candidates, const PlanReports& reports,
                         const EnergyFrontOptions& options) {
  return FrontSearch(job, candidates, reports, options).run();
}

}  // namespace megatwin::sim
