// Configurations of ASTRA-sim: networks of the analytical, ns-3 and htsim backends, the system
// layer, and collectives written out for MSCCL. Facts only.
#ifndef MEGATWIN_SCENARIOS_ASTRA_SIM_H_
#define MEGATWIN_SCENARIOS_ASTRA_SIM_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

struct AstraSimConfig {
  std::string kind;  // analytical-network, htsim-topology, logical-topology, system, collective
  // Each value with its unit; "npus" is the product of all dimensions.
  std::vector<std::pair<std::string, std::string>> facts;
  model::Diagnostics warnings;
};

// Errors: none of these; dimensions that do not match; "tbd" where a number should stand.
model::Result<AstraSimConfig> parse_astra_sim(const std::string& file, std::string_view text);

bool is_astra_sim(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_ASTRA_SIM_H_
