// One answer to "which machines": so many of one kind, the best plan on them, the whole run, and
// which limits of the wish it keeps.
#ifndef MEGATWIN_SIM_PURCHASE_PURCHASE_OPTION_H_
#define MEGATWIN_SIM_PURCHASE_PURCHASE_OPTION_H_

#include <optional>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "model/training_wish.h"
#include "sim/purchase/training_run.h"
#include "sim/search/search_space.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

enum class Limit { Deadline, Budget, Power };
constexpr Limit kLimits[] = {Limit::Deadline, Limit::Budget, Limit::Power};
std::string_view name_of(Limit limit);

struct PurchaseOption {
  int offer = 0;  // Into TrainingWish::offers.
  int machines = 1;
  SimulationReport report;  // Of the best plan found.
  TrainingRun run;

  double kept_tokens_per_s() const { return report.tokens_per_s * run.goodput; }
};

// What the wish allows, in seconds, USD or watts; nothing where it sets no limit.
std::optional<double> allowed(const model::TrainingWish& wish, Limit limit);
// What the option takes of it, in the same unit; 0 where its price is not known.
double taken(const PurchaseOption& option, Limit limit);
bool keeps(const model::TrainingWish& wish, const PurchaseOption& option, Limit limit);
bool keeps_all(const model::TrainingWish& wish, const PurchaseOption& option);

// The job on `machines` of an offer instead of its own cluster.
model::Job job_on(const model::Job& job, const model::MachineOffer& offer, int machines);

// What matters most of whole_space(), a hundredth of it: 1F1B and interleaving, up to 8 chunks and
// sequences a micro-batch, ZeRO off, 1 or 3, recomputation as a whole, every overlap that the stack
// has.
SearchSpace short_space(const model::Job& job);

// The whole run of a report on `machine.count` such machines, of offer 0.
PurchaseOption run_option(const model::Job& job, const model::TrainingWish& wish,
                          const model::NodeGroup& machine, SimulationReport report);
// Of this offer, on the job's machines.
PurchaseOption purchase_option(const model::Job& job, const model::TrainingWish& wish, int offer,
                               SimulationReport report);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_PURCHASE_OPTION_H_
