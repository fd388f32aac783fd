// What the host world once decided comes out of the recorded events again, byte for byte: nothing
// that decides has changed unseen. tests/policies/mutants.py changes single lines of policies/ and
// shows that this notices. After a change that is meant:
//   MEGATWIN_UPDATE_GOLDENS=1 build/release/tests/exec/exec_decision_test
#include "tests/policies/recorded_runs.h"

#include <fstream>

#include <gtest/gtest.h>

#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "policies/schedule.h"

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

}  // namespace
}  // namespace megatwin::policies
