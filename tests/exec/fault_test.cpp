// A rank that fails ends the run for all, with rank, step and task named.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/exec/tiny_jobs.h"
#include "tests/policies/greedy_policy.h"

namespace megatwin::exec {
namespace {

// Eight ranks: two replicas of a pipeline of two with tensor-parallel pairs.
model::Plan eight_ranks() {
  model::Plan plan;
  plan.tensor = plan.pipeline = plan.data = 2;
  return plan;
}

bool is_second_step_of_rank_5(const TaskMoment& moment) {
  return moment.rank.value == 5 && moment.step == 1 && to_text(moment.task) == "B1.0";
}

TEST(Fault, OfARankThatThrows) {
  tests::TinyJob tiny(tests::tiny_llama(), eight_ranks());
  tiny.job.hooks.before_task = [](const TaskMoment& moment) {
    if (is_second_step_of_rank_5(moment)) {
      throw std::runtime_error("the disk is full");
    }
  };
  const HostResult result = run_host(tiny.job);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(to_text(*result.fault), "rank 5, step 1, B1.0: the disk is full");
  EXPECT_EQ(result.losses.size(), 1u);
}

TEST(Fault, OfARankThatSendsNoNumber) {
  tests::TinyJob tiny(tests::tiny_llama(), eight_ranks());
  tiny.job.hooks.after_task = [](const TaskMoment& moment, std::span<float> message) {
    if (is_second_step_of_rank_5(moment) && !message.empty()) {
      message[3] = std::numeric_limits<float>::quiet_NaN();
    }
  };
  const HostResult result = run_host(tiny.job);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(to_text(*result.fault), "rank 5, step 1, B1.0: the output is not finite");
}

TEST(Fault, OfALossThatIsNoNumber) {
  tests::TinyJob tiny(tests::tiny_llama());
  // The last weight is one of the head.
  tiny.job.on_start = [](std::span<const ChunkState> state) {
    state.back().weights.back() = std::numeric_limits<float>::quiet_NaN();
  };
  const HostResult result = run_host(tiny.job);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(to_text(*result.fault), "rank 0, step 0, F0.0: the loss is not finite");
  EXPECT_TRUE(result.losses.empty());
}

// A gradient of a weight overflows where no message and no loss does: the last stage sends back
// numbers that fp32 just holds. Whether or not the norm is asked for, no step is made with it.
TEST(Fault, OfAGradientThatIsNoNumber) {
  for (const double norm_max : {0.0, 1.0}) {
    model::Plan plan;
    plan.pipeline = 2;
    tests::TinyJob tiny(tests::tiny_llama(), plan);
    tiny.job.gradient_norm_max = norm_max;
    tiny.job.hooks.after_task = [](const TaskMoment& moment, std::span<float> message) {
      if (moment.rank.value == 1 && moment.step == 1 && to_text(moment.task) == "B1.0") {
        std::fill(message.begin(), message.end(), std::numeric_limits<float>::max());
      }
    };
    std::vector<int> ended;
    tiny.job.on_step = [&](const StepEnd& end) {
      ended.push_back(end.step);
      return true;
    };
    const HostResult result = run_host(tiny.job);
    ASSERT_TRUE(result.fault.has_value());
    const std::string text = to_text(*result.fault);
    EXPECT_EQ(text.find("rank 0, step 1, optimizer: the gradient of model."), 0u) << text;
    EXPECT_NE(text.find(" is not finite"), std::string::npos) << text;
    EXPECT_EQ(ended, (std::vector<int>{0}));  // Where checkpoints are saved.
  }
}

TEST(Fault, OfRanksThatWaitForNothing) {
  tests::TinyJob tiny(tests::tiny_llama(), eight_ranks());
  tiny.job.watchdog = std::chrono::milliseconds(100);
  tiny.job.policy = [](const model::Program&, model::RankId) {
    return std::make_unique<tests::IdlePolicy>();
  };
  const HostResult result = run_host(tiny.job);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(result.fault->what,
            "no rank got anything done for 100 ms, the limit of training.watchdog; for what is "
            "slow and not stuck raise it, as by --set training.watchdog='1000 ms'");
}

// The rank that hangs is named, and not one of those that wait for it; the run comes back without
// its thread.
TEST(Fault, OfARankThatHangs) {
  tests::TinyJob tiny(tests::tiny_llama(), eight_ranks());
  tiny.job.watchdog = std::chrono::milliseconds(300);
  const auto release = std::make_shared<std::promise<void>>();
  const auto released = std::make_shared<std::shared_future<void>>(release->get_future().share());
  const auto left = std::make_shared<std::promise<void>>();
  tiny.job.hooks.before_task = [released, left](const TaskMoment& moment) {
    if (is_second_step_of_rank_5(moment)) {
      released->wait();
      left->set_value();
      throw std::runtime_error("at last");
    }
  };
  const auto start = std::chrono::steady_clock::now();
  const HostResult result = run_host(tiny.job);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(to_text(*result.fault),
            "rank 5, step 1, B1.0: no rank got anything done for 300 ms, the limit of "
            "training.watchdog; for what is slow and not stuck raise it, as by --set "
            "training.watchdog='3000 ms'");
  EXPECT_TRUE(result.abandoned);
  EXPECT_TRUE(result.ranks.empty());
  EXPECT_EQ(result.losses.size(), 1u);
  release->set_value();
  left->get_future().wait();
}

// Computes for as long as it is let, inside of the forward of the second step that reads it: what
// no watchdog over waiting ranks sees.
class SpinningTokens : public TokenSource {
 public:
  SpinningTokens(const TokenSource& inner, int step) : inner_(inner), step_(step) {}

