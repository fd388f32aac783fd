#include "cli/real_world.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/policy_library.h"
#include "model/assert.h"
#include "scenarios/gpu_profile_reader.h"
#include "scenarios/scenario.h"
#include "sim/simulate.h"

namespace megatwin::cli {
namespace {

sim::EngineChoice engine_of(const std::string& name) {
  if (name == "dataflow") return sim::EngineChoice::Dataflow;
  if (name == "events") return sim::EngineChoice::Events;
  return sim::EngineChoice::Auto;
}

sim::PlanRefusal refusal_of(const scenarios::UnreadPoint& point) {
  sim::PlanRefusal refusal{.code = "unreadable_point",
                           .message = "the scenario with " + point.settings + " is none"};
  for (const model::Diagnostic& fault : point.faults) {
    std::string place = fault.file;
    if (fault.line > 0) place += ":" + std::to_string(fault.line);
    refusal.reasons.push_back(place + ": " + (fault.key.empty() ? "" : fault.key + ": ") +
                              fault.message +
                              (fault.allowed.empty() ? "" : " (allowed: " + fault.allowed + ")"));
  }
  return refusal;
}

}  // namespace

model::Result<std::vector<LoadedPoint>> RealWorld::load_points(const std::string& file,
                                                               const LoadOptions& options) const {
  MEGATWIN_TRY(scenarios::Scenario scenario,
               scenarios::load_scenario_file(file, {.set = options.set, .sweep = options.sweep}));
  std::vector<LoadedPoint> points;
  for (model::Job& job : scenario.jobs) {
    if (!job.plan.policy_library.empty()) {
      MEGATWIN_TRY([[maybe_unused]] const auto policy, load_policy(job.plan.policy_library));
    }
    if (!job.profile.gemm.empty()) continue;
    MEGATWIN_TRY(job.profile, scenarios::gpu_profile(job.cluster.groups.front().gpu));
  }
  for (model::Job& job : scenario.jobs) points.emplace_back(std::move(job));
  for (const scenarios::UnreadPoint& point : scenario.unread) {
    points.insert(points.begin() + static_cast<std::ptrdiff_t>(point.place),
                  NamedAnswer{point.name, refusal_of(point)});
  }
  return points;
}

Answer RealWorld::simulate(const model::Job& job, const SimulateRequest& request) const {
  const auto effects = sim::effects_without(request.without);
  MEGATWIN_ASSERT(effects.has_value(), "the command line let an unknown effect through");
  policies::PolicyFactory policy;
  if (!job.plan.policy_library.empty()) {
    const auto loaded =
        load_policy(job.plan.policy_library);  // It was there when jobs were loaded.
    MEGATWIN_ASSERT(loaded.has_value(), job.plan.policy_library);
    policy = *loaded;
  }
  return sim::simulate(job, {.effects = *effects,
                             .engine = engine_of(request.engine),
                             .explain = request.explain,
                             .timeline = request.timeline,
                             .policy = policy});
}

std::vector<std::string> RealWorld::effect_names() const { return sim::effect_names(); }

}  // namespace megatwin::cli
