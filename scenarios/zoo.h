// The zoo: models that a scenario names instead of describing them (`model: {name: gpt3-175b}`).
// zoo.yaml is part of the program; each entry is read when it is asked for.
#ifndef MEGATWIN_SCENARIOS_ZOO_H_
#define MEGATWIN_SCENARIOS_ZOO_H_

#include <optional>
#include <string>
#include <vector>

#include "model/transformer.h"

namespace megatwin::scenarios {

struct ZooModel {
  model::Transformer transformer;
  // As its authors give it: digits, or digits and "e9". The count agrees to the last digit, or
  // within `published_tolerance` where the name is only a label. Empty when none was found.
  std::string published;
  std::string published_active;
  double published_tolerance = 0;
  // The table of learned positions is as long as whatever sequence is trained.
  bool positions_follow_sequence = false;
};

// In the order of the file.
std::vector<std::string> zoo_names();

// Nothing when the zoo has no such model. Other spellings (`llama3.1-70b`, `gpt-175b`) are not
// guessed.
std::optional<ZooModel> find_zoo_model(const std::string& name);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_ZOO_H_
