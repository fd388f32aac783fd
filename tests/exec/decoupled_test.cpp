// Forward-backward decoupling really run: forward and backward ranks train to the same bits as the
// same stages together, in the memory that was planned, and do what the simulator says.
#include <utility>

#include <gtest/gtest.h>

#include "tests/exec/decoupled_runs.h"
#include "tests/sim/seeds.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::SideFeed;
using tests::decoupled;
using tests::describe;
using tests::expect_both_worlds_alike;
using tests::kFeeds;
using tests::one_f_one_b;
using tests::tiny_experts;
using tests::tiny_gpt;
using tests::tiny_llama;
using tests::TinyJob;
using tests::train;
using tests::train_to_the_end;
using tests::Trained;
using tests::with_instances;

TEST(Decoupled, TrainsToTheBitsOfOneRank) {
  for (const auto& transformer : {tiny_llama(), tiny_gpt()}) {
    const Trained single = train_to_the_end(transformer, {});
    ASSERT_FALSE(single.state.empty());
    for (const int p : {1, 2, 4}) {
      for (const SideFeed feed : kFeeds) {
        const Plan plan = decoupled(one_f_one_b(p), feed);
        EXPECT_TRUE(train_to_the_end(transformer, plan) == single)
            << transformer.name << " " << describe(plan);
      }
    }
  }
}

// Both ends add to one matrix; over stages that is a sum in another order than on one rank.
TEST(Decoupled, TiedEndsToTheBitsOf1f1b) {
  for (const int p : {1, 2, 4}) {
    const Trained together = train_to_the_end(tests::tied(tiny_gpt()), one_f_one_b(p));
    for (const SideFeed feed : kFeeds) {
      const Plan plan = decoupled(one_f_one_b(p), feed);
      EXPECT_TRUE(train_to_the_end(tests::tied(tiny_gpt()), plan) == together) << describe(plan);
    }
  }
}

TEST(Decoupled, AnyNumberOfMicroBatches) {
  for (const std::int64_t m : {1, 2, 3, 9}) {
    const Trained single = train_to_the_end(tiny_llama(), {}, m);
    for (const SideFeed feed : kFeeds) {
      const Plan plan = decoupled(one_f_one_b(2), feed);
      EXPECT_TRUE(train_to_the_end(tiny_llama(), plan, m) == single) << m;
    }
  }
}

// Groups sum in the order in which those of a coupled pipeline do.
TEST(Decoupled, InGroupsToTheBitsOfTheSameGroupsTogether) {
  std::vector<Plan> plans;
  for (int zero = 0; zero <= 3; ++zero) {
    plans.push_back(one_f_one_b(2));
    plans.back().data = 2;
    plans.back().zero_stage = zero;
  }
  for (const bool sequence_parallel : {false, true}) {
    plans.push_back(one_f_one_b(2));
    plans.back().tensor = 2;
    plans.back().sequence_parallel = sequence_parallel;
  }
  plans.push_back(one_f_one_b(1));
  plans.back().context = 2;
  plans.push_back(one_f_one_b(2));
  plans.back().recompute = model::RecomputeKind::Full;
  for (const Plan& plan : plans) {
    const Trained together = train_to_the_end(tiny_llama(), plan);
    for (const SideFeed feed : kFeeds) {
      EXPECT_TRUE(train_to_the_end(tiny_llama(), decoupled(plan, feed)) == together)
          << describe(plan);
    }
  }
}

TEST(Decoupled, Experts) {
  Plan plan = one_f_one_b(2);
  plan.data = plan.expert = 2;
  const Trained together = train_to_the_end(tiny_experts(), plan);
  for (const SideFeed feed : kFeeds) {
    EXPECT_TRUE(train_to_the_end(tiny_experts(), decoupled(plan, feed)) == together);
  }
}

// One backward rank sums all micro-batches in their order, whoever ran the forwards.
TEST(Decoupled, AnyNumberOfForwardInstancesTrainsToTheBitsOfOneRank) {
  for (const std::int64_t m : {5, 8}) {
    const Trained single = train_to_the_end(tiny_llama(), {}, m);
    for (const int a : {2, 3}) {
      for (const SideFeed feed : kFeeds) {
        const Plan plan = with_instances(decoupled(one_f_one_b(2), feed), a, 1);
        Trained trained = train_to_the_end(tiny_llama(), plan, m);
        EXPECT_TRUE(trained == single) << a << " " << m;
      }
    }
  }
}

