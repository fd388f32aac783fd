// What a plan over machines of several kinds must hold beside plan_check.h: groups that talk in
// every layer stay on one kind; sizes that differ by stage or replica add up. Every reason at once,
// empty when there is none.
#ifndef MEGATWIN_MODEL_MIXED_PLAN_CHECK_H_
#define MEGATWIN_MODEL_MIXED_PLAN_CHECK_H_

#include <string>
#include <vector>

#include "model/hardware.h"
#include "model/plan.h"
#include "model/transformer.h"

namespace megatwin::model {

// Requires: sizes of at least 1 but for `data`, and a cluster with machines.
std::vector<std::string> mixed_plan_problems(const Transformer& transformer, const Plan& plan,
                                             const Cluster& cluster);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_MIXED_PLAN_CHECK_H_
