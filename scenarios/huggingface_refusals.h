// Architectures that are known and that a Transformer cannot describe, each with the reason, and
// what to do about one that is not known.
#ifndef MEGATWIN_SCENARIOS_HUGGINGFACE_REFUSALS_H_
#define MEGATWIN_SCENARIOS_HUGGINGFACE_REFUSALS_H_

#include <string>
#include <string_view>

#include "scenarios/document.h"

namespace megatwin::scenarios {

// Why a model_type cannot be read; empty where it is not one of these.
std::string_view huggingface_refusal(std::string_view model_type);

// The section `model:` of a scenario that writes out what an unknown architecture's file says.
// Empty unless its fields are those of a Llama and none is of experts, state spaces and the like.
std::string llama_written_out(const TreeNode& config);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HUGGINGFACE_REFUSALS_H_
