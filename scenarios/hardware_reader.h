// Reads descriptions of GPUs and machines in the form that users write: quantities with units, and
// `like:` to start from a known one. Also the form of nodes.yaml, which refers to the facts of
// hardware.yaml.
#ifndef MEGATWIN_SCENARIOS_HARDWARE_READER_H_
#define MEGATWIN_SCENARIOS_HARDWARE_READER_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/hardware.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// What a process gets of a memory whose reported total nobody wrote down.
constexpr double kUsableMemoryFraction = 0.985;

// One GPU, as under `hardware.gpus`. Required unless `like` gives them: memory, memory_bandwidth,
// and at least one of the rates.
model::Gpu read_gpu(MapReader& reader, const std::string& name,
                    const model::HardwareCatalogue& catalogue);

// One machine, as under `hardware.nodes`. `facts` holds what `facts:` may name; empty for users.
model::Node read_node(MapReader& reader, const std::string& name,
                      const model::HardwareCatalogue& catalogue,
                      const std::map<std::string, model::Node>& facts);

// Gives a hybrid cube mesh of up to eight GPUs the links of DGX-1V's, and every other machine none.
void fit_nvlink_matrix(model::Node& node, const model::HardwareCatalogue& catalogue);

// Adds `hardware: {gpus: {…}, nodes: {…}}` of a scenario to the catalogue; a known name is
// replaced.
void add_user_hardware(MapReader& hardware, model::HardwareCatalogue& catalogue);

// The catalogue's name of a GPU, aliases resolved. Reports an unknown one with the nearest.
std::optional<std::string> resolve_gpu(MapReader& reader, std::string_view key,
                                       const model::HardwareCatalogue& catalogue);

// The fields of a machine that can also stand in a scenario's cluster: gpus, nvlink, nics,
// nic_bandwidth, nic_type, nic_latency, power, price_per_hour. Changes only what is given.
void read_node_fields(MapReader& reader, model::Node& node);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HARDWARE_READER_H_