// Data-parallel replicas that take micro-batches in turn, as instances do: replica i · d + r of
// b · d has the n-th micro-batch where r of d has number n · b + i.
class InTurn : public TokenSource {
 public:
  InTurn(const TokenSource& tokens, std::int64_t micro_batches, int data, int instances)
      : tokens_(tokens), micro_batches_(micro_batches), data_(data), instances_(instances) {}
  TokenBatch batch(const Place& place) const override {
    const std::int64_t each = micro_batches_ / instances_;
    const std::int64_t replica = place.micro_batch / each;
    const std::int64_t number = place.micro_batch % each * instances_ + replica / data_;
    return tokens_.batch({place.step, replica % data_ * micro_batches_ + number});
  }

 private:
  const TokenSource& tokens_;
  std::int64_t micro_batches_;
  int data_, instances_;
};

// Backward instances reduce exactly as data-parallel replicas do, experts and shards of the
// optimizer included: the same bits, but for the sum of the losses in the order of micro-batches.
TEST(Decoupled, BackwardInstancesTrainToTheBitsOfDataParallelReplicas) {
  std::vector<std::pair<model::Transformer, Plan>> cases;
  for (const int zero : {0, 1}) {
    for (const int d : {1, 2}) {
      Plan plan = one_f_one_b(2);
      plan.data = d;
      plan.zero_stage = zero;
      cases.emplace_back(tiny_llama(), plan);
    }
    Plan experts = one_f_one_b(2);
    experts.data = experts.expert = 2;
    experts.zero_stage = zero;
    cases.emplace_back(tiny_experts(), experts);
  }
  Plan groups = one_f_one_b(1);
  groups.tensor = groups.context = 2;
  groups.sequence_parallel = true;
  cases.emplace_back(tiny_llama(), groups);
  cases.emplace_back(tests::tied(tiny_gpt()), one_f_one_b(2));
  constexpr int kBackward = 2;
  for (const auto& [transformer, plan] : cases) {
    Plan replicas = plan;
    replicas.data *= kBackward;
    const TinyJob tiny(transformer, plan);
    const InTurn in_turn(tiny.tokens, 8 / plan.data, plan.data, kBackward);
    const Trained together = train_to_the_end(transformer, replicas, 8, &in_turn);
    for (const SideFeed feed : kFeeds) {
      const Trained decoupled_run =
          train_to_the_end(transformer, with_instances(decoupled(plan, feed), 3, kBackward));
      EXPECT_TRUE(decoupled_run.state == together.state) << describe(plan);
      EXPECT_EQ(decoupled_run.norms, together.norms) << describe(plan);
      ASSERT_EQ(decoupled_run.losses.size(), together.losses.size());
      for (std::size_t step = 0; step < together.losses.size(); ++step) {
        EXPECT_DOUBLE_EQ(decoupled_run.losses[step], together.losses[step]) << describe(plan);
      }
    }
  }
}

// Shares that differ by one micro-batch: the sums run in another order than on one rank.
TEST(Decoupled, AnyRatioTrainsAlike) {
  const HostResult single = train(tiny_llama(), {});
  for (int a = 1; a <= 3; ++a) {
    for (int b = 1; b <= 3; ++b) {
      for (const SideFeed feed : kFeeds) {
        const Plan plan = with_instances(decoupled(one_f_one_b(2), feed), a, b);
        tests::expect_close(train(tiny_llama(), plan), single,
                            std::to_string(a) + " to " + std::to_string(b));
      }
    }
  }
}

// A forward rank holds weights and the activations of the one micro-batch that it runs.
TEST(Decoupled, ForwardRanksKeepWeightsOnly) {
  TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(2), SideFeed::StageInput));
  const HostResult result = train(tiny.job);
  ASSERT_EQ(result.ranks.size(), 4u);
  const auto specs = host_program_specs(tiny.job);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const HostRankReport& forward = result.ranks[stage];
    const HostRankReport& backward = result.ranks[2 + stage];
    EXPECT_EQ(forward.state, specs[0].stages[stage].parameters);
    // Weights, gradients and two moments.
    EXPECT_EQ(backward.state.value, 4 * forward.state.value);
    const model::ChunkCost& chunk = specs[0].stages[stage].chunks.front();
    EXPECT_EQ(forward.activations_max, chunk.activation + chunk.forward_transient);
  }
}

