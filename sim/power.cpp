#include "sim/power.h"

namespace megatwin::sim {
namespace {

// Shares of the power limit by phase. Idle: 15 % (hardware.yaml, gpu_idle_w, low confidence). The
// rest is chosen so that intensive training averages about three quarters of a node's rating
// (arXiv:2506.14551); not calibrated to any job.
constexpr double kTensorShare = 0.95;
constexpr double kMemoryShare = 0.65;
constexpr double kCommunicationShare = 0.45;
constexpr double kIdleShare = 0.15;

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
  report.energy_per_step = gpus * report.power_per_gpu * report.step_time;
  const double nodes = gpus / group.node.num_gpus;
  report.cost_per_step = {group.node.price_per_hour.value * nodes * report.step_time.value / 3600};
}

}  // namespace megatwin::sim
