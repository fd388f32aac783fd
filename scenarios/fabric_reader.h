// The `fabric` of a cluster: what lies between its machines.
#ifndef MEGATWIN_SCENARIOS_FABRIC_READER_H_
#define MEGATWIN_SCENARIOS_FABRIC_READER_H_

#include <string>

#include "model/hardware.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// Reads `fabric` of the cluster that `parent` reads, whose groups are known. `bandwidth` there is
// that of one adapter's port and goes to the machines.
void read_fabric(MapReader& parent, const std::string& folder, model::Cluster& cluster,
                 Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_FABRIC_READER_H_
