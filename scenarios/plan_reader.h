// The `plan:` and `policy:` sections of a scenario. What they leave out comes from the software
// stack, each choice with a sentence. Whether the plan is legal is answered elsewhere.
#ifndef MEGATWIN_SCENARIOS_PLAN_READER_H_
#define MEGATWIN_SCENARIOS_PLAN_READER_H_

#include <string>
#include <vector>

#include "model/hardware.h"
#include "model/plan.h"
#include "model/software_stack.h"
#include "model/transformer.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// What the defaults of a plan depend on.
struct PlanSurroundings {
  const model::Transformer& transformer;
  const model::Cluster& cluster;
  const model::SoftwareStack& software;
};

// `scenario` is the whole file; both sections are taken from it.
model::Plan read_plan(MapReader& scenario, const PlanSurroundings& around,
                      const std::string& folder, Remarks& remarks);

// Keys of `plan:` that a search may vary, and "schedule".
std::vector<std::string> plan_keys();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_PLAN_READER_H_
