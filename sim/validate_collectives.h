// Predicted against measured collectives of nccl-tests: groups by machine, collective, ranks and
// size. Machines are recognised by what the source calls them; what was taken is said with each
// row.
#ifndef MEGATWIN_SIM_VALIDATE_COLLECTIVES_H_
#define MEGATWIN_SIM_VALIDATE_COLLECTIVES_H_

#include <string>
#include <vector>

#include "model/hardware.h"
#include "scenarios/collective_rows.h"
#include "sim/validate_operations.h"

namespace megatwin::sim {

// `machine`: a node type of the catalogue for all rows; empty: the usual one of the rows' GPU.
// Requires: `machine` is empty or in the catalogue.
OperationValidation validate_collectives(const std::vector<scenarios::CollectiveRow>& rows,
                                         const model::HardwareCatalogue& catalogue,
                                         const std::string& machine);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_VALIDATE_COLLECTIVES_H_
