// Forward-backward decoupling in the simulator: by hand, against its closed form, and what its
// transfers, bounds and splits do, as programs of the Executor and in an engine of its own, which
// are held against each other.
#include "sim/decoupled/decoupled_pipeline.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include "model/program/left_weights.h"
#include "sim/decoupled/decoupled_instances.h"
#include "sim/decoupled/decoupled_program.h"
#include "tests/sim/pipeline_specs.h"
#include "tests/sim/seeds.h"

namespace megatwin::sim {
namespace {

using policies::DecoupledFeed;
using policies::DecoupledPipeline;
using tests::Random;

// F, F' and B in ns on `p` stages; half of a backward is for the weights.
DecoupledSpec uniform(int p, int m, std::int64_t forward, std::int64_t again, std::int64_t backward,
                      DecoupledFeed feed) {
  DecoupledSpec spec{.stages = {}, .micro_batches = m, .feed = feed};
  spec.stages.assign(static_cast<std::size_t>(p), {.forward = {forward},
                                                   .again = {again},
                                                   .backward = {backward},
                                                   .backward_input = {backward - backward / 2},
                                                   .weight_on_forward = {backward / 2}});
  return spec;
}

// p = 4, m = 8, F = 1, B = 2: 33 units when the forward is run again, 26 when activations are
// shipped (docs/fbd.md).
TEST(DecoupledPipeline, WorkedByHand) {
  EXPECT_EQ(simulate_decoupled(uniform(4, 8, 1, 1, 2, DecoupledFeed::StageInput)).makespan.ns, 33);
  EXPECT_EQ(simulate_decoupled(uniform(4, 8, 1, 1, 2, DecoupledFeed::Activations)).makespan.ns, 26);
}

TEST(DecoupledPipeline, EqualsTheClosedForm) {
  for (int p = 1; p <= 4; ++p) {
    for (int m = 1; m <= 6; ++m) {
      for (std::int64_t side = 1; side <= 7; side += 2) {
        for (std::int64_t backward = 1; backward <= 5; backward += 2) {
          for (const auto feed : {DecoupledFeed::StageInput, DecoupledFeed::Activations}) {
            const DecoupledSpec spec = uniform(p, m, side, 2, backward, feed);
            const auto form = policies::decoupled_step_time({p, m, {side}, {2}, {backward}, feed});
            ASSERT_TRUE(is_program(spec));
            ASSERT_EQ(simulate_as_program(spec).makespan, form)
                << p << " " << m << " F' " << side << " B " << backward;
            ASSERT_EQ(simulate_instances(spec).makespan, form)
                << p << " " << m << " F' " << side << " B " << backward;
          }
        }
      }
    }
  }
}

// Two stages, two micro-batches, F = 2, B = 3, activations shipped in 5, hops of 1.
//   forward 0: 0-2, 2-4; at 1: 3-5, 5-7. Fed at 1: 10, then 15 (one at a time on the link); at 0:
//   7,
//   12. Backward 1: 10-13, 15-18; gradients at 14, 19; backward 0: 14-17, 19-22.
TEST(DecoupledPipeline, TransfersQueue) {
  DecoupledSpec spec = uniform(2, 2, 2, 2, 3, DecoupledFeed::Activations);
  for (DecoupledStage& stage : spec.stages) {
    stage.feed = {5};
    stage.send_activation = stage.send_gradient = {1};
  }
  EXPECT_EQ(simulate_decoupled(spec).makespan.ns, 22);
  // Weights that arrive after 10, a reduction of 4 and a step of 3 are all exposed.
  for (DecoupledStage& stage : spec.stages) {
    stage.weights = {10};
    stage.reduce = {4};
    stage.optimizer = {3};
  }
  EXPECT_EQ(simulate_decoupled(spec).makespan.ns, 22 + 10 + 4 + 3);
}

// Forwards four times as fast: without a bound all eight activations wait, with one no more.
TEST(DecoupledPipeline, HoldsWhatItMay) {
  DecoupledSpec spec = uniform(1, 8, 1, 1, 4, DecoupledFeed::Activations);
  // The last begins at 7, the first is finished at 5.
  EXPECT_EQ(simulate_decoupled(spec).ranks[1].activations_max, 7);
  EXPECT_EQ(simulate_decoupled(spec).ranks[0].activations_max, 1);
  spec.stages[0].waiting_max = 2;
  const DecoupledResult bounded = simulate_decoupled(spec);
  EXPECT_EQ(bounded.ranks[1].activations_max, 2);
  EXPECT_EQ(bounded.makespan.ns, 1 + 8 * 4);
}

// F = 1 and a link that takes 3 an activation: when the eighth forward ends, at 8, two have left at
// 4 and 7, so that six are there. A bound of two holds the forwards back: the n-th begins when
// backward n − 2 has ended, so that at most two are unsent.
TEST(DecoupledPipeline, ForwardRanksHoldWhatIsUnsent) {
  DecoupledSpec spec = uniform(1, 8, 1, 1, 1, DecoupledFeed::Activations);
  spec.stages[0].feed = {3};
  EXPECT_EQ(simulate_as_program(spec).ranks[0].activations_max, 6);
  EXPECT_EQ(simulate_instances(spec).ranks[0].activations_max, 6);
  spec.stages[0].waiting_max = 2;
  EXPECT_LE(simulate_as_program(spec).ranks[0].activations_max, 2);
  EXPECT_LE(simulate_instances(spec).ranks[0].activations_max, 2);
}

// Weight gradients of all eight left to a forward rank that is busy until 8 · 3 = 24. Inputs come
// from 3 + 1 = 4 on, one every 3, the eighth when the last forward has ended: all eight are there.
TEST(DecoupledPipeline, CountsInputsOfWeightGradients) {
  DecoupledSpec spec = uniform(1, 8, 3, 3, 2, DecoupledFeed::Activations);
  spec.weight_share = 1;
  const DecoupledResult result = simulate_decoupled(spec);
  EXPECT_FALSE(result.by_executor);
  // At 24 the last forward ends; seven inputs have come at 4, 7, … 22, and wait.
  EXPECT_EQ(result.ranks[0].weight_inputs_max, 7);
  EXPECT_EQ(result.ranks[1].weight_inputs_max, 1);
  // Slow to leave, inputs fill a backward rank as activations do, and a bound holds for both.
  spec.stages[0].weight_input = {9};
  spec.stages[0].on_backward = {.activation = {100}, .weight_input = {100}};
  const DecoupledResult free = simulate_decoupled(spec);
  EXPECT_GT(free.ranks[1].held_max.value, 300);
  spec.stages[0].waiting_max = 3;
  const DecoupledResult bounded = simulate_decoupled(spec);
  EXPECT_EQ(bounded.ranks[1].held_max.value, 300);
  EXPECT_GE(bounded.makespan, free.makespan);
}

// One forward rank as fast as two backward ranks: F : B = 1 : 2 keeps all three busy. p = 1, m = 8,
// F = 1, B = 2: the backward ranks begin at 1 and 2 and have four each, the last ends at 2 + 4 · 2.
TEST(DecoupledPipeline, FreeRatio) {
  DecoupledSpec spec = uniform(1, 8, 1, 1, 2, DecoupledFeed::Activations);
  spec.backward_instances = 2;
  const DecoupledResult result = simulate_decoupled(spec);
  EXPECT_TRUE(result.by_executor);
  EXPECT_EQ(result.makespan.ns, 10);
  EXPECT_DOUBLE_EQ(result.busy_share(true), 0.8);
  EXPECT_DOUBLE_EQ(result.busy_share(false), 0.8);
}

// F = 100 and B = 300, half of it for the weights: with a share x of the weight gradients on the
// forward ranks both sides are equal at 100 + 150 x = 300 − 150 x. The step is shorter then.
TEST(DecoupledPipeline, WeightGradientsBalance) {
  DecoupledSpec spec = uniform(2, 40, 100, 100, 300, DecoupledFeed::Activations);
  const auto before = simulate_decoupled(spec);
  spec.weight_share = balanced_weight_share(spec);
  // (300 − 100) / (150 + 150)
  EXPECT_NEAR(spec.weight_share, 2.0 / 3, 1e-9);
  const auto after = simulate_decoupled(spec);
  EXPECT_LT(static_cast<double>(after.makespan.ns), 0.72 * static_cast<double>(before.makespan.ns));
  EXPECT_NEAR(after.busy_share(true), after.busy_share(false), 0.05);
  // Nothing is lost: all tasks together take as long as before.
  std::int64_t busy[2] = {0, 0};
  for (const auto& rank : before.ranks) busy[0] += rank.busy.ns;
  for (const auto& rank : after.ranks) busy[1] += rank.busy.ns;
  EXPECT_EQ(busy[0], busy[1]);
}

// Tasks take `shortest` at least.
DecoupledStage any_stage(Random& random, std::int64_t shortest) {
  return {.forward = {random.in(shortest, 20)},
          .again = {random.in(shortest, 20)},
          .backward = {random.in(20, 40)},
          .backward_input = {random.in(shortest, 20)},
          .weight_on_forward = {random.in(shortest, 20)},
          .feed = {random.in(0, 30)},
          .weight_input = {random.in(0, 30)},
          .gradients = {random.in(0, 30)},
          .reduce = {random.in(0, 30)},
          .optimizer = {random.in(0, 30)},
          .weights = {random.in(0, 30)},
          .waiting_max = static_cast<int>(random.in(0, 3)),
          .send_activation = {random.in(0, 9)},
          .send_gradient = {random.in(0, 9)}};
}

DecoupledSpec any_instances(Random& random) {
  DecoupledSpec spec{.stages = {}};
  spec.forward_instances = static_cast<int>(random.in(1, 3));
  spec.backward_instances = static_cast<int>(random.in(1, 3));
  spec.micro_batches =
      static_cast<int>(random.in(std::max(spec.forward_instances, spec.backward_instances), 12));
  return spec;
}

std::int64_t sum_of_parts(const DecoupledRank& rank) {
  return (rank.busy + rank.exposed_pp + rank.exposed_dp + rank.optimizer + rank.bubble).ns;
}

// Neither traffic nor the optimizer; activations that are taken in take no time.
bool is_task(const model::EventRecord& event) {
  return event.kind <= model::EventKind::Recompute && event.end > event.start;
}
std::vector<model::EventRecord> tasks_of(const DecoupledResult& result) {
  std::vector<model::EventRecord> tasks;
  std::copy_if(result.timeline.begin(), result.timeline.end(), std::back_inserter(tasks), is_task);
  return tasks;
}

// The Executor with the event engine and the engine of the instances: the same step to the
// nanosecond, every task of it, and the same parts of it on every rank; with weight gradients left
// to the forward ranks in the order in which they ran them there.
TEST(DecoupledPipeline, BothEnginesAgree) {
  // In the 2384th a weight gradient is worked out before its rank has its weights, if it may.
  for (const std::uint64_t seed : tests::seeds(3000)) {
    Random random(seed);
    SCOPED_TRACE(tests::rerun_line("sim_unit_test", seed));
    DecoupledSpec spec = any_instances(random);
    spec.feed = random.coin() ? DecoupledFeed::StageInput : DecoupledFeed::Activations;
    if (random.coin()) spec.weight_share = static_cast<double>(random.in(0, 8)) / 8;
    for (std::int64_t left = random.in(1, 5); left > 0; --left) {
      spec.stages.push_back(any_stage(random, 0));
      if (random.coin()) spec.stages.back().forward_room = {static_cast<double>(random.in(1, 9))};
      spec.stages.back().on_forward = {{1}, {1}};
    }
    const DecoupledResult program = simulate_as_program(spec);
    const DecoupledResult instances = simulate_instances(spec);
    ASSERT_EQ(program.makespan, instances.makespan);
    ASSERT_EQ(program.ranks.size(), instances.ranks.size());
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      const DecoupledRank& a = program.ranks[rank];
      const DecoupledRank& b = instances.ranks[rank];
      EXPECT_EQ(a.forward_side, b.forward_side);
      EXPECT_EQ(a.instance, b.instance);
      EXPECT_EQ(a.stage, b.stage);
      EXPECT_EQ(a.busy, b.busy);
      EXPECT_EQ(a.finish, b.finish);
      EXPECT_EQ(a.exposed_pp, b.exposed_pp);
      EXPECT_EQ(a.exposed_dp, b.exposed_dp);
      EXPECT_EQ(a.optimizer, b.optimizer);
      EXPECT_EQ(a.bubble, b.bubble);
      EXPECT_EQ(sum_of_parts(a), program.makespan.ns);
      // What ends and begins at one instant may be counted together by the other engine.
      EXPECT_LE(a.activations_max, b.activations_max);
    }
    ASSERT_EQ(tasks_of(program), tasks_of(instances));
  }
}

// A random spec whose tasks all take time, so that each stands in the timeline.
DecoupledSpec random_spec(Random& random) {
  DecoupledSpec spec = any_instances(random);
  spec.feed = random.coin() ? DecoupledFeed::StageInput : DecoupledFeed::Activations;
  spec.weight_share = static_cast<double>(random.in(0, 4)) / 4;
  for (std::int64_t left = random.in(1, 5); left > 0; --left) {
    spec.stages.push_back(any_stage(random, 1));
  }
  return spec;
}

// The tasks of a run by kind, stage and micro-batch, and what must hold between them.
class Tasks {
 public:
  Tasks(const DecoupledSpec& spec, const DecoupledResult& result) : spec_(spec) {
    for (const model::EventRecord& event : result.timeline) {
      if (!is_task(event)) continue;
      const DecoupledRank& rank = result.ranks[static_cast<std::size_t>(event.rank.value)];
      const auto [place, is_new] =
          tasks_.insert({{event.kind, rank.stage.value, event.micro_batch.value}, event});
      EXPECT_TRUE(is_new) << "micro-batch " << event.micro_batch.value << " runs twice";
      const int instances = rank.forward_side ? spec.forward_instances : spec.backward_instances;
      EXPECT_EQ(event.micro_batch.value % instances, rank.instance);
    }
  }

