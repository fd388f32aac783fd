// `failures` and `energy` of a scenario: what to ask about weeks of training, and what the building
// adds.
#ifndef MEGATWIN_SCENARIOS_FAILURE_READER_H_
#define MEGATWIN_SCENARIOS_FAILURE_READER_H_

#include <optional>

#include "model/failure_plan.h"
#include "model/hardware.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// Nothing when the scenario does not ask. Failure rates come as `parts`, as
// `mean_time_between_failures` of the whole job, or as `per_node_day`.
std::optional<model::FailurePlan> read_failures(MapReader& scenario, const model::Cluster& cluster,
                                                Remarks& remarks);

model::Facility read_facility(MapReader& scenario);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_FAILURE_READER_H_
