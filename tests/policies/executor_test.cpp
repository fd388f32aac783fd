// The Executor by hand: what it issues after which event, how it follows a leader, how large it is.
#include "policies/executor.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/program_builder.h"
#include "policies/schedule.h"
#include "tests/policies/greedy_policy.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::policies {
namespace {

using model::ExecutorEventKind;
using model::ScheduleKind;
using model::TaskId;

// Writes down what it is asked for.
class ListingBackend : public Backend {
 public:
  explicit ListingBackend(const model::Program& program) : program_(program) {}

  void issue_task(model::RankId, TaskId task) override { say(name(task)); }
  void issue_send(model::RankId, TaskId task) override { say("send(" + name(task) + ")"); }
  void issue_crossing(model::RankId, TaskId task) override { say("cross(" + name(task) + ")"); }
  void issue_gather(model::RankId, model::ChunkId chunk) override { say("gather", chunk.value); }
  void issue_reduce(model::RankId, model::ChunkId chunk) override { say("reduce", chunk.value); }
  void issue_optimizer(model::RankId) override { say("optimizer"); }
  void return_credit(model::RankId, TaskId task) override { say("credit(" + name(task) + ")"); }
  void announce(model::RankId, TaskId task) override { announced.push_back(task); }

  // What came since the last call.
  std::string take() {
    std::string result;
    result.swap(said_);
    return result;
  }
  std::vector<TaskId> announced;

 private:
  std::string name(TaskId task) const { return to_text(program_.shape.task(task)); }
  void say(const std::string& what, int number) { say(what + std::to_string(number)); }
  void say(const std::string& what) { said_ += (said_.empty() ? "" : " ") + what; }

  const model::Program& program_;
  std::string said_;
};

struct Rig {
  explicit Rig(const model::ProgramSpec& spec, int stage, OrderSource source = OrderSource::List,
               ExecutorOptions options = {})
      : program(build_program(spec, {stage})),
        order(schedule_orders(spec)[static_cast<std::size_t>(stage)]),
        backend(program),
        executor({.program = program,
                  .rank = {stage},
                  .backend = backend,
                  .scratch = scratch,
                  .source = source,
                  .order = source == OrderSource::List ? std::span<const TaskId>(order)
                                                       : std::span<const TaskId>(),
                  .policy = source == OrderSource::Policy ? &policy : nullptr,
                  .options = options}) {}

  std::string on(ExecutorEventKind kind, std::int32_t id = 0) {
    executor.on_event({.kind = kind, .duration = 600, .id = id});
    return backend.take();
  }
  std::string on(ExecutorEventKind kind, const char* task) {
    return on(kind, program.shape.task_id(*model::task_from_text(task)).value);
  }

  model::Program program;
  Order order;
  ListingBackend backend;
  ExecutorScratch scratch;
  tests::GreedyPolicy policy;
  Executor executor;
};

// Stage 0 of 2, three micro-batches: F0 F1 B0 F2 B1 B2. Two tasks may be under way.
TEST(Executor, WalksAStaticOrder) {
  Rig rig(tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 3, 1, 1, 1}), 0);
  EXPECT_EQ(rig.on(ExecutorEventKind::StepStarted), "gather0");
  EXPECT_EQ(rig.on(ExecutorEventKind::GatherDone, 0), "F0.0 send(F0.0) F1.0 send(F1.0)");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F0.0"), "");  // B0 waits for its gradient.
  EXPECT_EQ(rig.on(ExecutorEventKind::MessageArrived, "B0.0"), "B0.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F1.0"), "F2.0 send(F2.0)");
  EXPECT_EQ(rig.on(ExecutorEventKind::MessageArrived, "B1.0"), "");  // Two are under way.
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B0.0"), "B1.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::MessageArrived, "B2.0"), "");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F2.0"), "B2.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B1.0"), "");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B2.0"), "reduce0");
  EXPECT_EQ(rig.on(ExecutorEventKind::ReduceDone, 0), "optimizer");
  EXPECT_FALSE(rig.executor.finished());
  rig.on(ExecutorEventKind::OptimizerDone);
  EXPECT_TRUE(rig.executor.finished());
}

