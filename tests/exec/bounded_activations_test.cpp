// A scenario that bounds what a rank holds (policy.live_activations) means the same to the
// simulator, which prices GPUs, and to the host world, whose buffers have sizes of their own: the
// same programs and picks, and in a real run no rank holds more.
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "policies/policy_choice.h"
#include "tests/exec/bounded_scenario.h"
#include "tests/exec/decision_runs.h"
#include "tests/policies/greedy_policy.h"

namespace megatwin::exec {
namespace {

using model::Message;
using model::Program;
using tests::BoundedScenario;

std::vector<std::pair<int, int>> ends_of_messages(const std::vector<Message>& messages) {
  std::vector<std::pair<int, int>> ends;
  ends.reserve(messages.size());
  for (const Message& message : messages) {
    ends.emplace_back(message.stage.value, message.task.value);
  }
  return ends;
}

// But for bytes, of which each world has its own.
TEST(BoundedActivations, BothWorldsGetTheSameProgram) {
  const BoundedScenario scenario({.schedule = "dpp", .live_activations = 6});
  const auto priced = build_programs(scenario.priced());
  const auto own = build_programs(scenario.host());
  ASSERT_EQ(priced.size(), own.size());
  for (std::size_t stage = 0; stage < own.size(); ++stage) {
    EXPECT_TRUE(priced[stage].shape == own[stage].shape);
    EXPECT_EQ(priced[stage].overlap_p2p, own[stage].overlap_p2p);
    EXPECT_EQ(priced[stage].tasks, own[stage].tasks);
    EXPECT_EQ(priced[stage].successors, own[stage].successors);
    EXPECT_EQ(priced[stage].num_waits, own[stage].num_waits);
    EXPECT_EQ(ends_of_messages(priced[stage].sends), ends_of_messages(own[stage].sends));
    EXPECT_EQ(ends_of_messages(priced[stage].receives), ends_of_messages(own[stage].receives));
    EXPECT_NE(priced[stage].chunk_memory.back().activation.value,
              own[stage].chunk_memory.back().activation.value);
  }
}

// With the same durations, whatever these are. A looser bound gives another order, else this
// would say nothing.
TEST(BoundedActivations, BothWorldsPickAlike) {
  for (const char* schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
    for (const int slots : {0, 1, 2}) {
      int matters = 0;
      for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
        std::vector<policies::Order> before;
        for (const int most : {2, 3, 5, 8, 32}) {
          SCOPED_TRACE(std::string(schedule) + " slots " + std::to_string(slots) + " seed " +
                       std::to_string(seed) + " live " + std::to_string(most));
          const BoundedScenario scenario(
              {.schedule = schedule, .live_activations = most, .receive_slots = slots});
          const auto orders = scenario.orders_in_simulate(seed);
          EXPECT_EQ(scenario.orders_on_host_program(seed), orders);
          matters += orders != before;
          before = orders;
        }
      }
      EXPECT_GT(matters, 2 * 5);
    }
  }
}

// Thirty-two activations are all of the batch.
TEST(BoundedActivations, ABoundThatDoesNotBindIsNoneInBothWorlds) {
  for (const char* schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
    for (const int slots : {0, 1, 2}) {
      const auto scenario = [&](int most) {
        return BoundedScenario(
            {.schedule = schedule, .live_activations = most, .receive_slots = slots});
      };
      for (const std::uint64_t seed : {1, 2, 3}) {
        const auto expected = scenario(0).orders_on_host_program(seed);
        EXPECT_EQ(scenario(0).orders_in_simulate(seed), expected);
        for (const int most : {32, 33, 1'000'000'000}) {
          SCOPED_TRACE(std::string(schedule) + " slots " + std::to_string(slots) + " live " +
                       std::to_string(most));
          EXPECT_EQ(scenario(most).orders_in_simulate(seed), expected);
          EXPECT_EQ(scenario(most).orders_on_host_program(seed), expected);
        }
      }
    }
  }
}

// By all of megatwin simulate. A pipeline of one stage has no receive slots, whatever the scenario
// says: one and two alter nothing there.
TEST(BoundedActivations, AScenarioIsDecidedAlike) {
  for (const char* schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
    for (const int pipeline : {1, 2}) {
      std::vector<policies::Order> without_slots;
      for (const int most : {0, 3, 6, 31}) {
        for (const int slots : {0, 1, 2}) {
          SCOPED_TRACE(std::string(schedule) + " stages " + std::to_string(pipeline) + " slots " +
                       std::to_string(slots) + " live " + std::to_string(most));
          const BoundedScenario scenario({.schedule = schedule,
                                          .live_activations = most,
                                          .receive_slots = slots,
                                          .pipeline = pipeline});
          const auto orders = scenario.priced_orders_in_simulate();
          EXPECT_EQ(scenario.priced_orders_on_host_program(), orders);
          if (slots == 0) without_slots = orders;
          if (pipeline == 1) {
            EXPECT_EQ(orders, without_slots);
          }
        }
      }
    }
  }
}

// What a rank of `stage` has set aside for `most` activations, 0 for any number: slots that fit its
// larger chunk, the last one's with the head, or for each of its two chunks as many as the 16
// micro-batches, whichever takes less; and the largest buffer of a task.
double set_aside(const model::StageCost& stage, int most) {
  const model::ChunkCost& first = stage.chunks[0];
  const model::ChunkCost& second = stage.chunks[1];
  double passing = 0;
  for (const model::ChunkCost& chunk : stage.chunks) {
    passing = std::max({passing, chunk.forward_transient.value, chunk.backward_transient.value,
                        chunk.weight_transient.value});
  }
  const double both = (first.activation + second.activation).value;
  if (most == 0) return 16 * both + passing;
  const double larger = std::max(first.activation, second.activation).value;
  return std::min(most * larger, std::min(most, 16) * both) + passing;
}

// A pipeline changes no sum. How many activations were live is the planner's count in the order
// that was run.
void expect_within(const model::ProgramSpec& spec, int most, const HostResult& result) {
  for (const HostRankReport& rank : result.ranks) {
    const model::StageCost& stage = spec.stages[static_cast<std::size_t>(rank.stage.value)];
    const model::MemoryPeak peak = model::plan_memory({pipeline_shape(spec), stage, rank.executed});
    EXPECT_LE(peak.in_flight_max_total, most == 0 ? 32 : most);
    EXPECT_EQ(rank.activations_max.value, peak.buffers.value);
    EXPECT_LE(rank.activations_max, rank.activations_reserved);
    EXPECT_EQ(rank.activations_reserved.value, set_aside(stage, most));
  }
}

TEST(BoundedActivations, NoRankHoldsMore) {
  std::vector<double> losses;
  for (const char* schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
    for (const int most : {2, 3, 5, 8, 0}) {
      SCOPED_TRACE(std::string(schedule) + " live " + std::to_string(most));
      const BoundedScenario scenario({.schedule = schedule, .live_activations = most});
      tests::ScenarioJob host(scenario);
      host.job.steps = 1;  // Each has an order of its own, and the report that of the last.
      host.job.hooks.before_task = tests::delays(static_cast<std::uint64_t>(most));
      ASSERT_TRUE(host_job_problems(host.job).empty()) << host_job_problems(host.job).front();
      const HostResult result = run_host(host.job);
      ASSERT_FALSE(result.fault) << to_text(*result.fault);
      if (losses.empty()) losses = result.losses;
      EXPECT_EQ(result.losses, losses);
      expect_within(scenario.host(), most, result);
    }
  }
}

// Writes down in which traversal each pick was made.
class Watched : public policies::Policy {
 public:
  Watched(std::unique_ptr<policies::Policy> behind, std::vector<std::string>& traversals)
      : behind_(std::move(behind)), traversals_(traversals) {}
  std::optional<model::TaskId> pick(const policies::Observation& observation) override {
    const auto picked = behind_->pick(observation);
    const std::string line = behind_->state_line();
    const bool breadth = line.starts_with("dpp adaptive breadth");
    EXPECT_TRUE(breadth || line.starts_with("dpp adaptive depth")) << line;
    const std::string name = breadth ? "breadth" : "depth";
    if (traversals_.empty() || traversals_.back() != name) traversals_.push_back(name);
    return picked;
  }
  std::string state_line() const override { return behind_->state_line(); }

 private:
  std::unique_ptr<policies::Policy> behind_;
  std::vector<std::string>& traversals_;
};

// The second rank begins late, so that the first one fills its memory: four activations. Without
// the bound it never goes over.
TEST(BoundedActivations, TheAdaptivePolicySwitchesToDepthAndBack) {
  for (const int most : {4, 0}) {
    const BoundedScenario scenario({.schedule = "dpp", .live_activations = most});
    tests::ScenarioJob host(scenario);
    host.job.steps = 1;
    std::map<std::int32_t, std::vector<std::string>> traversals{{0, {}}, {1, {}}};
    const auto factory = policies::policy_of(host.job.plan);
    host.job.policy = [&](const Program& program, model::RankId rank) {
      return std::make_unique<Watched>(factory(program, rank), traversals.at(rank.value));
    };
    host.job.hooks.before_task = [](const TaskMoment& moment) {
      if (moment.rank.value == 1 && to_text(moment.task) == "F0.0") {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    };
    const HostResult result = run_host(host.job);
    ASSERT_FALSE(result.fault) << to_text(*result.fault);
    if (most == 0) {
      EXPECT_EQ(traversals.at(0), (std::vector<std::string>{"breadth"}));
      continue;
    }
    ASSERT_GE(traversals.at(0).size(), 3u);
    EXPECT_EQ(traversals.at(0)[0], "breadth");
    EXPECT_EQ(traversals.at(0)[1], "depth");
    EXPECT_EQ(traversals.at(0).back(), "breadth");
  }
}

// Whoever picks: memory was set aside for two, and the third forward has no place.
TEST(BoundedActivations, APolicyThatBreaksTheBoundEndsTheRun) {
  const BoundedScenario scenario({.schedule = "dpp", .live_activations = 2});
  tests::ScenarioJob host(scenario);
  host.job.policy = tests::greedy_factory();
  host.job.hooks.before_task = [](const TaskMoment& moment) {
    if (moment.rank.value == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  const HostResult result = run_host(host.job);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(to_text(*result.fault),
            "rank 0, step 0, F2.0: holds more than the 2 activations that memory was set aside for "
            "before the step");
}

// Sequences of 8.6 billion tokens: no machine has the memory. Nothing is set aside before that is
// known, of neither rank.
TEST(BoundedActivations, MoreMemoryThanTheMachineHasIsToldByKeyAndBytes) {
  for (const int most : {0, 3}) {
    const BoundedScenario scenario({.schedule = "dpp", .live_activations = most});
    tests::ScenarioJob host(scenario);
    host.job.transformer.sequence_length = std::int64_t{1} << 33;
    bool started = false;
    host.job.on_start = [&](const auto&) { started = true; };
    double bytes = 0;
    for (const model::StageCost& stage : host_program_spec(host.job).stages) {
      bytes += set_aside(stage, most);
    }
    ASSERT_GT(bytes, 3e13);
    const HostResult result = run_host(host.job);
    ASSERT_TRUE(result.fault);
    EXPECT_FALSE(started);
    char gib[32];
    std::snprintf(gib, sizeof(gib), "%.1f GiB", bytes / 1073741824);
    const std::string expected =
        "rank 0, step 0, start: " +
        std::string(most == 0 ? "no policy.live_activations, so all 16 micro-batches"
                              : "policy.live_activations 3") +
        ": 2 ranks set aside " + gib + " for activations before the first step; this machine has ";
    EXPECT_EQ(to_text(*result.fault).substr(0, expected.size()), expected);
  }
}

TEST(BoundedActivations, OneMicroBatchMustFit) {
  const BoundedScenario scenario({.schedule = "dpp", .live_activations = 1});
  const std::vector<std::string> expected = {
      "policy.live_activations is 1, but one micro-batch alone holds 2 activations on a rank, one "
      "in each of its model chunks (allowed: 2 or more)"};
  tests::ScenarioJob host(scenario);
  EXPECT_EQ(host_job_problems(host.job), expected);
  EXPECT_EQ(scenario.problems_in_simulate(), expected);
}

}  // namespace
}  // namespace megatwin::exec
