#include "cli/real_world.h"

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

}  // namespace

model::Result<std::vector<model::Job>> RealWorld::load_jobs(const std::string& file,
                                                            const LoadOptions& options) const {
  MEGATWIN_TRY(std::vector<model::Job> jobs,
               scenarios::load_scenario(file, {.set = options.set, .sweep = options.sweep}));
  for (model::Job& job : jobs) {
    if (!job.plan.policy_library.empty()) {
      MEGATWIN_TRY([[maybe_unused]] const auto policy, load_policy(job.plan.policy_library));
    }
    if (!job.profile.gemm.empty()) continue;
    MEGATWIN_TRY(job.profile, scenarios::gpu_profile(job.cluster.groups.front().gpu));
  }
  return jobs;
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
