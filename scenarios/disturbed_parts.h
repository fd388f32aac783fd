// The parts of the cluster that disturbances name, held against its topology: whether they are
// there, and of the kind that can be disturbed so.
#ifndef MEGATWIN_SCENARIOS_DISTURBED_PARTS_H_
#define MEGATWIN_SCENARIOS_DISTURBED_PARTS_H_

#include <string>
#include <vector>

#include "model/disturbance.h"
#include "model/hardware.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// A disturbance and the map that it was read from.
struct DisturbanceAt {
  model::Disturbance disturbance;
  const TreeNode* map = nullptr;
  std::string path;  // "disturbances[2]"
};

// Reports at its value every name that is no such part, with the reason. A name that is missing
// was reported before; so is a cluster without a topology, where it is used.
void check_parts(MapReader& scenario, const model::Cluster& cluster,
                 const std::vector<DisturbanceAt>& disturbances);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_DISTURBED_PARTS_H_
