#include "policies/order_walk.h"

#include <deque>

#include "model/program/program_builder.h"

namespace megatwin::policies {
namespace {

using model::PipelineShape;
using model::StageId;
using model::Task;
using model::TaskId;
using model::TaskKind;

// What all micro-batches of one (stage, phase, chunk) wait for: the first of up to two rows of
// tasks, and the stage that may be waiting for them.
struct Row {
  static constexpr std::int64_t kNone = -1;
  std::int64_t first = 0;
  std::int64_t needs[2] = {kNone, kNone};
  std::int32_t wakes = -1;
};

class Walker {
 public:
  Walker(const PipelineShape& shape, const std::vector<Order>& orders)
      : shape_(shape),
        orders_(orders),
        num_tasks_(shape.num_tasks()),
        gone_(orders.size() * static_cast<std::size_t>(num_tasks_), 0),
        position_(orders.size(), 0),
        queued_(orders.size(), 1) {
    for (std::int32_t stage = 0; stage < std::ssize(orders_); ++stage) {
      for (std::int32_t id = 0; id < num_tasks_; id += shape_.micro_batches) {
        rows_.push_back(make_row({stage}, shape_.task({id})));
      }
    }
  }

  OrderWalk run() {
    OrderWalk walk;
    walk.sequence.reserve(gone_.size());
    for (std::int32_t stage = 0; stage < std::ssize(orders_); ++stage) turn_.push_back(stage);
    while (!turn_.empty()) {
      const std::int32_t stage = turn_.front();
      turn_.pop_front();
      queued_[index(stage)] = 0;
      step(stage, walk);
    }
    for (std::int32_t stage = 0; stage < std::ssize(orders_); ++stage) {
      const Order& order = orders_[index(stage)];
      if (position_[index(stage)] == order.size()) continue;
      walk.deadlock.push_back("stage " + std::to_string(stage) + " waits forever before " +
                              to_text(shape_.task(order[position_[index(stage)]])));
    }
    return walk;
  }

 private:
  static std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }
  std::int64_t flat(StageId stage, TaskId task) const {
    return std::int64_t{stage.value} * num_tasks_ + task.value;
  }

  Row make_row(StageId stage, const Task& task) const {
    Row row{.first = flat(stage, shape_.task_id(task))};
    if (const auto awaited = model::awaited_message(shape_, stage, task); awaited.exists()) {
      row.needs[0] = flat(awaited.stage, awaited.task);
    } else if (task.kind != TaskKind::BackwardWeight) {
      row.needs[0] = local_neighbour(stage, task);
    }
    if (task.kind != TaskKind::Forward) {
      const TaskKind before =
          task.kind == TaskKind::BackwardWeight ? TaskKind::BackwardInput : TaskKind::Forward;
      row.needs[1] = flat(stage, shape_.task_id({before, task.micro_batch, task.chunk}));
    }
    if (const auto sent = model::sent_message(shape_, stage, task); sent.exists()) {
      row.wakes = sent.stage.value;
    }
    return row;
  }

  // The neighbouring virtual stage may be on the same stage: then no message says that it is done.
  std::int64_t local_neighbour(StageId stage, const Task& task) const {
    const int direction = task.kind == TaskKind::Forward ? -1 : 1;
    const int there = shape_.virtual_stage(stage, task.chunk) + direction;
    if (there < 0 || there >= shape_.virtual_stages()) return Row::kNone;
    return flat(stage, shape_.task_id({task.kind, task.micro_batch, shape_.chunk_of(there)}));
  }

  void enqueue(std::int32_t stage) {
    if (queued_[index(stage)] != 0) return;
    queued_[index(stage)] = 1;
    turn_.push_back(stage);
  }

  void step(std::int32_t stage, OrderWalk& walk) {
    const Order& order = orders_[index(stage)];
    std::size_t& position = position_[index(stage)];
    if (position == order.size()) return;
    const TaskId task = order[position];
    const std::int32_t rows_per_stage = num_tasks_ / shape_.micro_batches;
    const std::int32_t micro_batch = task.value % shape_.micro_batches;
    const Row& row =
        rows_[index(std::int64_t{stage} * rows_per_stage + task.value / shape_.micro_batches)];
    for (const std::int64_t needed : row.needs) {
      if (needed != Row::kNone && gone_[index(needed + micro_batch)] == 0) return;
    }
    gone_[index(row.first + micro_batch)] = 1;
    walk.sequence.push_back({{stage}, task});
    ++position;
    if (row.wakes >= 0) enqueue(row.wakes);
    enqueue(stage);
  }

  const PipelineShape& shape_;
  const std::vector<Order>& orders_;
  std::int32_t num_tasks_;
  std::vector<Row> rows_;
  std::vector<char> gone_;
  std::vector<std::size_t> position_;
  std::vector<char> queued_;
  std::deque<std::int32_t> turn_;
};

}  // namespace

OrderWalk walk_orders(const PipelineShape& shape, const std::vector<Order>& orders) {
  return Walker(shape, orders).run();
}

}  // namespace megatwin::policies
