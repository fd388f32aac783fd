#include "sim/power.h"

#include <algorithm>

#include "model/energy_cost.h"
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
// Processors, fans, adapters: of what a machine is rated for beyond its GPUs. A DGX H100 rated 10.2
// kW drew 8.4 kW at most, 5.6 kW of it by GPUs: 2.8 of 4.6 kW. Source: arXiv:2412.08602.
constexpr double kHostShare = 2.8 / 4.6;

}  // namespace

model::Watts host_power(const model::NodeGroup& machine) {
  const double gpus = machine.node.num_gpus * machine.gpu.power_max.value;
  return {kHostShare * std::max(0.0, machine.node.power_max.value - gpus)};
}

void fill_power(const model::Job& job, SimulationReport& report) {
  model::Seconds tensor, memory, communication;
  for (const ComputeShare& share : report.compute_shares) {
    const bool waits = share.name == "memory-bound kernels" || share.name == "host launches";
    // The others wait for the slow GPU in their collectives.
    const bool slowed = share.name == "slowed by disturbances";
    (slowed ? communication : waits ? memory : tensor) += share.time;
  }
  const StepBreakdown& parts = report.breakdown;
  memory += parts.optimizer;
  communication +=
      parts.exposed_tp + parts.exposed_pp + parts.exposed_dp + parts.exposed_ep + parts.exposed_cp;
  const model::Seconds idle = parts.bubble + parts.other;
  // Of several kinds of GPU each is at the critical rank's share of its own limit: an upper
  // estimate, as the others idle more.
  const double mean = ratio((kTensorShare * tensor + kMemoryShare * memory +
                             kCommunicationShare * communication + kIdleShare * idle) /
                            report.step_time);
  const bool mixed = model::is_mixed(job.cluster);
  double watts = 0, node_watts = 0, num_nodes = 0, dollars = 0;
  bool priced = true;
  for (const model::NodeGroup& group : job.cluster.groups) {
    const double gpus = group.node.num_gpus;
    // A mixed job takes its whole cluster.
    const double nodes = mixed ? group.count : report.gpus / gpus;
    const double busy = mean * gpus * group.gpu.power_max.value;
    watts += nodes * busy;
    node_watts += nodes * (busy + host_power(group).value);
    num_nodes += nodes;
    dollars += nodes * group.node.price_per_hour.value;
    priced = priced && group.node.price_per_hour.value > 0;
  }
  report.power_per_gpu = {watts / report.gpus};
  report.energy_per_step = model::Watts{watts} * report.step_time;
  report.power_per_node = {node_watts / num_nodes};
  report.facility_energy_per_step = model::facility_energy(
      report.power_per_node, num_nodes, report.step_time, job.facility.power_usage_effectiveness);
  report.carbon_kg_per_step =
      model::carbon_kg(report.facility_energy_per_step, job.facility.carbon_kg_per_kilowatt_hour);
  report.cost_per_step = {priced ? dollars * report.step_time.value / 3600 : 0};
}

model::Seconds draw_beyond_idle(const model::TaskPrice& price) {
  const model::Seconds tensor = price.gemm + price.attention + price.recompute + price.contention;
  const model::Seconds memory = price.memory_bound + price.host_bound;
  const model::Seconds communication = price.exposed_tp + price.exposed_ep + price.exposed_cp;
  return (kTensorShare - kIdleShare) * tensor + (kMemoryShare - kIdleShare) * memory +
         (kCommunicationShare - kIdleShare) * communication;
}

model::Seconds idle_draw(model::Seconds time) { return kIdleShare * time; }

}  // namespace megatwin::sim
