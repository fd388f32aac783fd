// The `target:` section of a scenario: how many tokens, by when, for how much, on which machines.
// What it leaves out about failures and the building is taken from publications, each choice with a
// sentence.
#ifndef MEGATWIN_SCENARIOS_TARGET_READER_H_
#define MEGATWIN_SCENARIOS_TARGET_READER_H_

#include <optional>
#include <string>

#include "model/job.h"
#include "model/training_wish.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// Nothing when the section is absent. `job` has its model and cluster; its machines are the offer
// where the section names none.
std::optional<model::TrainingWish> read_target(MapReader& scenario, const model::Job& job,
                                               const model::HardwareCatalogue& catalogue,
                                               const std::string& folder, Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_TARGET_READER_H_