  TokenBatch batch(const Place& place) const override {
    if (place.step == step_) {
      volatile std::uint64_t sum = 0;
      while (!released_) sum = sum + 1;
      left_.set_value();
      throw std::runtime_error("at last");
    }
    return inner_.batch(place);
  }

  void release() {
    released_ = true;
    left_.get_future().wait();
  }

 private:
  const TokenSource& inner_;
  int step_;
  std::atomic<bool> released_{false};
  mutable std::promise<void> left_;
};

// A thread cannot be ended, but the run comes back without it: the rank and its task are named when
// it has spent more processor time than any task takes.
TEST(Fault, OfARankThatSpinsInArithmetic) {
  for (const int step : {0, 1}) {
    tests::TinyJob tiny(tests::tiny_llama());
    tiny.job.plan.pipeline = 2;
    tiny.job.plan.global_batch = 1;
    tiny.job.steps = 3;
    tiny.job.watchdog = std::chrono::milliseconds(1000);
    SpinningTokens tokens(*tiny.job.tokens, step);
    tiny.job.tokens = &tokens;
    const auto start = std::chrono::steady_clock::now();
    const HostResult result = run_host(tiny.job);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    ASSERT_TRUE(result.fault.has_value());
    EXPECT_EQ(result.fault->step, step);
    EXPECT_EQ(result.fault->rank.value, 0);
    EXPECT_EQ(result.fault->task, "F0.0");
    EXPECT_NE(result.fault->what.find("of processor time without an end"), std::string::npos)
        << result.fault->what;
    EXPECT_TRUE(result.abandoned);
    EXPECT_EQ(result.losses.size(), static_cast<std::size_t>(step));
    tokens.release();
  }
}

// Of the first step that is known by the model's FLOP alone: here some seconds, more than the
// watchdog waits for those that do nothing.
TEST(Fault, OfARankThatSpinsInTheFirstStepOfAModelThatIsNotTiny) {
  model::Transformer longer = tests::tiny_llama();
  longer.sequence_length = longer.max_position_embeddings = 1024;
  tests::TinyJob tiny(longer);
  tiny.job.plan.global_batch = 1;
  tiny.job.watchdog = std::chrono::milliseconds(400);
  SpinningTokens tokens(*tiny.job.tokens, 0);
  tiny.job.tokens = &tokens;
  const HostResult result = run_host(tiny.job);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(result.fault->step, 0);
  EXPECT_NE(result.fault->what.find("far longer than a task can take here"), std::string::npos)
      << result.fault->what;
  tokens.release();
}

// The longest task, attention over 4096 tokens, takes several times as long as the watchdog waits
// (here 1.3 s), all of it arithmetic; in the second step it has that of the first to go by.
TEST(Fault, NoneOfARankThatIsSlow) {
  model::Transformer slow = tests::tiny_llama();
  slow.sequence_length = slow.max_position_embeddings = 4096;
  tests::TinyJob tiny(slow);
  tiny.job.plan.global_batch = 1;
  tiny.job.steps = 2;
  tiny.job.timeline_steps = 1;
  tiny.job.watchdog = std::chrono::milliseconds(200);
  const HostResult result = run_host(tiny.job);
  EXPECT_FALSE(result.fault) << to_text(*result.fault);
  ASSERT_EQ(result.ranks.size(), 1u);
  model::Instant longest{};
  for (const model::EventRecord& event : result.ranks[0].timeline) {
    longest = std::max(longest, event.end - event.start);
  }
  EXPECT_GT(longest.ns, 2 * 200'000'000) << "no task was slow enough to say anything";
}

TEST(Fault, OfWhatIsDoneBetweenSteps) {
  tests::TinyJob tiny(tests::tiny_llama(), eight_ranks());
  tiny.job.watchdog = std::chrono::milliseconds(100);
  // Longer than the watchdog, which is for the ranks.
  tiny.job.on_step = [](const StepEnd& end) -> bool {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    if (end.step == 1) throw std::runtime_error("the disk is full");
    return true;
  };
  const HostResult result = run_host(tiny.job);
  ASSERT_TRUE(result.fault.has_value());
  EXPECT_EQ(to_text(*result.fault), "rank 0, step 1, after the step: the disk is full");
}

TEST(Fault, PlansThatCannotRunAreRefusedInWords) {
  model::Plan plan = eight_ranks();
  plan.tensor = 3;
  plan.recompute = model::RecomputeKind::PerOp;
  const tests::TinyJob tiny(tests::tiny_llama(), plan);
  const auto problems = host_job_problems(tiny.job);
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0],
            "the host world recomputes attention or whole layers, not single operations");
  EXPECT_EQ(problems[1], "tensor-parallel size 3 does not divide the attention heads 4");
}

TEST(Fault, ExpertPlansThatCannotRunAreRefusedInWords) {
  model::Plan plan;
  plan.tensor = 2;
  plan.expert = 3;
  plan.context = 3;
  const tests::TinyJob tiny(tests::tiny_experts(), plan);
  EXPECT_EQ(host_job_problems(tiny.job),
            (std::vector<std::string>{
                "twice the context-parallel size 3 does not divide the 8 tokens of a sequence",
                "experts under tensor parallelism need sequence parallelism",
                "expert-parallel size 3 does not divide the 4 experts",
            }));
}

}  // namespace
}  // namespace megatwin::exec
