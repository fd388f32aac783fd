#include "sim/search/best_plan.h"

#include <algorithm>
#include <thread>

#include "sim/search/loser_reasons.h"

namespace megatwin::sim {

std::optional<SimulationReport> best_plan(const model::Job& job, const SearchSpace& space,
                                          const BestPlanOptions& options) {
  const model::Bytes limit =
      (1 - options.memory_margin) * job.cluster.groups.front().gpu.memory_usable;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Candidates candidates(job, space, limit, options.num_threads > 0 ? options.num_threads : cores);
  candidates.enumerate(options.progress);
  if (candidates.fitting().empty()) return std::nullopt;
  candidates.evaluate_best(1, options.progress);
  const Candidate& best = candidates.fitting()[candidates.ranking().front()];
  return report_of_plan(job, candidates.plan(best), {.sensitivities = false});
}

}  // namespace megatwin::sim
