#include "policies/order_file.h"

#include "model/assert.h"
#include "model/counted.h"
#include "policies/order_walk.h"

namespace megatwin::policies {
namespace {

using model::PipelineShape;
using model::ProgramSpec;
using model::Task;
using model::TaskId;

// Why the token is no task of this shape; empty when it is one.
std::string token_problem(const PipelineShape& shape, const std::string& token) {
  const auto task = model::task_from_text(token);
  if (!task) {
    return "'" + token +
           "' is no task; expected a letter of F B I W, the micro-batch, a full stop"
           " and the chunk, such as F0.1";
  }
  if (task->kind != shape.kind_of(shape.phase_of(task->kind))) {
    return "'" + token + "' does not belong to " +
           (shape.split_backward ? "an order with split backward (F, I, W)"
                                 : "an order with whole backward (F, B)");
  }
  if (task->micro_batch.value >= shape.micro_batches || task->chunk.value >= shape.model_chunks) {
    return "'" + token + "' is out of range: there are " +
           model::counted(shape.micro_batches, "micro-batch") + " and " +
           model::counted(shape.model_chunks, "chunk") + ", from 0";
  }
  return {};
}

std::vector<std::string> stage_problems(const PipelineShape& shape, int stage,
                                        const std::vector<std::string>& tokens) {
  std::vector<std::string> problems;
  const std::string place = "orders[" + std::to_string(stage) + "]: ";
  std::vector<int> count(static_cast<std::size_t>(shape.num_tasks()), 0);
  for (const std::string& token : tokens) {
    if (std::string problem = token_problem(shape, token); !problem.empty()) {
      problems.push_back(place + problem);
      continue;
    }
    ++count[static_cast<std::size_t>(shape.task_id(*model::task_from_text(token)).value)];
  }
  for (std::int32_t id = 0; id < shape.num_tasks(); ++id) {
    const int times = count[static_cast<std::size_t>(id)];
    if (times == 1) {
      continue;
    }
    problems.push_back(
        place + to_text(shape.task(TaskId{id})) +
        (times == 0 ? " is missing" : " is there " + std::to_string(times) + " times"));
  }
  return problems;
}

}  // namespace

std::vector<Order> order_file_orders(const ProgramSpec& spec) {
  const PipelineShape shape = pipeline_shape(spec);
  std::vector<Order> orders;
  for (const auto& tokens : spec.orders) {
    Order& order = orders.emplace_back();
    for (const std::string& token : tokens) {
      const auto task = model::task_from_text(token);
      MEGATWIN_ASSERT(task.has_value(), token);
      order.push_back(shape.task_id(*task));
    }
  }
  return orders;
}

std::vector<std::string> order_file_problems(const ProgramSpec& spec) {
  std::vector<std::string> problems;
  if (std::ssize(spec.orders) != spec.pipeline) {
    problems.push_back("the order file has " + std::to_string(spec.orders.size()) +
                       (spec.orders.size() == 1 ? " stage" : " stages") + ", the plan has " +
                       std::to_string(spec.pipeline));
    return problems;
  }
  if (spec.orders_fold && spec.model_chunks != 2) {
    problems.push_back("chunks fold back over the stages only with 2 model chunks a stage, not " +
                       std::to_string(spec.model_chunks));
    return problems;
  }
  const PipelineShape shape = pipeline_shape(spec);
  for (int stage = 0; stage < spec.pipeline; ++stage) {
    auto found = stage_problems(shape, stage, spec.orders[static_cast<std::size_t>(stage)]);
    problems.insert(problems.end(), found.begin(), found.end());
  }
  if (!problems.empty()) {
    return problems;
  }
  for (std::string& sentence : walk_orders(shape, order_file_orders(spec)).deadlock) {
    problems.push_back("deadlock: " + std::move(sentence));
  }
  return problems;
}

}  // namespace megatwin::policies
