// What holds the MFU of a searched plan up: the same plan with what published runs often do
// instead. A search takes every overlap that the stack has, the micro-batch that fills the GPU best
// and no more recomputation than memory asks for; few published runs do all three.
#ifndef MEGATWIN_SIM_PURCHASE_PLAN_UTILISATION_H_
#define MEGATWIN_SIM_PURCHASE_PLAN_UTILISATION_H_

#include <cstddef>
#include <optional>

#include "model/job.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

// Shares of the GPUs' peak, all by the report's own convention. Nothing where the plan would be
// illegal, or is so already. Whether it fits does not matter here.
struct PlanUtilisation {
  std::size_t option = 0;  // Into PurchaseAnswer::options.
  double planned = 0;
  std::optional<double> not_overlapped;  // Tensor-, data-parallel and ZeRO traffic in the open.
  std::optional<double> lone_sequences;  // Micro-batches of one sequence.
  std::optional<double> recomputed;      // Every layer runs forward twice.
  std::optional<double> all;             // What there is of these together.
};

// `job` on the machines of the report, which simulate() gave of the report's plan.
PlanUtilisation plan_utilisation(const model::Job& job, std::size_t option,
                                 const SimulationReport& report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_PLAN_UTILISATION_H_
