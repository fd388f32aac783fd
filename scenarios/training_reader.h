// The `data:` and `training:` sections of a scenario: what a real run needs beyond a simulated one.
// Both may be absent. Whether the data can be read is answered when it is opened.
#ifndef MEGATWIN_SCENARIOS_TRAINING_READER_H_
#define MEGATWIN_SCENARIOS_TRAINING_READER_H_

#include <string>

#include "model/training.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// `scenario` is the whole file. `folder` is where relative paths of the data start; what a run
// writes starts in the current folder.
model::TrainingData read_training_data(MapReader& scenario, const std::string& folder);
model::TrainingSettings read_training_settings(MapReader& scenario);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_TRAINING_READER_H_
