// What the host world once decided comes out of the recorded events again, byte for byte: nothing
// that decides has changed unseen. tests/mutants.py changes single lines of policies/ and
// shows that this notices. After a change that is meant:
//   MEGATWIN_UPDATE_GOLDENS=1 build/release/tests/exec/exec_decision_test
#include "tests/policies/recorded_runs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "policies/schedule.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::policies {
namespace {

using model::DecisionRecord;
using tests::RecordedRun;

TEST(RecordedRuns, DecideTheSameAgain) {
  std::ifstream file(tests::kRecordedRuns);
  ASSERT_TRUE(file.good()) << tests::kRecordedRuns;
  const std::vector<RecordedRun> runs = tests::read_runs(file);
  EXPECT_GE(runs.size(), 20u);
  std::size_t num_decisions = 0;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const RecordedRun& run = runs[index];
    ASSERT_TRUE(schedule_problems(run.spec).empty());
    const auto programs = build_programs(run.spec);
    const PolicyFactory factory = tests::policy_of(run.choice);
    const auto orders = factory ? std::vector<Order>{} : schedule_orders(run.spec);
    for (std::size_t stage = 0; stage < programs.size(); ++stage) {
      const auto policy =
          factory ? factory(programs[stage], {static_cast<std::int32_t>(stage)}) : nullptr;
      const Replay again = replay({.program = programs[stage],
                                   .source = policy ? OrderSource::Policy : OrderSource::List,
                                   .order = policy ? std::span<const model::TaskId>()
                                                   : std::span<const model::TaskId>(orders[stage]),
                                   .policy = policy.get(),
                                   .options = run.choice.executor},
                                  run.logs[stage].events);
      const std::string where = std::string(model::name_of(run.choice.decides)) + ", run " +
                                std::to_string(index) + ", stage " + std::to_string(stage);
      ASSERT_EQ(again.divergence, "") << where;
      EXPECT_EQ(tests::hash_of(again.decisions), run.hashes[stage]) << where;
      std::vector<DecisionRecord> picks = again.decisions;
      for (DecisionRecord& pick : picks) pick.state_hash = 0;
      ASSERT_EQ(picks, run.logs[stage].decisions) << where;
      num_decisions += again.decisions.size();
    }
  }
  EXPECT_GT(num_decisions, 1000u);
}

// However often the logged policy waited before a pick: the first time that it is ready it is made.
TEST(RecordedPicks, PassOverAllWaits) {
  const model::Program program = build_program(
      tests::uniform_spec({model::ScheduleKind::OneForwardOneBackward, 1, 1, 2, 1, 1, 1}), {0});
  const std::vector<DecisionRecord> decisions = {{.task = 1}, {}, {}, {}, {.task = 0}};
  RecordedPicks picks(decisions);
  const std::vector<model::TaskId> both = {{0}, {1}};
  const std::vector<model::TaskId> last = {{0}};
  EXPECT_EQ(picks.pick({.program = program, .ready = last}), std::nullopt);
  EXPECT_EQ(picks.pick({.program = program, .ready = both}), model::TaskId{1});
  EXPECT_EQ(picks.pick({.program = program, .ready = last}), model::TaskId{0});
  EXPECT_EQ(picks.pick({.program = program, .ready = last}), std::nullopt);
}

}  // namespace
}  // namespace megatwin::policies
