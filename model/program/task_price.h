// Prices a list of micro-ops as one task on one rank: device time in launch order, collectives that
// hide behind the products beside them, and the host that may be slower than the device. The parts
// of the answer sum to the task's duration.
#ifndef MEGATWIN_MODEL_PROGRAM_TASK_PRICE_H_
#define MEGATWIN_MODEL_PROGRAM_TASK_PRICE_H_

#include <map>
#include <vector>

#include "model/collective_cost.h"
#include "model/job.h"
#include "model/link_share.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

// Effects that `--without` can switch off, each to show what it is worth.
struct PricedEffects {
  bool wave = true;  // Shapes of products: tiles, waves, depth, memory. Off: one sustained rate.
  bool memory_bound = true;  // Element-wise work, optimizer, loss.
  bool tensor_traffic = true;
  bool pipeline_schedule = true;
  bool data_parallel = true;
  bool expert_traffic = true;
  bool context_traffic = true;
  bool quantisation = true;  // fp8 casts.
  bool recompute = true;
  bool spread = true;  // Equal parts are not equally fast.
  bool launch = true;  // Gaps between kernels and the host's launches.
};

struct TaskPrice {
  Seconds duration;
  Seconds gemm, attention, memory_bound;  // Device compute by kind, without recomputation.
  Seconds recompute;                      // All compute that repeats the forward pass.
  Seconds exposed_tp, exposed_ep, exposed_cp;
  Seconds exposed_expert_tensor;  // Of exposed_ep: of expert-tensor groups.
  Seconds contention;             // Compute slowed by collectives beside it.
  Seconds host_bound;             // What the host's launches add beyond the device.
  Flop flop;

  Seconds compute() const {
    return gemm + attention + memory_bound + recompute + contention + host_bound;
  }
};

// Two tasks, one after the other.
TaskPrice operator+(const TaskPrice& a, const TaskPrice& b);

// Which ops of a backward list a task runs.
enum class TaskPart { All, WithoutWeightGradient, WeightGradientOnly };

class TaskPricer {
 public:
  TaskPricer(const Job& job, const PricedEffects& effects);

  // The same, with links that others have a part of.
  TaskPricer with(const LinkShares& shares) const {
    TaskPricer pricer = *this;
    pricer.shares_ = shares;
    return pricer;
  }

  TaskPrice price(const MicroOps& ops, TaskPart part = TaskPart::All) const;
  // Device time of one repetition of one op; zero where its effect is switched off.
  Seconds time_of(const MicroOp& op) const;

 private:
  Seconds on_mean_part(const MicroOp& op) const;
  Seconds collective(const MicroOp& op) const;
  Seconds accumulation(const GemmShape& shape) const;

  const Job& job_;
  PricedEffects effects_;
  GpuProfile profile_;  // With wave and memory effects as asked for.
  std::map<GroupKind, GroupTopology> groups_;
  LinkShares shares_;
  double slowest_of_all_ = 1;  // The slowest of the job's GPUs over the mean one.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_TASK_PRICE_H_