  void check_micro_batch(int stage, int micro_batch) const {
    const DecoupledStage& costs = spec_.stages[static_cast<std::size_t>(stage)];
    const bool split = leaves_weights(micro_batch);
    const auto& forward = at(model::EventKind::Forward, stage, micro_batch);
    const auto& backward = at(split ? model::EventKind::BackwardInput : model::EventKind::Backward,
                              stage, micro_batch);
    EXPECT_EQ(forward.end - forward.start, costs.forward);
    EXPECT_EQ(backward.end - backward.start, split ? costs.backward_input : costs.backward);
    EXPECT_GE(forward.start, costs.weights);
    const bool again = spec_.feed == DecoupledFeed::StageInput;
    if (stage > 0) {
      const DecoupledStage& before = spec_.stages[static_cast<std::size_t>(stage - 1)];
      const auto& sender = at(model::EventKind::Forward, stage - 1, micro_batch);
      EXPECT_GE(forward.start, sender.end + before.send_activation);
    }
    if (stage + 1 < std::ssize(spec_.stages)) {
      const DecoupledStage& next = spec_.stages[static_cast<std::size_t>(stage) + 1];
      EXPECT_GE(backward.start, backward_end(stage + 1, micro_batch) + next.send_gradient);
    }
    if (again) {
      const auto& repeated = at(model::EventKind::Recompute, stage, micro_batch);
      EXPECT_EQ(repeated.end - repeated.start, costs.again);
      EXPECT_GE(backward.start, repeated.end);
      if (stage > 0) {
        EXPECT_GE(repeated.start, forward.start + costs.feed);
      }
    } else {
      EXPECT_GE(backward.start, forward.end + costs.feed);
    }
    if (split) {
      const auto& weights = at(model::EventKind::BackwardWeight, stage, micro_batch);
      EXPECT_EQ(weights.end - weights.start, costs.weight_on_forward);
      EXPECT_GE(weights.start, backward.end + costs.weight_input);
    }
  }

