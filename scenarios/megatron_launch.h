// How somebody launches Megatron-LM, read as a model and a plan: a bash script or bare arguments,
// or the YAML files of NeMo and Primus. Nothing is run; what a file takes from its surroundings
// and cannot be resolved is listed.
#ifndef MEGATWIN_SCENARIOS_MEGATRON_LAUNCH_H_
#define MEGATWIN_SCENARIOS_MEGATRON_LAUNCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/plan.h"
#include "model/result.h"
#include "model/transformer.h"

namespace megatwin::scenarios {

enum class LaunchKind { Megatron, Nemo, Primus };

struct MegatronLaunch {
  LaunchKind kind = LaunchKind::Megatron;
  // What bears on shape, plan or cost, by the names and with the values of the source (flags with
  // underscores). A flag alone is "true".
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> ignored;   // Names of no bearing.
  std::vector<std::string> warnings;  // Unresolved, deprecated, contradicting.

  model::Plan plan;         // As far as stated; the rest are Megatron's defaults.
  std::optional<int> gpus;  // World size; without it `plan.data` is 0.
  std::optional<model::Transformer> transformer;  // When the shape is complete.
  std::optional<std::int64_t> padded_vocab_size;
};

// Whether a text looks like one of these, and which. By content, never by name.
std::optional<LaunchKind> recognise_launch(std::string_view text);

// Errors: cannot be read, is no script, YAML or arguments of this kind.
model::Result<MegatronLaunch> read_megatron_launch(const std::string& file, std::string_view text,
                                                   LaunchKind kind);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_MEGATRON_LAUNCH_H_
