// What the host world is asked to train, and what it has to say afterwards. Plain data.
#ifndef MEGATWIN_EXEC_HOST_JOB_H_
#define MEGATWIN_EXEC_HOST_JOB_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/chunk_state.h"
#include "exec/host_layout.h"
#include "exec/host_world.h"
#include "exec/model_chunk.h"
#include "kernels/reference_adamw.h"
#include "model/plan.h"
#include "model/program/decision_record.h"
#include "model/program/decoupled_sides.h"
#include "model/program/event_record.h"
#include "model/program/program_spec.h"
#include "model/transformer.h"
#include "model/units.h"
#include "policies/executor.h"
#include "policies/policy.h"
#include "policies/schedule.h"

namespace megatwin::model {
class Processes;
}  // namespace megatwin::model

namespace megatwin::exec {

// Where training data comes from: the same micro-batch for the same numbers, whoever asks. Called
// from many threads at once.
class TokenSource {
 public:
  struct Place {
    std::int64_t step = 0;
    std::int64_t micro_batch = 0;  // Of the global batch.
  };
  virtual ~TokenSource() = default;
  virtual TokenBatch batch(const Place& place) const = 0;
};

// For tests: called by the thread of the rank, around each task. A hook may sleep, throw, or
// overwrite what the task sends.
struct TaskMoment {
  model::RankId rank;
  int step = 0;
  model::Task task;
};
struct HostHooks {
  std::function<void(const TaskMoment&)> before_task;
  std::function<void(const TaskMoment&, std::span<float> message)> after_task;
};

// Where a run stands between two steps.
struct StepEnd {
  int step = 0;     // The one that is done, from 0.
  double loss = 0;  // Mean nats per token.
  // Of all chunks of all ranks, fetched from other processes when called. Nobody else touches it
  // meanwhile; not to be kept.
  std::function<std::span<const ChunkState>()> state;
};

struct HostJob {
  model::Transformer transformer;
  model::Plan plan;
  const TokenSource* tokens = nullptr;  // Borrowed.
  int first_step = 0;                   // Above 0 in a run that goes on; see on_start.
  int steps = 1;                        // The last one is steps - 1.
  std::uint64_t seed = 1;
  ExpertSettings experts;
  kernels::reference::AdamWSettings optimizer;
  // The learning rate of step n, from 0, as a factor of the one in `optimizer`; empty for 1.
  std::function<double(int step)> learning_rate_factor;
  double gradient_norm_max = 0;  // Clips the global norm; 0 for never.

  std::vector<std::vector<std::string>> orders;  // ScheduleKind::OrderFile: one a stage.
  bool orders_fold = false;
  // Decoupled: what the machines that the run stands for decide. Weight gradients on the forward
  // side: where nothing is decided the plan's share of them, which must be a number.
  model::DecidedSides decided;
  // Decides instead of the schedule's order when set. Called by the thread of each rank that
  // decides, before each step.
  policies::PolicyFactory policy;
  policies::ExecutorOptions executor;
  bool log = false;
  int timeline_steps = 0;  // So many steps, from the first, are recorded.

  HostHooks hooks;
  // Nothing done by any rank for so long ends the run. Longer than any task takes.
  std::chrono::milliseconds watchdog{10'000};
  // Called before the first step with the first weights: to put others in their place. In each of
  // several processes with its own.
  std::function<void(std::span<const ChunkState>)> on_start;
  // Called by the thread of rank 0 after each step, however long it takes; says whether to go on.
  // What it throws is a fault of rank 0.
  std::function<bool(const StepEnd&)> on_step;
};

struct HostRankReport {
  model::RankId rank;
  model::StageId stage;                  // Decoupled: HostLayout::role().
  std::vector<model::ExecutorLog> logs;  // One a step when asked for.
  policies::Order executed;              // Of the last step.
  model::Bytes state;                    // Weights, gradients and optimizer state, throughout.
  // Above these:
  model::Bytes activations_max;  // Live at once.
  // The arena's high-water; where a policy decides the pool, set aside before the first step.
  model::Bytes activations_reserved;
  std::vector<model::EventRecord> timeline;  // In nanoseconds from the start of the run.
};

struct HostResult {
  std::vector<double> losses;  // Mean nats per token of each finished step.
  // Of all gradients of each, before clipping; empty when nothing is clipped.
  std::vector<double> gradient_norms;
  std::optional<Fault> fault;
  // A rank hangs: its thread goes on by itself and may still read the job's tokens and hooks. There
  // are no reports and no hash, and the process should end.
  bool abandoned = false;
  // Whether it is up to this process to say what came of the run: the first that lives.
  bool tells = true;
  // Of all ranks in the process of rank 0; elsewhere of its own, already sent there.
  std::vector<HostRankReport> ranks;
  // Of all weights in the order of ranks and chunks: equal bits, equal hash. At rank 0.
  std::uint64_t weights_hash = 0;
};

// Why `job` cannot run here, in words for the user; empty when it can.
std::vector<std::string> host_job_problems(const HostJob& job);

// The pipeline of `job` as every world is told it, with the bytes that the host world holds and no
// durations: one program, or what model::decoupled_sides() makes.
// Requires: host_job_problems() is empty, but for the schedule's own.
std::vector<model::ProgramSpec> host_program_specs(const HostJob& job);
// Requires: one program.
model::ProgramSpec host_program_spec(const HostJob& job);

// Trains. Returns when all ranks have finished or one fault has stopped them; a rank that hangs is
// waited for until `watchdog` and a second after the last thing that got done.
// Requires: host_job_problems() is empty.
HostResult run_host(const HostJob& job);
// The same with an equal share of the ranks in each process: the same bits. After a fault other
// processes may be gone or hang, and this one should abort() the others.
// Requires: the number of processes divides that of the ranks; all are given the same job.
HostResult run_host(const HostJob& job, model::Processes& processes);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HOST_JOB_H_
