// The `cluster:` section of a scenario: machines by name, count and differences, and the fabric
// between them.
#ifndef MEGATWIN_SCENARIOS_CLUSTER_READER_H_
#define MEGATWIN_SCENARIOS_CLUSTER_READER_H_

#include <optional>
#include <string>

#include "model/hardware.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// Three forms: `nodes` is a list of {type or gpu, count, …}; or a number, with `type` or `gpu` and
// what differs beside it; or a word such as `64 of dgx-h100`.
// `folder` is where relative paths start.
model::Cluster read_cluster(MapReader& reader, const model::HardwareCatalogue& catalogue,
                            const std::string& folder, Remarks& remarks);

// One kind of machine from {type or gpu, …}, its number left out. Nothing when it was reported. The
// caller calls finish().
std::optional<model::NodeGroup> read_machine_group(MapReader& reader,
                                                   const model::HardwareCatalogue& catalogue,
                                                   const std::string& folder, Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_CLUSTER_READER_H_
