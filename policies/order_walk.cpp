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

class Walker {
 public:
  Walker(const PipelineShape& shape, const std::vector<Order>& orders)
      : shape_(shape),
        orders_(orders),
        num_tasks_(static_cast<std::size_t>(shape.num_tasks())),
        gone_(orders.size() * num_tasks_, 0),
        position_(orders.size(), 0),
        queued_(orders.size(), 1) {}

  OrderWalk run() {
    OrderWalk walk;
    walk.sequence.reserve(gone_.size());
    for (std::int32_t stage = 0; stage < std::ssize(orders_); ++stage) turn_.push_back({stage});
    while (!turn_.empty()) {
      const StageId stage = turn_.front();
      turn_.pop_front();
      queued_[index(stage)] = 0;
      step(stage, walk);
    }
    for (std::int32_t stage = 0; stage < std::ssize(orders_); ++stage) {
      if (const TaskId* next = next_task({stage})) {
        walk.deadlock.push_back("stage " + std::to_string(stage) + " waits forever before " +
                                to_text(shape_.task(*next)));
      }
    }
    return walk;
  }

 private:
  static std::size_t index(StageId stage) { return static_cast<std::size_t>(stage.value); }
  std::size_t flat(StageId stage, TaskId task) const {
    return index(stage) * num_tasks_ + static_cast<std::size_t>(task.value);
  }
  const TaskId* next_task(StageId stage) const {
    const Order& order = orders_[index(stage)];
    const std::size_t position = position_[index(stage)];
    return position < order.size() ? &order[position] : nullptr;
  }
  void enqueue(StageId stage) {
    if (queued_[index(stage)] != 0) return;
    queued_[index(stage)] = 1;
    turn_.push_back(stage);
  }

  bool can_go(StageId stage, const Task& task) const {
    const auto awaited = model::awaited_message(shape_, stage, task);
    if (awaited.exists() && gone_[flat(awaited.stage, awaited.task)] == 0) return false;
    if (task.kind == TaskKind::Forward) return !waits_for_local_neighbour(stage, task);
    const TaskKind before =
        task.kind == TaskKind::BackwardWeight ? TaskKind::BackwardInput : TaskKind::Forward;
    if (gone_[flat(stage, shape_.task_id({before, task.micro_batch, task.chunk}))] == 0) {
      return false;
    }
    return task.kind == TaskKind::BackwardWeight || !waits_for_local_neighbour(stage, task);
  }

  // The neighbouring virtual stage may be on the same stage: then no message says that it is done.
  bool waits_for_local_neighbour(StageId stage, const Task& task) const {
    const int direction = task.kind == TaskKind::Forward ? -1 : 1;
    const int there = shape_.virtual_stage(stage, task.chunk) + direction;
    if (there < 0 || there >= shape_.virtual_stages()) return false;
    if (shape_.stage_of(there) != stage) return false;
    const Task before{task.kind, task.micro_batch, shape_.chunk_of(there)};
    return gone_[flat(stage, shape_.task_id(before))] == 0;
  }

  void step(StageId stage, OrderWalk& walk) {
    const TaskId* next = next_task(stage);
    if (next == nullptr) return;
    const Task task = shape_.task(*next);
    if (!can_go(stage, task)) return;
    gone_[flat(stage, *next)] = 1;
    walk.sequence.push_back({stage, *next});
    ++position_[index(stage)];
    const auto sent = model::sent_message(shape_, stage, task);
    if (sent.exists()) enqueue(sent.stage);
    enqueue(stage);
  }

  const PipelineShape& shape_;
  const std::vector<Order>& orders_;
  std::size_t num_tasks_;
  std::vector<char> gone_;
  std::vector<std::size_t> position_;
  std::vector<char> queued_;
  std::deque<StageId> turn_;
};

}  // namespace

OrderWalk walk_orders(const PipelineShape& shape, const std::vector<Order>& orders) {
  return Walker(shape, orders).run();
}

}  // namespace megatwin::policies
