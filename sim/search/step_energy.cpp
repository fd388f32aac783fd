#include "sim/search/step_energy.h"

#include <algorithm>
#include <vector>

#include "sim/power.h"

namespace megatwin::sim {
namespace {

// All GPUs at their limit for this long. Tasks are rounded to nanoseconds: a little less than the
// sum of their parts.
model::Joules at_limit(const model::Job& job, model::Seconds time) {
  constexpr double kRounding = 1 - 1e-5;
  return kRounding * job.cluster.num_gpus() * job.cluster.groups.front().gpu.power_max * time;
}

}  // namespace

model::Joules energy_lower_bound(const model::Job& job, const model::Plan& plan,
                                 const PricedPlan& priced, model::Seconds time) {
  // Which stage is the critical one is not known yet.
  const model::Seconds least = *std::min_element(priced.draw.begin(), priced.draw.end());
  const auto m = static_cast<double>(plan.num_micro_batches());
  return at_limit(job, idle_draw(time) + m * least);
}

model::Joules idle_energy(const model::Job& job, model::Seconds time) {
  return at_limit(job, idle_draw(time));
}

}  // namespace megatwin::sim
