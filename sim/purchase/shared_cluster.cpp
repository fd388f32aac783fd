#include "sim/purchase/shared_cluster.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

Seconds lateness(const SharedJob& job, Seconds end) {
  return job.deadline && end > *job.deadline ? end - *job.deadline : Seconds{};
}

// The fewest machines that finish by `end`; nothing when no number of them does.
const SharedJob::Point* fewest(const SharedJob& job, Seconds end) {
  for (const SharedJob::Point& point : job.points) {
    if (point.duration <= end) return &point;
  }
  return nullptr;
}

// When every job may end at the latest if none is to be more than `late` late and all are to be
// done by `makespan`.
Seconds latest_end(const SharedJob& job, Seconds late, Seconds makespan) {
  return job.deadline ? std::min(*job.deadline + late, makespan) : makespan;
}

std::optional<SharedSchedule> divide(std::span<const SharedJob> jobs, int machines, Seconds late,
                                     Seconds makespan) {
  SharedSchedule schedule;
  int used = 0;
  for (const SharedJob& job : jobs) {
    const SharedJob::Point* point = fewest(job, latest_end(job, late, makespan));
    if (point == nullptr) return std::nullopt;
    used += point->machines;
    if (used > machines) return std::nullopt;
    schedule.runs.push_back({point->machines, {}, point->duration, lateness(job, point->duration)});
    schedule.makespan = std::max(schedule.makespan, point->duration);
    schedule.late_max = std::max(schedule.late_max, schedule.runs.back().late);
  }
  return schedule;
}

// The smallest of `values`, ascending, at which `possible` holds; it goes on holding from there.
template <class Possible>
std::optional<Seconds> smallest(std::vector<Seconds> values, Possible possible) {
  std::sort(values.begin(), values.end());
  const auto found =
      std::partition_point(values.begin(), values.end(), [&](Seconds v) { return !possible(v); });
  if (found == values.end()) return std::nullopt;
  return *found;
}

std::optional<SharedSchedule> side_by_side(std::span<const SharedJob> jobs, int machines) {
  std::vector<Seconds> lates = {Seconds{}}, ends;
  for (const SharedJob& job : jobs) {
    for (const SharedJob::Point& point : job.points) {
      lates.push_back(lateness(job, point.duration));
      ends.push_back(point.duration);
    }
  }
  const auto late = smallest(
      lates, [&](Seconds allowed) { return divide(jobs, machines, allowed, kNever).has_value(); });
  if (!late) return std::nullopt;
  const auto end = smallest(
      ends, [&](Seconds makespan) { return divide(jobs, machines, *late, makespan).has_value(); });
  MEGATWIN_ASSERT(end.has_value());
  return divide(jobs, machines, *late, *end);
}

SharedSchedule one_after_another(std::span<const SharedJob> jobs, int machines) {
  std::vector<std::size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return jobs[a].deadline.value_or(kNever) < jobs[b].deadline.value_or(kNever);
  });
  SharedSchedule schedule{.side_by_side = false};
  schedule.runs.resize(jobs.size());
  for (const std::size_t i : order) {
    const SharedJob::Point* best = nullptr;
    for (const SharedJob::Point& point : jobs[i].points) {
      if (point.machines > machines) break;
      if (best == nullptr || point.duration < best->duration) best = &point;
    }
    MEGATWIN_ASSERT(best != nullptr, jobs[i].name);
    const Seconds start = schedule.makespan;
    schedule.makespan = start + best->duration;
    const Seconds late = lateness(jobs[i], schedule.makespan);
    schedule.runs[i] = {best->machines, start, schedule.makespan, late};
    schedule.late_max = std::max(schedule.late_max, late);
  }
  return schedule;
}

}  // namespace

std::vector<SharedSchedule> share_cluster(std::span<const SharedJob> jobs, int machines) {
  MEGATWIN_ASSERT(!jobs.empty() && machines >= 1, jobs.size(), " jobs, ", machines, " machines");
  std::vector<SharedSchedule> ways;
  if (auto schedule = side_by_side(jobs, machines)) ways.push_back(*std::move(schedule));
  ways.push_back(one_after_another(jobs, machines));
  std::stable_sort(ways.begin(), ways.end(), [](const auto& a, const auto& b) {
    return std::tie(a.late_max, a.makespan) < std::tie(b.late_max, b.makespan);
  });
  return ways;
}

}  // namespace megatwin::sim
