// The constants that were read off measured training steps, each with the groups of rows that it
// was read from (scenarios/measured/*.csv: the id up to the first '-') and the value that holds
// when nothing of those rows is known. All other constants come from single operations, data
// sheets and the frameworks' own code (docs/constants.md).
#ifndef MEGATWIN_MODEL_STEP_CONSTANTS_H_
#define MEGATWIN_MODEL_STEP_CONSTANTS_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"

namespace megatwin::model {

struct StepConstant {
  std::string_view name;
  std::string_view value, neutral;       // As text, with what they stand for.
  std::vector<std::string_view> groups;  // All that a reader of it saw, sister tables included.
  void (*forget)(Job& job);              // Sets the neutral value.
};

// In the order of docs/constants.md.
const std::vector<StepConstant>& step_constants();

// Those that any of `groups` had a part in.
std::vector<const StepConstant*> constants_read_from(const std::set<std::string>& groups);

// Sets every constant that any of `groups` had a part in to its neutral value. For scoring a group
// that the model has not seen; call it once the job and its profile are complete.
void forget_steps_of(const std::set<std::string>& groups, Job& job);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_STEP_CONSTANTS_H_
