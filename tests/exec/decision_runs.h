// Random runs of the host world for the tests of decisions: any plan, any policy, delays, one or
// two receive slots.
#ifndef MEGATWIN_TESTS_EXEC_DECISION_RUNS_H_
#define MEGATWIN_TESTS_EXEC_DECISION_RUNS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "exec/host_job.h"
#include "tests/exec/tiny_jobs.h"
#include "tests/policies/recorded_runs.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::tests {

// Sleeps up to 200 µs before some tasks, from the seed.
inline std::function<void(const exec::TaskMoment&)> delays(std::uint64_t seed) {
  return [seed](const exec::TaskMoment& moment) {
    Random random(seed ^ static_cast<std::uint64_t>(1000 * moment.rank.value +
                                                    100 * moment.task.chunk.value +
                                                    10 * moment.task.micro_batch.value +
                                                    static_cast<int>(moment.task.kind)));
    if (random.coin()) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.in(0, 200)));
    }
  };
}

// One step of a pipeline.
inline model::Plan pipeline_plan(model::ScheduleKind schedule, int p, int v) {
  model::Plan plan;
  plan.schedule = schedule;
  plan.pipeline = p;
  plan.model_chunks = v;
  return plan;
}

// Shapes with whole and split backwards, round and folded.
inline const std::vector<model::Plan>& dynamic_plans() {
  using model::ScheduleKind;
  static const std::vector<model::Plan> kPlans = {
      pipeline_plan(ScheduleKind::Interleaved, 2, 2),
      pipeline_plan(ScheduleKind::OneForwardOneBackward, 4, 1),
      pipeline_plan(ScheduleKind::ZeroBubbleV, 2, 2)};
  return kPlans;
}

inline model::ScheduleKind any_policy(Random& random) {
  using model::ScheduleKind;
  constexpr ScheduleKind kPolicies[] = {ScheduleKind::DynamicAdaptive,
                                        ScheduleKind::DynamicDepthFirst,
                                        ScheduleKind::DynamicBreadthFirst};
  return kPolicies[random.in(0, 2)];
}

// The log's events with the message that the decision followed one event later. Nothing when it
// followed none, or none came after.
inline std::optional<std::vector<model::ExecutorEvent>> one_arrival_later(
    const model::ExecutorLog& log, const model::DecisionRecord& decision) {
  const std::size_t index = decision.after_event - 1;
  if (log.events[index].kind != model::ExecutorEventKind::MessageArrived ||
      index + 1 == log.events.size()) {
    return std::nullopt;
  }
  std::vector<model::ExecutorEvent> events = log.events;
  std::swap(events[index], events[index + 1]);
  return events;
}

// Decided by `choice`, logged, for one step.
inline void set_order(exec::HostJob& job, const OrderChoice& choice) {
  job.steps = 1;
  job.log = true;
  job.plan.schedule = choice.shape;
  job.plan.live_activations = choice.live_activations_max;
  job.policy = policy_of(choice);
  job.executor = choice.executor;
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_EXEC_DECISION_RUNS_H_