  // With the reduction, the step, and gradients that have to cross.
  model::Instant end_of(int stage, int micro_batch) const {
    const DecoupledStage& costs = spec_.stages[static_cast<std::size_t>(stage)];
    model::Instant end = backward_end(stage, micro_batch);
    if (leaves_weights(micro_batch)) {
      end = std::max(
          end, at(model::EventKind::BackwardWeight, stage, micro_batch).end + costs.gradients);
    }
    return end + costs.reduce + costs.optimizer;
  }

  bool leaves_weights(int micro_batch) const {
    return model::LeftWeights{
        .share = spec_.weight_share,
        .micro_batches = spec_.micro_batches,
        .round = model::round_of(spec_.forward_instances, spec_.backward_instances)}
        .has({micro_batch});
  }
  std::size_t size() const { return tasks_.size(); }

 private:
  const model::EventRecord& at(model::EventKind kind, int stage, int micro_batch) const {
    static const model::EventRecord kNone{};
    const auto found = tasks_.find({kind, stage, micro_batch});
    EXPECT_NE(found, tasks_.end()) << "a task of micro-batch " << micro_batch << " is lost";
    return found == tasks_.end() ? kNone : found->second;
  }
  model::Instant backward_end(int stage, int micro_batch) const {
    const auto kind =
        leaves_weights(micro_batch) ? model::EventKind::BackwardInput : model::EventKind::Backward;
    return at(kind, stage, micro_batch).end;
  }

