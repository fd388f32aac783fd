// The part of a config.json that describes the language model: all of it, or a section of a model
// that also sees or hears.
#ifndef MEGATWIN_SCENARIOS_HUGGINGFACE_LANGUAGE_PART_H_
#define MEGATWIN_SCENARIOS_HUGGINGFACE_LANGUAGE_PART_H_

#include <array>
#include <string>
#include <string_view>

#include "scenarios/document.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// What such a model has beside it.
constexpr std::array<std::string_view, 3> kOtherParts = {"vision_config", "audio_config",
                                                         "speech_config"};

struct LanguagePart {
  TreeNode node;     // With what stands at the top for all parts, and defaults of its class.
  std::string path;  // Empty: the root.
};

// Warns of what is left out, and of every default that is taken: such a section is written as what
// differs from the defaults of its class (transformers 4.57).
LanguagePart language_part(ReadContext& context, const TreeNode& root);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HUGGINGFACE_LANGUAGE_PART_H_
