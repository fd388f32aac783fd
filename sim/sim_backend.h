// The simulated world behind policies/backend.h: virtual time, an agenda of events, and the lanes
// of every simulated rank. A lane is known by the instant at which it is free, so that whatever is
// issued gets its start and end at once.
#ifndef MEGATWIN_SIM_SIM_BACKEND_H_
#define MEGATWIN_SIM_SIM_BACKEND_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "policies/backend.h"
#include "policies/schedule.h"
#include "sim/event_queue.h"
#include "sim/link_disturbance.h"
#include "sim/overlap_budget.h"
#include "sim/pipeline_costs.h"
#include "sim/step_times.h"
#include "sim/task_rows.h"

namespace megatwin::sim {

class SimBackend : public policies::Backend {
 public:
  // Borrowed: the costs, and for each of their shapes one program a stage.
  SimBackend(const PipelineCosts& costs, const std::vector<std::vector<model::Program>>& programs,
             const std::vector<LinkDisturbance>& links = {});

  void issue_task(model::RankId rank, model::TaskId task) override;
  void issue_send(model::RankId rank, model::TaskId producer) override;
  void issue_crossing(model::RankId rank, model::TaskId producer) override;
  void issue_gather(model::RankId rank, model::ChunkId chunk) override;
  void issue_reduce(model::RankId rank, model::ChunkId chunk) override;
  void issue_optimizer(model::RankId rank) override;
  void return_credit(model::RankId rank, model::TaskId consumer) override;
  // Groups are folded into one rank, so nobody follows.
  void announce(model::RankId rank, model::TaskId task) override;

  // Puts the start of the step on the agenda of every rank.
  void start();
  // Advances the clock to the next event and says whose it is. Requires: has_event().
  struct Arrival {
    std::size_t unit;
    model::ExecutorEvent event;
  };
  bool has_event() const { return !queue_.empty(); }
  Arrival next_event();

  const std::vector<policies::Order>& executed_orders() const { return executed_; }
  // The results, once no event is left.
  StepTimes take_times() &&;
  std::vector<policies::Order> take_executed_orders() && { return std::move(executed_); }

 private:
  // A data-parallel reduction that waits for all classes of its stage that have gradients.
  struct Rendezvous {
    int joined = 0;
    Nanoseconds ready = 0;  // When the gradients of forward ranks are there.
  };
  struct UnitState {
    // Where it is; fixed.
    int replica_class = 0;
    int stage = 0;
    std::size_t class_unit = 0;              // Unit of stage 0 of its class.
    std::size_t class_slot = 0;              // Slot 0 of its class.
    const Nanoseconds* durations = nullptr;  // Of its class, by TaskRow::cost.
    const Nanoseconds* sends = nullptr;      // Of its class, by TaskRow::send_cost.
    const TaskRows* rows = nullptr;          // Of its class's shape.
    const model::Program* program = nullptr;
    // What it does.
    Nanoseconds compute_free = 0;
    Nanoseconds send_free[2] = {0, 0};  // Activations, gradients.
    Nanoseconds cross_free = 0;         // To the other side.
    OverlapBudget budget;
  };

  UnitState& unit(model::RankId rank) { return units_[static_cast<std::size_t>(rank.value)]; }
  Nanoseconds charged(const UnitState& unit, model::TaskId task) const;
  Nanoseconds charge(model::RankId rank, const TaskRow& row, Nanoseconds start);
  // A transfer of `plain` between two stages that begins at `start`, over links as they are then.
  Nanoseconds disturbed(Nanoseconds plain, model::StageId from, model::StageId to,
                        Nanoseconds start) const;
  void push(Nanoseconds time, std::size_t receiver, model::ExecutorEventKind kind,
            std::int32_t index) {
    queue_.push(QueuedEvent::make(time, receiver, kind, index));
  }

  const PipelineCosts& costs_;
  std::vector<LinkDisturbance> links_;
  std::vector<TaskRows> rows_;  // One a shape.
  EventQueue queue_;
  Nanoseconds now_ = 0;
  std::vector<UnitState> units_;
  std::vector<std::vector<Nanoseconds>> gather_ends_;  // One list a unit.
  std::vector<Nanoseconds> data_parallel_free_;        // One a stage: its classes move together.
  std::vector<Rendezvous> reduces_;                    // One a (stage, chunk).
  int num_with_gradients_ = 0;                         // Classes.
  std::vector<std::int32_t> gradients_left_;           // One a (unit, chunk).
  // What each task was charged, by SlotLayout; only when traffic slows tasks down or costs change,
  // since otherwise it is what its row costs.
  std::vector<Nanoseconds> charged_;
  std::vector<policies::Order> executed_;
  StepTimes times_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SIM_BACKEND_H_