  const DecoupledSpec& spec_;
  std::map<std::tuple<model::EventKind, int, int>, model::EventRecord> tasks_;
};

// Everything at once, at random: every task runs once, on the rank that it belongs to, as long as
// it should, after all that it waits for, never two at a time on a rank; the step ends with the
// last optimizer; and what may wait at a backward rank is kept.
TEST(DecoupledPipeline, RandomSpecsKeepToTheRules) {
  for (const std::uint64_t seed : tests::seeds(300)) {
    Random random(seed);
    SCOPED_TRACE(tests::rerun_line("sim_unit_test", seed));
    const DecoupledSpec spec = random_spec(random);
    const DecoupledResult result = simulate_decoupled(spec);
    const Tasks tasks(spec, result);
    model::Instant end;
    std::size_t num_tasks = 0;
    for (int stage = 0; stage < std::ssize(spec.stages); ++stage) {
      for (int micro_batch = 0; micro_batch < spec.micro_batches; ++micro_batch) {
        tasks.check_micro_batch(stage, micro_batch);
        end = std::max(end, tasks.end_of(stage, micro_batch));
        num_tasks += 2u + (spec.feed == DecoupledFeed::StageInput ? 1u : 0u) +
                     (tasks.leaves_weights(micro_batch) ? 1u : 0u);
      }
    }
    EXPECT_EQ(tasks.size(), num_tasks);
    EXPECT_GE(result.makespan, end);
    std::vector<model::Instant> busy(result.ranks.size()), free(result.ranks.size());
    for (const model::EventRecord& event : result.timeline) {
      if (!is_task(event)) continue;
      const auto rank = static_cast<std::size_t>(event.rank.value);
      EXPECT_GE(event.start, free[rank]) << "two tasks at a time";
      free[rank] = event.end;
      busy[rank] += event.end - event.start;
    }
    for (std::size_t i = 0; i < result.ranks.size(); ++i) {
      const DecoupledRank& rank = result.ranks[i];
      EXPECT_EQ(rank.busy, busy[i]);
      EXPECT_GE(result.makespan, rank.finish);
      EXPECT_GE(rank.bubble.ns, 0);
      EXPECT_GE(rank.exposed_dp.ns, 0);
      EXPECT_EQ(sum_of_parts(rank), result.makespan.ns);
      const int most = spec.stages[static_cast<std::size_t>(rank.stage.value)].waiting_max;
      if (!rank.forward_side && spec.feed == DecoupledFeed::Activations && most > 0) {
        EXPECT_LE(rank.activations_max, most);
      }
    }
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace megatwin::sim
