// The network between machines as an administrator's file describes it: which switches there are,
// which cables join them, which switch every adapter hangs on. Made by scenarios/; turned into a
// Topology by fabric_topology.h. Plain data.
#ifndef MEGATWIN_MODEL_TOPOLOGY_SWITCH_GRAPH_H_
#define MEGATWIN_MODEL_TOPOLOGY_SWITCH_GRAPH_H_

#include <string>
#include <vector>

#include "model/topology/topology.h"
#include "model/units.h"

namespace megatwin::model {

struct SwitchGraph {
  std::string file;
  struct Switch {
    std::string name;
    VertexKind kind = VertexKind::Leaf;  // Leaf, Spine or Core.
  };
  std::vector<Switch> switches;
  struct Cable {
    int from = 0, to = 0;      // Of `switches`.
    BytesPerSecond bandwidth;  // Of each direction.
  };
  std::vector<Cable> cables;
  struct Port {
    int at = 0;                // Of `switches`.
    BytesPerSecond bandwidth;  // 0: the adapter's.
  };
  // By machine, in the order of the cluster's groups, and adapter; a cluster may have fewer.
  std::vector<std::vector<Port>> ports;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_SWITCH_GRAPH_H_