// The last of two stages, three micro-batches, room for two.
TEST(Executor, RunsBothSidesOfADecoupledStage) {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::Decoupled, 2, 1, 3, 1, 1, 1});
  spec.feed = model::SideFeed::Activations;
  spec.crossings.assign(2, {.feed = {}, .fed_max = 2});
  spec.side = model::PipelineSide::Forward;
  Rig forward(spec, 1);
  EXPECT_EQ(forward.on(ExecutorEventKind::StepStarted), "gather0");
  EXPECT_EQ(forward.on(ExecutorEventKind::GatherDone, 0), "");
  EXPECT_EQ(forward.on(ExecutorEventKind::MessageArrived, "F0.0"), "F0.0 cross(F0.0)");
  EXPECT_EQ(forward.executor.memory_used().value, 100);
  EXPECT_EQ(forward.on(ExecutorEventKind::MessageArrived, "F1.0"), "F1.0 cross(F1.0)");
  EXPECT_EQ(forward.on(ExecutorEventKind::TaskDone, "F0.0"), "");
  EXPECT_EQ(forward.executor.memory_used().value, 100);
  EXPECT_EQ(forward.on(ExecutorEventKind::MessageArrived, "F2.0"), "");  // No room yet.
  EXPECT_EQ(forward.on(ExecutorEventKind::TaskDone, "F1.0"), "");
  EXPECT_EQ(forward.on(ExecutorEventKind::MessageArrived, "F2.0"), "F2.0 cross(F2.0)");
  EXPECT_EQ(forward.on(ExecutorEventKind::TaskDone, "F2.0"), "reduce0");
  EXPECT_EQ(forward.on(ExecutorEventKind::ReduceDone, 0), "optimizer");

  spec.side = model::PipelineSide::Backward;
  Rig backward(spec, 1);
  backward.on(ExecutorEventKind::StepStarted);
  EXPECT_EQ(backward.on(ExecutorEventKind::GatherDone, 0), "");
  // The backward of the first makes room for the third forward; those of the others for none.
  EXPECT_EQ(backward.on(ExecutorEventKind::MessageArrived, "R0.0"),
            "R0.0 B0.0 send(B0.0) cross(B0.0)");
  EXPECT_EQ(backward.on(ExecutorEventKind::TaskDone, "R0.0"), "");
  EXPECT_EQ(backward.executor.memory_used().value, 100);
  EXPECT_EQ(backward.on(ExecutorEventKind::TaskDone, "B0.0"), "");
  EXPECT_EQ(backward.executor.memory_used().value, 0);
  EXPECT_EQ(backward.on(ExecutorEventKind::MessageArrived, "R1.0"), "R1.0 B1.0 send(B1.0)");
}

// Messages are matched by tag: the second micro-batch may overtake the first.
TEST(Executor, TakesMessagesInAnyOrder) {
  Rig rig(tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 2, 1, 1, 1}), 1);
  rig.on(ExecutorEventKind::StepStarted);
  rig.on(ExecutorEventKind::GatherDone, 0);
  EXPECT_EQ(rig.on(ExecutorEventKind::MessageArrived, "F1.0"), "");
  EXPECT_EQ(rig.on(ExecutorEventKind::MessageArrived, "F0.0"), "F0.0 B0.0 send(B0.0)");
}

TEST(Executor, RefusesWhatCannotHappen) {
  Rig rig(tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 2, 1, 1, 1}), 1);
  const Executor& executor = rig.executor;
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::TaskDone, .id = 0}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::MessageArrived, .id = 2}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::MessageArrived, .id = -1}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::MessageArrived, .id = 4}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::ReduceDone, .id = 0}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::OptimizerDone}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::CreditReturned}));
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::OrderAnnounced, .id = 0}));
  EXPECT_TRUE(executor.accepts({.kind = ExecutorEventKind::MessageArrived, .id = 0}));
  // A step starts once: not with a task under way, and not with one done.
  EXPECT_TRUE(executor.accepts({.kind = ExecutorEventKind::StepStarted}));
  rig.on(ExecutorEventKind::StepStarted);
  rig.on(ExecutorEventKind::GatherDone, 0);
  rig.on(ExecutorEventKind::MessageArrived, "F0.0");
  EXPECT_FALSE(executor.accepts({.kind = ExecutorEventKind::StepStarted}));
}

// With overlap a chunk is reduced as soon as it is done, else all at the end in that order.
TEST(Executor, ReducesChunksWhenDoneOrAtTheEnd) {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::GPipe, 1, 2, 1, 1, 1, 1});
  for (const bool overlap : {false, true}) {
    spec.overlap_grad_reduce = overlap;
    Rig rig(spec, 0);
    EXPECT_EQ(rig.on(ExecutorEventKind::StepStarted), "gather0 gather1");
    EXPECT_EQ(rig.on(ExecutorEventKind::GatherDone, 0), "F0.0");
    EXPECT_EQ(rig.on(ExecutorEventKind::GatherDone, 1), "F0.1");
    EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F0.0"), "B0.1");
    EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F0.1"), "B0.0");
    EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B0.1"), overlap ? "reduce1" : "");
    EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B0.0"), overlap ? "reduce0" : "reduce1 reduce0");
    EXPECT_EQ(rig.on(ExecutorEventKind::ReduceDone, 1), "");
    EXPECT_EQ(rig.on(ExecutorEventKind::ReduceDone, 0), "optimizer");
  }
}

// One slot at the receiver: the second activation is held until the first has been used there.
TEST(Executor, HoldsASendUntilASlotIsFree) {
  model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 3, 1, 1, 1});
  spec.overlap_p2p = true;
  Rig rig(spec, 0, OrderSource::List, {.receive_slots = 1});
  rig.on(ExecutorEventKind::StepStarted);
  EXPECT_EQ(rig.on(ExecutorEventKind::GatherDone, 0), "F0.0 send(F0.0) F1.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::CreditReturned, 0), "send(F1.0)");
  rig.on(ExecutorEventKind::MessageArrived, "B0.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F0.0"), "B0.0");
  rig.on(ExecutorEventKind::TaskDone, "F1.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B0.0"), "credit(B0.0)");
}

