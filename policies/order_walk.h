// Runs the orders of all stages against each other without time: a task can go when everything that
// it waits for has gone. Gives one sequence of all tasks that respects every dependency, or the
// place where the stages wait for each other.
#ifndef MEGATWIN_POLICIES_ORDER_WALK_H_
#define MEGATWIN_POLICIES_ORDER_WALK_H_

#include <string>
#include <vector>

#include "model/ids.h"
#include "model/program/pipeline_shape.h"
#include "policies/schedule.h"

namespace megatwin::policies {

struct PlacedTask {
  model::StageId stage;
  model::TaskId task;
};

struct OrderWalk {
  std::vector<PlacedTask> sequence;   // Stages take turns wherever they can.
  std::vector<std::string> deadlock;  // One sentence a stage that could not finish.
};

OrderWalk walk_orders(const model::PipelineShape& shape, const std::vector<Order>& orders);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_ORDER_WALK_H_
