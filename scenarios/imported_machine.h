// The inside of a scenario's machine from a file of another tool: `topology:` beside a node type,
// an NCCL topology XML or what nvidia-smi topo -m prints.
#ifndef MEGATWIN_SCENARIOS_IMPORTED_MACHINE_H_
#define MEGATWIN_SCENARIOS_IMPORTED_MACHINE_H_

#include <string>

#include "model/hardware.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// Reads `topology`, where it is given, into the group's Node::inside. GPU i of the machine is the
// i-th by its `dev`, the number that CUDA gives it, where all have one of their own, else the
// file's i-th; adapters are taken in the order of the GPUs that they are nearest to. What the file
// does not tell is taken from the node and said: NVLinks of an XML without <gpu>, adapters of a
// matrix without them. `nic_bandwidth` is the file's where the scenario does not state it and all
// adapters are alike; one without a speed counts as what NCCL takes, 10 Gbit/s, and is warned of.
// Reports a file that cannot be read, and another number of GPUs or adapters than the node has.
// Requires: the group's other fields are read.
void read_inside(MapReader& reader, const std::string& folder, model::NodeGroup& group,
                 Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_IMPORTED_MACHINE_H_