TEST(Decoupled, SaysWhatCannotRun) {
  const auto problems_of = [](const std::function<void(model::DecoupledPlan&)>& change) {
    TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(2), SideFeed::StageInput));
    change(tiny.job.plan.decoupled);
    return host_job_problems(tiny.job);
  };
  EXPECT_TRUE(problems_of([](auto&) {}).empty());
  const auto says = [&](const std::function<void(model::DecoupledPlan&)>& change,
                        const char* words) {
    const auto problems = problems_of(change);
    ASSERT_EQ(problems.size(), 1u) << words;
    EXPECT_NE(problems.front().find(words), std::string::npos) << problems.front();
  };
  EXPECT_TRUE(problems_of([](auto& plan) { plan.forward.instances = 8; }).empty());
  says([](auto& plan) { plan.forward.instances = 9; }, "the micro-batches of a step (8)");
  says([](auto& plan) { plan.balance_weights = true; }, "there is none, or not one for this plan");
  EXPECT_TRUE(problems_of([](auto& plan) { plan.weight_share = 0.5; }).empty());
}

TEST(Decoupled, BothWorldsDecideAlike) {
  for (const int p : {1, 2, 4}) {
    for (const SideFeed feed : kFeeds) {
      TinyJob tiny(tiny_llama(), decoupled(one_f_one_b(p), feed));
      tiny.job.steps = 1;
      tiny.job.log = true;
      tiny.job.decided.fed_max.assign(static_cast<std::size_t>(p), 3);
      tiny.job.hooks.before_task = tests::delays(static_cast<std::uint64_t>(p));
      expect_both_worlds_alike(tiny.job);
    }
  }
}

// Any number of instances, micro-batches and bound, groups of one or two ranks on either side,
// weight gradients left to the forward side and not, one or two tasks issued ahead, random delays:
// nobody waits for ever, and both worlds do the same.
TEST(Decoupled, InstancesDecideAlikeUnderRandomDelays) {
  for (const std::uint64_t seed : tests::seeds(200)) {
    SCOPED_TRACE(tests::rerun_line("exec_decision_test", seed));
    tests::Random random(seed);
    Plan plan = decoupled(one_f_one_b(static_cast<int>(random.in(1, 2))),
                          random.coin() ? SideFeed::StageInput : SideFeed::Activations);
    plan.decoupled.forward.instances = static_cast<int>(random.in(1, 3));
    plan.decoupled.backward.instances = static_cast<int>(random.in(1, 3));
    plan.decoupled.forward.tensor = static_cast<int>(random.in(1, 2));
    plan.decoupled.backward.tensor = static_cast<int>(random.in(1, 2));
    plan.sequence_parallel = random.coin();
    TinyJob tiny(tiny_llama(), plan);
    tiny.job.plan.global_batch = random.in(3, 8);
    tiny.job.steps = 1;
    tiny.job.log = true;
    tiny.job.executor.issue_depth = static_cast<int>(random.in(1, 2));
    for (int stage = 0; stage < plan.pipeline; ++stage) {
      tiny.job.decided.fed_max.push_back(static_cast<int>(random.in(0, 3)));
    }
    if (random.coin()) tests::leave_weights(random, tiny.job);
    tiny.job.hooks.before_task = tests::delays(seed);
    expect_both_worlds_alike(tiny.job);
    if (HasFatalFailure()) return;
  }
}

// A lost feed or room, out of the log: the replay must notice.
TEST(Decoupled, OneCrossingLessGivesOtherDecisions) {
  Plan plan = decoupled(one_f_one_b(2), SideFeed::Activations);
  plan.decoupled.forward.instances = 2;
  TinyJob tiny(tiny_llama(), plan);
  tiny.job.steps = 1;
  tiny.job.log = true;
  tiny.job.decided.fed_max = {3, 3};
  const HostResult host = run_host(tiny.job);
  ASSERT_FALSE(host.fault);
  const auto specs = host_program_specs(tiny.job);
  const auto programs = build_programs(specs);
  const auto orders = policies::schedule_orders(specs);
  int num_lost = 0;
  for (std::size_t rank = 0; rank < host.ranks.size(); ++rank) {
    const model::ExecutorLog& log = host.ranks[rank].logs.front();
    for (std::size_t event = 0; event < log.events.size(); ++event) {
      if (log.events[event].kind != model::ExecutorEventKind::MessageArrived) continue;
      if (!programs[rank].awaits_crossing({log.events[event].id})) continue;
      std::vector<model::ExecutorEvent> events = log.events;
      events.erase(events.begin() + static_cast<std::ptrdiff_t>(event));
      const policies::Replay again = policies::replay({.program = programs[rank],
                                                       .source = policies::OrderSource::List,
                                                       .order = orders[rank],
                                                       .options = tiny.job.executor},
                                                      events);
      EXPECT_TRUE(!again.divergence.empty() || again.decisions != log.decisions);
      ++num_lost;
    }
  }
  // Of each stage eight feeds and room for five forwards, which wait for their messages too in the
  // second one.
  EXPECT_EQ(num_lost, 2 * (8 + 5) + 5);
}

}  // namespace
}  // namespace megatwin::exec
