#include "sim/power.h"

#include <algorithm>

#include "model/energy_cost.h"

namespace megatwin::sim {
namespace {

// Shares of the power limit by phase. Idle: 15 % (hardware.yaml, gpu_idle_w, low confidence). The
// rest is chosen so that intensive training averages about three quarters of a node's rating
// (arXiv:2506.14551); not calibrated to any job.
constexpr double kTensorShare = 0.95;
constexpr double kMemoryShare = 0.65;
constexpr double kCommunicationShare = 0.45;
constexpr double kIdleShare = 0.15;
// Processors, fans, adapters: of what a machine is rated for beyond its GPUs. A DGX H100 rated 10.2
// kW drew 8.4 kW at most, 5.6 kW of it by GPUs: 2.8 of 4.6 kW. Source: arXiv:2412.08602.
constexpr double kHostShare = 2.8 / 4.6;

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
  const double of_gpus = group.node.num_gpus * group.gpu.power_max.value;
  const double beyond = std::max(0.0, group.node.power_max.value - of_gpus);
  report.power_per_node = {group.node.num_gpus * report.power_per_gpu.value + kHostShare * beyond};
  report.facility_energy_per_step = model::facility_energy(
      report.power_per_node, nodes, report.step_time, job.facility.power_usage_effectiveness);
  report.carbon_kg_per_step =
      model::carbon_kg(report.facility_energy_per_step, job.facility.carbon_kg_per_kilowatt_hour);
  report.cost_per_step = {group.node.price_per_hour.value * nodes * report.step_time.value / 3600};
}

}  // namespace megatwin::sim
