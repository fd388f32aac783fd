// Why a plan lost: the terms that cost it more than they cost the winner, such that if neither of
// the two paid them the plan would have won. Found by simulating both again with the effects
// switched off.
#ifndef MEGATWIN_SIM_SEARCH_LOSER_REASONS_H_
#define MEGATWIN_SIM_SEARCH_LOSER_REASONS_H_

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "model/job.h"
#include "sim/compiled_pipeline.h"
#include "sim/search/search.h"
#include "sim/simulate.h"

namespace megatwin::sim {

// Steps of one plan with effects left out, each set of them simulated once. Thread-safe.
class TimesWithout {
 public:
  TimesWithout(const model::Job& job, model::Plan plan) : job_(job), plan_(std::move(plan)) {}

  const model::Plan& plan() const { return plan_; }
  model::Seconds without(const std::set<std::string>& effects);

 private:
  const model::Job& job_;
  model::Plan plan_;
  std::mutex mutex_;
  PipelineCache cache_;
  std::map<std::set<std::string>, model::Seconds> times_;
};

// The terms of a plan that fits and is slower than `winner`, which all losers share. None when it
// is as fast, and lost for its memory or its place in the list, or won but for what finalists are
// checked with.
Loser slow_loser(const model::Job& job, const model::Plan& plan, TimesWithout& winner);

// A plan that needs more than `memory_limit`.
Loser large_loser(const model::Job& job, const model::Plan& plan, model::Bytes memory_limit);

// The simulated report of a plan, whether it fits or not.
// Requires: the plan is legal.
SimulationReport report_of_plan(const model::Job& job, const model::Plan& plan,
                                const SimulateOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_LOSER_REASONS_H_
