// The network of a scenario's cluster from a file of another tool: `fabric: {from: FILE}`, Slurm's
// topology.conf or topology.yaml, or what ibnetdiscover prints.
#ifndef MEGATWIN_SCENARIOS_IMPORTED_FABRIC_H_
#define MEGATWIN_SCENARIOS_IMPORTED_FABRIC_H_

#include <string>

#include "model/hardware.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// Reads `from` and `uplink` of the fabric into Fabric::graph, with Fabric::nodes_per_leaf as it is
// there. Machines are those that `names` of the nodes lists (`nodes`: the cluster's list), in its
// order, else the file's, which must then be as many.
//   Slurm tells which node hangs on which switch, no rates: every adapter of a node is on its leaf,
//     and a switch's way up is `uplink`, else what its nodes inject over `oversubscription`.
//   ibnetdiscover tells every cable with its rate: an adapter is on its own switch, no faster than
//     its port.
// Reports: files that cannot be read, names that the file does not have, another number of machines
// or adapters, machines that no switches join.
// Requires: `fabric` has `from`; the machines are read.
void read_switches(MapReader& fabric, const TreeNode* nodes, const std::string& folder,
                   model::Cluster& cluster, Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_IMPORTED_FABRIC_H_
