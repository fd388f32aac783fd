// `disturbances`: a list of what goes wrong, one map each with its `kind`.
#ifndef MEGATWIN_SCENARIOS_DISTURBANCE_READER_H_
#define MEGATWIN_SCENARIOS_DISTURBANCE_READER_H_

#include <string>
#include <vector>

#include "model/hardware.h"
#include "scenarios/disturbed_parts.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// Reads `disturbances` of the scenario. A GPU may be given as `rank`, which is its number in the
// cluster, or as `gpu` by its name; either comes out as the name. Names are held against the
// cluster's topology: disturbed_parts.h. Entries with a fault are reported and left out. `folder`
// is where paths of the scenario start.
std::vector<DisturbanceAt> read_disturbances(MapReader& scenario, const model::Cluster& cluster,
                                             const std::string& folder);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_DISTURBANCE_READER_H_