// Held sends go in the order of issue, whatever their numbers: a random test of the host world
// found two members of a group that filled their only slots with different messages and waited for
// ever.
TEST(Executor, HeldSendsGoInTheOrderOfIssue) {
  model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 3, 1, 1, 1});
  spec.overlap_p2p = true;
  Rig rig(spec, 0, OrderSource::Announced, {.issue_depth = 3, .receive_slots = 1});
  rig.on(ExecutorEventKind::StepStarted);
  rig.on(ExecutorEventKind::GatherDone, 0);
  EXPECT_EQ(rig.on(ExecutorEventKind::OrderAnnounced, "F2.0"), "F2.0 send(F2.0)");
  EXPECT_EQ(rig.on(ExecutorEventKind::OrderAnnounced, "F1.0"), "F1.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::OrderAnnounced, "F0.0"), "F0.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::CreditReturned, 0), "send(F1.0)");
  EXPECT_EQ(rig.on(ExecutorEventKind::CreditReturned, 0), "send(F0.0)");
}

// The leader asks its policy and announces; the follower issues the same in the same order, each
// when it can.
TEST(Executor, AFollowerDoesWhatItsLeaderAnnounces) {
  const model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 2, 1, 1, 1});
  Rig leader(spec, 1, OrderSource::Policy);
  Rig follower(spec, 1, OrderSource::Announced);
  for (Rig* rig : {&leader, &follower}) {
    rig->on(ExecutorEventKind::StepStarted);
    rig->on(ExecutorEventKind::GatherDone, 0);
  }
  // B1 is not ready behind F1: the gradients of micro-batch 0 come first.
  EXPECT_EQ(leader.on(ExecutorEventKind::MessageArrived, "F1.0"), "F1.0");
  EXPECT_EQ(leader.on(ExecutorEventKind::MessageArrived, "F0.0"), "F0.0");
  EXPECT_EQ(leader.on(ExecutorEventKind::TaskDone, "F1.0"), "B0.0 send(B0.0)");
  ASSERT_EQ(leader.backend.announced.size(), 3u);
  for (const TaskId task : leader.backend.announced) {
    EXPECT_EQ(follower.on(ExecutorEventKind::OrderAnnounced, task.value), "");
  }
  // The messages come the other way round here; the order stays the leader's.
  EXPECT_EQ(follower.on(ExecutorEventKind::MessageArrived, "F0.0"), "");
  EXPECT_EQ(follower.on(ExecutorEventKind::MessageArrived, "F1.0"), "F1.0 F0.0");
  EXPECT_EQ(follower.on(ExecutorEventKind::TaskDone, "F1.0"), "B0.0 send(B0.0)");
}

// Room for two activations of 100 bytes: the third forward is no longer ready.
TEST(Executor, OffersNoForwardThatDoesNotFit) {
  const model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::OneForwardOneBackward, 2, 1, 4, 1, 1, 1});
  Rig rig(spec, 0, OrderSource::Policy, {.issue_depth = 4, .memory_limit = {299}});
  rig.on(ExecutorEventKind::StepStarted);
  EXPECT_EQ(rig.on(ExecutorEventKind::GatherDone, 0), "F0.0 send(F0.0) F1.0 send(F1.0)");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "F0.0"), "");
  EXPECT_EQ(rig.executor.memory_used().value, 200);
  rig.on(ExecutorEventKind::MessageArrived, "B0.0");
  EXPECT_EQ(rig.on(ExecutorEventKind::TaskDone, "B0.0"), "F2.0 send(F2.0)");
}

// At most 8 KB a rank up to 1,024 tasks, then 8 bytes a task, whoever orders the tasks.
TEST(Executor, IsSmall) {
  struct Case {
    ScheduleKind schedule;
    int p, v, m;
  };
  for (const auto& [schedule, p, v, m] : {Case{ScheduleKind::OneForwardOneBackward, 4, 1, 1},
                                          {ScheduleKind::Interleaved, 8, 4, 128},
                                          {ScheduleKind::Interleaved, 8, 32, 16},
                                          {ScheduleKind::ZeroBubbleV, 8, 2, 170},
                                          {ScheduleKind::ZeroBubbleV, 8, 2, 1024},
                                          {ScheduleKind::Interleaved, 16, 8, 2048}}) {
    model::ProgramSpec spec = tests::uniform_spec({schedule, p, v, m, 1, 1, 1});
    spec.overlap_p2p = true;
    for (const OrderSource source :
         {OrderSource::List, OrderSource::Policy, OrderSource::Announced}) {
      const Rig rig(spec, 0, source, {.receive_slots = 2});
      const int num_tasks = rig.program.num_tasks();
      EXPECT_LE(rig.executor.state_bytes(), Executor::state_bytes_max(num_tasks))
          << num_tasks << " tasks";
    }
  }
}
static_assert(Executor::state_bytes_max(1024) == 8192);
static_assert(Executor::state_bytes_max(2048) == 16384);

}  // namespace
}  // namespace megatwin::policies
