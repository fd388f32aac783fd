#include "sim/purchase/training_run.h"

#include <algorithm>
#include <cmath>

#include "model/energy_cost.h"
#include "model/reliability.h"
#include "sim/power.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

void add_failures(const TrainingRunInput& input, TrainingRun& run) {
  const model::Operations& operations = input.operations;
  if (operations.failures_per_node_day <= 0) return;
  const Seconds mttf =
      model::job_mean_time_to_failure(input.machines, operations.failures_per_node_day);
  run.mean_time_to_failure = mttf;
  // A checkpoint that costs nothing would be written all the time: once a step is the most.
  run.checkpoint_interval = std::max(
      input.step_time,
      model::daly_interval({.write = operations.checkpoint_time, .mean_time_to_failure = mttf}));
  run.goodput = model::expected_goodput({.interval = run.checkpoint_interval,
                                         .write = operations.checkpoint_time,
                                         .restart = operations.restart,
                                         .mean_time_to_failure = mttf});
  run.spares = model::spare_nodes(input.machines * operations.failures_per_node_day,
                                  operations.replacement, operations.shortage);
}

}  // namespace

model::Watts machine_power(const model::NodeGroup& machine, model::Watts power_per_gpu) {
  return {machine.node.num_gpus * power_per_gpu.value + host_power(machine).value};
}

TrainingRun training_run(const TrainingRunInput& input) {
  TrainingRun run;
  run.steps = static_cast<std::int64_t>(std::ceil(input.tokens / input.tokens_per_step));
  run.undisturbed = static_cast<double>(run.steps) * input.step_time;
  add_failures(input, run);
  run.duration = run.undisturbed / run.goodput;
  if (run.mean_time_to_failure) run.failures = ratio(run.duration / *run.mean_time_to_failure);
  const double machines = input.machines;
  if (const model::Usd price = input.machine.node.price_per_hour; price.value > 0) {
    run.cost =
        model::training_cost({.num_gpus = machines + run.spares, .time = run.duration}, price);
  }
  run.machine_power = machine_power(input.machine, input.power_per_gpu);
  const double factor = input.operations.facility_factor;
  run.power = {machines * factor * run.machine_power.value};
  run.energy = model::facility_energy(run.machine_power, machines, run.duration, factor);
  if (input.operations.carbon_kg_per_kwh > 0) {
    run.carbon_kg = model::carbon_kg(run.energy, input.operations.carbon_kg_per_kwh);
  }
  return run;
}

}  // namespace megatwin::sim
