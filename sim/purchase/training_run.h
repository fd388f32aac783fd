// A whole training run in closed form: from the time of one step to days, money, energy and carbon,
// with checkpoints, failures and spare machines.
#ifndef MEGATWIN_SIM_PURCHASE_TRAINING_RUN_H_
#define MEGATWIN_SIM_PURCHASE_TRAINING_RUN_H_

#include <cstdint>
#include <optional>

#include "model/hardware.h"
#include "model/training_wish.h"
#include "model/units.h"

namespace megatwin::sim {

struct TrainingRunInput {
  double tokens = 0;
  double tokens_per_step = 0;
  model::Seconds step_time;
  model::Watts power_per_gpu;  // Mean over a step.
  int machines = 1;            // That train; spares come on top.
  model::NodeGroup machine;
  model::Operations operations;
};

struct TrainingRun {
  std::int64_t steps = 0;
  model::Seconds undisturbed;                          // All steps, nothing else.
  model::Seconds duration;                             // With checkpoints and failures.
  double goodput = 1;                                  // undisturbed / duration.
  std::optional<model::Seconds> mean_time_to_failure;  // Nothing when nothing fails.
  model::Seconds checkpoint_interval;
  double failures = 0;  // Expected.
  int spares = 0;
  std::optional<model::Usd> cost;  // Of all machines, spares too. Nothing when no price is known.
  model::Watts machine_power;      // One machine in training, without the building.
  model::Watts power;              // At the meter, spares idle left out.
  model::Joules energy;            // At the meter.
  std::optional<double> carbon_kg;
};

// Interval by Daly's higher order, goodput of exponential failures that can also hit a restart
// (model/reliability.h), spares by Poisson. Requires: everything in the input that divides is > 0.
TrainingRun training_run(const TrainingRunInput& input);

// A machine's draw: its GPUs' and the rest, which is what a rated machine needs beyond its GPUs'
// limits. Machines were measured to reach 82 % of their rating at most (arXiv:2412.08602: 8.4 of
// 10.2 kW). Without a rating the GPUs are all there is.
model::Watts machine_power(const model::NodeGroup& machine, model::Watts power_per_gpu);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_TRAINING_RUN_H_
