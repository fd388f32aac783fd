// The section `policy` of a scenario: a schedule by name, an order file, a library of one's own, or
// forwards and backwards on ranks of their own. Fills the fields of the plan that it is about.
#ifndef MEGATWIN_SCENARIOS_POLICY_READER_H_
#define MEGATWIN_SCENARIOS_POLICY_READER_H_

#include <string>
#include <vector>

#include "model/plan.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// `folder` is where relative paths start. Faults go to the context of `scenario`.
void read_policy(MapReader& scenario, const std::string& folder, model::Plan& plan,
                 Remarks& remarks);

// What policy.schedule may say.
std::vector<std::string> schedule_names();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_POLICY_READER_H_
