#include "sim/power.h"

#include "model/stage_sites.h"

namespace megatwin::sim {
namespace {

// Shares of the power limit by phase. Idle: 15 % (hardware.yaml, gpu_idle_w, low confidence). The
// rest is chosen so that intensive training averages about three quarters of a node's rating
// (arXiv:2506.14551); not calibrated to any job.
constexpr double kTensorShare = 0.95;
constexpr double kMemoryShare = 0.65;
constexpr double kCommunicationShare = 0.45;
constexpr double kIdleShare = 0.15;

// Every kind at the critical rank's share of its own limit: an upper estimate, as the others idle
// more.
void fill_mixed_power(const model::Cluster& cluster, double mean, SimulationReport& report) {
  double watts = 0, dollars = 0;
  bool priced = true;
  for (const model::NodeGroup& group : cluster.groups) {
    watts += mean * group.count * group.node.num_gpus * group.gpu.power_max.value;
    dollars += group.count * group.node.price_per_hour.value;
    priced = priced && group.node.price_per_hour.value > 0;
  }
  report.power_per_gpu = {watts / report.gpus};
  report.energy_per_step = model::Watts{watts} * report.step_time;
  report.cost_per_step = {priced ? dollars * report.step_time.value / 3600 : 0};
}

}  // namespace

void fill_power(const model::Job& job, SimulationReport& report) {
  const model::NodeGroup& group = job.cluster.groups.front();
  model::Seconds tensor, memory;
  for (const ComputeShare& share : report.compute_shares) {
    const bool waits = share.name == "memory-bound kernels" || share.name == "host launches";
    (waits ? memory : tensor) += share.time;
  }
  const StepBreakdown& parts = report.breakdown;
  memory += parts.optimizer;
  const model::Seconds communication =
      parts.exposed_tp + parts.exposed_pp + parts.exposed_dp + parts.exposed_ep + parts.exposed_cp;
  const model::Seconds idle = parts.bubble + parts.other;
  const double mean = ratio((kTensorShare * tensor + kMemoryShare * memory +
                             kCommunicationShare * communication + kIdleShare * idle) /
                            report.step_time);
  report.power_per_gpu = mean * group.gpu.power_max;
  const double gpus = report.gpus;
  if (model::is_mixed(job.cluster)) {
    fill_mixed_power(job.cluster, mean, report);
    return;
  }
  report.energy_per_step = gpus * report.power_per_gpu * report.step_time;
  const double nodes = gpus / group.node.num_gpus;
  report.cost_per_step = {group.node.price_per_hour.value * nodes * report.step_time.value / 3600};
}

}  // namespace megatwin::sim
