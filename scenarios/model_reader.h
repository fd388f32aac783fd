// The `model:` section of a scenario: a config.json, a name of the zoo, or the fields themselves;
// fields given beside the first two replace theirs.
#ifndef MEGATWIN_SCENARIOS_MODEL_READER_H_
#define MEGATWIN_SCENARIOS_MODEL_READER_H_

#include <string>
#include <vector>

#include "model/transformer.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// What a reader took where the scenario was silent, and what it found doubtful; both go to the Job.
struct Remarks {
  std::vector<std::string> assumptions;
  std::vector<std::string> warnings;
};

// A path of the scenario: relative ones start in `folder`, those given by --set in the current one.
std::string resolved_path(const TreeNode& node, const std::string& folder);

// `folder` is where relative paths of the scenario start; a path given by --set starts in the
// current folder instead.
model::Transformer read_model(MapReader& reader, const std::string& folder, Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_MODEL_READER_H_
