// Hugging Face config.json to a Transformer: every architecture writes its own names and leaves out
// its own defaults. What decides the shape and is not in the file is either the default of that
// architecture's own configuration class or a warning that names the key and what was taken.
#ifndef MEGATWIN_SCENARIOS_HUGGINGFACE_H_
#define MEGATWIN_SCENARIOS_HUGGINGFACE_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "model/transformer.h"

namespace megatwin::scenarios {

struct HuggingfaceModel {
  model::Transformer transformer;
  model::Diagnostics warnings;       // Keys that matter and were absent, with what was taken.
  std::vector<std::string> ignored;  // Keys that have no bearing on shape or cost.
};

// `path` may be a config.json or the folder that holds one.
model::Result<HuggingfaceModel> load_huggingface_config(const std::string& path);

// The same from text. `file` is for messages only.
model::Result<HuggingfaceModel> parse_huggingface_config(const std::string& file,
                                                         std::string_view text);

// model_type values that are understood.
std::vector<std::string> huggingface_families();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HUGGINGFACE_H_
