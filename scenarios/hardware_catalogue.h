// The shipped catalogue of GPUs and machines: hardware.yaml and nodes.yaml, which are part of the
// program, as plain data. What a user adds comes from hardware_reader.h.
#ifndef MEGATWIN_SCENARIOS_HARDWARE_CATALOGUE_H_
#define MEGATWIN_SCENARIOS_HARDWARE_CATALOGUE_H_

#include <string>
#include <string_view>

#include "model/hardware.h"

namespace megatwin::scenarios {

// Without `source_texts`, which only an explanation needs; see hardware_source_texts(). A fault of
// the shipped files is a bug of ours and aborts.
model::HardwareCatalogue load_hardware_catalogue();

// The same, read once in the life of the program.
const model::HardwareCatalogue& shipped_hardware();

// Source id → what it is, for the ids in Gpu::sources and Node::sources.
std::map<std::string, std::string> hardware_source_texts();

// Whether an alias such as "A100" leaves open which of several parts is meant.
bool is_ambiguous_gpu_name(std::string_view alias);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HARDWARE_CATALOGUE_H_
