// The adaptive policy: that its bounds hold and never stop it, that its decisions come out of the
// events again, what it switches by, and how it stands beside the best fixed order (docs/dpp.md).
#include "policies/adaptive_pipeline.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
#include "tests/policies/generated_table.h"
#include "tests/policies/order_race.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/seeds.h"

namespace megatwin::policies {
namespace {

using model::ScheduleKind;
using sim::Engine;
using sim::PipelineResult;

PipelineResult run(const model::ProgramSpec& spec, const AdaptivePipelineOptions& options,
                   const ExecutorOptions& executor = {},
                   const std::vector<model::Bytes>& limits = {}) {
  PipelineResult result = sim::simulate_pipeline(spec, Engine::Events,
                                                 {.policy = adaptive_pipeline_factory(options),
                                                  .executor = executor,
                                                  .memory_limits = limits,
                                                  .log = true});
  EXPECT_TRUE(result.stalled.empty()) << result.stalled.front();
  return result;
}

int live_max(const model::ProgramSpec& spec, const PipelineResult& result) {
  int live = 0;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    live = std::max(live,
                    model::plan_memory({result.shape, spec.stages[rank], result.ranks[rank].order})
                        .in_flight_max_total);
  }
  return live;
}

// Bytes of activations above a stage's limit, the most of all stages; at most 0.
double over_limits(model::ProgramSpec spec, const PipelineResult& result,
                   const std::vector<model::Bytes>& limits) {
  double over = 0;
  for (std::size_t stage = 0; stage < limits.size(); ++stage) {
    for (model::ChunkCost& chunk : spec.stages[stage].chunks) {
      chunk.forward_transient = chunk.backward_transient = chunk.weight_transient = {0};
    }
    const auto peak =
        model::plan_memory({result.shape, spec.stages[stage], result.ranks[stage].order});
    over = std::max(over, (peak.total() - limits[stage]).value);
  }
  return over;
}

// The tightest bounds that let a micro-batch in, by count, by bytes and by both, with and without
// receive slots, on any plan: it ends, and holds no more.
TEST(AdaptivePipeline, NeverStopsAtItsBounds) {
  for (const std::uint64_t seed : tests::seeds(200)) {
    tests::Random random(seed);
    model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed) + " " + tests::describe(spec));
    const int bound = spec.model_chunks + static_cast<int>(random.in(0, 6));
    ASSERT_LE(live_max(spec, run(spec, {.live_activations_max = bound})), bound);
    for (const double extra : {0.0, 0.4, 1.5}) {
      std::vector<model::Bytes> limits;
      for (const model::Program& program : build_programs(spec)) {
        model::Bytes need{0};
        for (const model::ChunkMemory& memory : program.chunk_memory) {
          need += std::max(memory.activation, memory.weight_gradient_input);
        }
        limits.push_back(program.fixed_memory + (1 + extra) * need);
      }
      ASSERT_LE(over_limits(spec, run(spec, {}, {}, limits), limits), 0);
      const PipelineResult both = run(spec, {.live_activations_max = bound}, {}, limits);
      ASSERT_LE(over_limits(spec, both, limits), 0);
      ASSERT_LE(live_max(spec, both), bound);
      model::ProgramSpec overlapped = spec;
      overlapped.overlap_p2p = true;
      const auto memory = equal_memory_of(build_programs(spec), limits);
      for (const int slots : {1, 2}) {
        const ExecutorOptions executor{.issue_depth = slots, .receive_slots = slots};
        const PipelineResult result = run(overlapped, {.equal_memory = memory}, executor, limits);
        ASSERT_LE(over_limits(spec, result, limits), 0);
        const AdaptivePipelineOptions bounded{.live_activations_max = bound,
                                              .equal_memory = memory};
        const PipelineResult counted = run(overlapped, bounded, executor, limits);
        ASSERT_LE(over_limits(spec, counted, limits), 0);
        ASSERT_LE(live_max(spec, counted), bound);
      }
    }
    spec.overlap_p2p = true;
    for (const int slots : {1, 2, 3}) {
      const PipelineResult result =
          run(spec, {.live_activations_max = bound}, {.issue_depth = 3, .receive_slots = slots});
      ASSERT_LE(live_max(spec, result), bound);
      run(spec, {}, {.issue_depth = 2, .receive_slots = slots});
    }
  }
}

TEST(AdaptivePipeline, DecisionsComeOutOfTheEventsAgain) {
  for (const std::uint64_t seed : tests::seeds(60)) {
    tests::Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed));
    const AdaptivePipelineOptions options{
        .live_activations_max = spec.model_chunks + static_cast<int>(random.in(0, 9))};
    const PipelineResult result = run(spec, options);
    const auto programs = build_programs(spec);
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      AdaptivePipelinePolicy policy(options);
      const std::string untouched = policy.state_line();
      const Replay again =
          replay({.program = programs[rank], .policy = &policy}, result.logs[rank].events);
      ASSERT_EQ(again.divergence, "");
      ASSERT_EQ(again.decisions, result.logs[rank].decisions);
      EXPECT_EQ(policy.state_line(), untouched) << "something is kept for the next step";
    }
  }
}

// Four stages of four chunks, sixteen micro-batches. With all the memory it passes the whole batch
// through a chunk before the next; with that of interleaved 1F1B (19 activations) the first block
// of four has been through all chunks before the third has begun.
TEST(AdaptivePipeline, IsAsBroadAsMemoryAllows) {
  const model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::DynamicAdaptive, 4, 4, 16, 4, 4, 3});
  const auto position_of = [&](const PipelineResult& result, const char* task) {
    const Order& order = result.ranks[1].order;
    return std::find(order.begin(), order.end(),
                     result.shape.task_id(*model::task_from_text(task))) -
           order.begin();
  };
  const PipelineResult broad = run(spec, {});
  EXPECT_EQ(position_of(broad, "F15.0"), 15);
  EXPECT_EQ(position_of(broad, "F0.1"), 16);
  const PipelineResult deep = run(spec, {.live_activations_max = 19});
  EXPECT_LT(position_of(deep, "F3.3"), position_of(deep, "F8.0"));
  EXPECT_LT(position_of(deep, "F3.3"), 20);
}

// The last chunk holds twenty times as much as the others, as one that keeps its logits, and there
// is memory for all of them: in activations of its size there would be room for nine of 32.
TEST(AdaptivePipeline, CountsBytesOfEachChunk) {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::Interleaved, 4, 4, 8, 4, 4, 4});
  spec.stages[3].chunks[3].activation = {2000};
  spec.send_activation = spec.send_gradient = {1};
  spec.overlap_p2p = true;
  const std::vector<model::Bytes> limits(4, model::Bytes{8 * 2300.0});
  const PipelineResult adaptive = run(spec, {}, {}, limits);
  EXPECT_EQ(over_limits(spec, adaptive, limits), 0);
  EXPECT_EQ(adaptive.makespan, run(spec, {}).makespan);
  EXPECT_LE(adaptive.makespan, sim::simulate_pipeline(spec, Engine::Events).makespan);
}

// The last of two stages with two chunks and room for five activations: blocks of two. With four
// held there is room for F2.0 but not for F3.0, which would take the place of F2.0 that is still to
// come.
TEST(AdaptivePipeline, OvertakesOnlyWithRoomForTheOvertaken) {
  const model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::DynamicAdaptive, 2, 2, 6, 4, 4, 3});
  const model::Program program = build_program(spec, {1});
  AdaptivePipelinePolicy policy({.live_activations_max = 5});
  const std::int32_t slots[model::kNumChannels] = {};
  const std::vector<model::QuantisedDuration> durations(4, 0);
  const auto pick = [&](const std::vector<const char*>& names) -> std::string {
    std::vector<model::TaskId> ready;
    ready.reserve(names.size());
    for (const char* name : names) {
      ready.push_back(program.shape.task_id(*model::task_from_text(name)));
    }
    const auto picked = policy.pick({.program = program,
                                     .ready = ready,
                                     .memory_used = {0},
                                     .memory_limit = {std::numeric_limits<double>::infinity()},
                                     .free_slots = slots,
                                     .durations = durations});
    return picked ? to_text(program.shape.task(*picked)) : "waits";
  };
  for (const char* task : {"F0.0", "F1.0", "F0.1", "F1.1"}) {
    EXPECT_EQ(pick({task}), task);
  }
  EXPECT_EQ(pick({"F3.0"}), "waits");
  EXPECT_EQ(pick({"F2.0", "F3.0"}), "F2.0");
}

// Notes the traversals that a rank goes through.
class Watched : public AdaptivePipelinePolicy {
 public:
  using AdaptivePipelinePolicy::AdaptivePipelinePolicy;
  std::optional<model::TaskId> pick(const Observation& observation) override {
    const auto picked = AdaptivePipelinePolicy::pick(observation);
    const std::string now = state_line().substr(0, std::string("dpp adaptive d").size());
    if (seen.empty() || seen.back() != now) seen.push_back(now);
    const bool in_depth = picked && now == "dpp adaptive d";
    before_gradients &=
        !picked || observation.program.shape.task(*picked).kind == model::TaskKind::Forward;
    forwards_in_depth += in_depth && before_gradients ? 1 : 0;
    return picked;
  }
  std::vector<std::string> seen;
  int forwards_in_depth = 0;  // Before the first gradient.
  bool before_gradients = true;
};

// With 40 activations blocks are up to eleven micro-batches wide. It begins breadth first, goes
// over to depth when memory is short, and back when half of it is free again.
TEST(AdaptivePipeline, SwitchesByAccountedMemory) {
  const model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::DynamicAdaptive, 4, 4, 64, 4, 4, 3});
  const AdaptivePipelineOptions options{.live_activations_max = 40};
  const PipelineResult result = run(spec, options);
  const auto programs = build_programs(spec);
  Watched policy(options);
  replay({.program = programs[0], .policy = &policy}, result.logs[0].events);
  ASSERT_GE(policy.seen.size(), 3u);
  EXPECT_EQ(policy.seen[0], "dpp adaptive b");
  EXPECT_EQ(policy.seen[1], "dpp adaptive d");
  EXPECT_EQ(policy.seen[2], "dpp adaptive b");
  EXPECT_LE(policy.seen.size(), 5u) << "it flutters";
}

// A rank of a pipeline that is asked by hand. By default the first of four stages of two chunks,
// with eight micro-batches.
class Asked {
 public:
  Asked(int stage, const AdaptivePipelineOptions& options, int receive_slots,
        ScheduleKind shape = ScheduleKind::DynamicAdaptive)
      : program_(build_program(spec(shape), {stage})),
        policy(options),
        receive_slots_(receive_slots) {}

  std::string pick(const std::vector<std::string>& names, int free = 1) {
    std::vector<model::TaskId> ready;
    ready.reserve(names.size());
    for (const std::string& name : names) {
      ready.push_back(program_.shape.task_id(*model::task_from_text(name)));
    }
    std::sort(ready.begin(), ready.end());
    const std::int32_t slots[model::kNumChannels] = {free, free, 1, 1};
    const std::vector<model::QuantisedDuration> durations(4, 0);
    const auto picked = policy.pick({.program = program_,
                                     .ready = ready,
                                     .memory_used = {0},
                                     .memory_limit = {std::numeric_limits<double>::infinity()},
                                     .receive_slots = receive_slots_,
                                     .free_slots = slots,
                                     .durations = durations});
    return picked ? to_text(program_.shape.task(*picked)) : "waits";
  }
  std::string traversal() const { return policy.seen.empty() ? "" : policy.seen.back(); }

 private:
  static model::ProgramSpec spec(ScheduleKind shape) {
    model::ProgramSpec spec = tests::uniform_spec({shape, 4, 2, 8, 4, 4, 3});
    spec.overlap_p2p = true;
    return spec;
  }
  model::Program program_;

 public:
  Watched policy;

 private:
  int receive_slots_;
};

constexpr const char* kBreadth = "dpp adaptive b";
constexpr const char* kDepth = "dpp adaptive d";

// Two slots and memory for all. Six decisions with a message that waits make it go deep, not five;
// four without one make it broad again, not three: between two and six it stays.
TEST(AdaptivePipeline, SwitchesByCreditsWithHysteresis) {
  Asked rank(1, {}, 2);
  int next = 0;
  const auto decide = [&](int free, int times) {
    for (; times > 0; --times) {
      const std::string task = "F" + std::to_string(next % 8) + "." + std::to_string(next / 8);
      ++next;
      ASSERT_EQ(rank.pick({task}, free), task);
    }
  };
  decide(0, 1);
  EXPECT_EQ(rank.traversal(), kBreadth) << "no slot is free, but no message waits";
  decide(-1, 5);
  EXPECT_EQ(rank.traversal(), kBreadth);
  decide(-1, 1);
  EXPECT_EQ(rank.traversal(), kDepth);
  decide(0, 3);
  EXPECT_EQ(rank.traversal(), kDepth);
  decide(0, 1);
  EXPECT_EQ(rank.traversal(), kBreadth);
}

// In depth the first rank lets in no more than interleaved 1F1B would hold, eleven activations;
// others never leave a message in its slot.
TEST(AdaptivePipeline, WhatEntersWaitsWhereLinksAreFull) {
  Asked first(0, {}, 2);
  for (const char* task : {"F0.0", "F1.0", "F2.0", "F3.0", "F4.0"}) {
    ASSERT_EQ(first.pick({task}, -1), task);
  }
  EXPECT_EQ(first.pick({"F5.0"}, -1), "waits");
  EXPECT_EQ(first.traversal(), kDepth);
  EXPECT_EQ(first.pick({"F0.1", "F5.0"}, -1), "F0.1");
  EXPECT_EQ(first.pick({"F5.0"}, 0), "waits") << "before F4.1 to F7.1 it would hold fourteen";
  for (const char* task : {"F1.1", "F2.1", "F3.1"}) ASSERT_EQ(first.pick({task}, 0), task);
  EXPECT_EQ(first.pick({"F5.0"}, 0), "F5.0");
  EXPECT_EQ(first.traversal(), kBreadth);
  Asked second(1, {}, 2);
  for (int n = 0; n < 8; ++n) {
    const std::string task = "F" + std::to_string(n) + ".0";
    EXPECT_EQ(second.pick({task}, -1), task);
  }
}

// While messages wait a second gradient goes before a forward in its turn.
TEST(AdaptivePipeline, GradientsGoFirstWhileMessagesWait) {
  for (const int free : {0, -1}) {
    Asked rank(3, {}, 2);
    for (const char* task : {"F0.0", "F1.0", "F0.1", "F1.1"}) ASSERT_EQ(rank.pick({task}), task);
    ASSERT_EQ(rank.pick({"B0.1"}), "B0.1");
    EXPECT_EQ(rank.pick({"F2.0", "B1.1"}, free), free < 0 ? "B1.1" : "F2.0");
  }
}

// Two slots and short memory: blocks of four. F4.0 would overtake F0.1 to F3.1, which needs room
// for those, for F4.1 and all that comes before it: thirteen activations with F0.0 to F3.0. No
// message of its own may wait. One slot is depth first with any memory.
TEST(AdaptivePipeline, OvertakesUnderSlotsOnlyWithRoomForAllBefore) {
  const auto fifth = [](const AdaptivePipelineOptions& options, int slots, int free = 0) {
    Asked rank(0, options, slots);
    for (const char* task : {"F0.0", "F1.0", "F2.0", "F3.0"}) EXPECT_EQ(rank.pick({task}), task);
    EXPECT_EQ(rank.traversal(), kDepth);
    std::string picked = rank.pick({"F4.0"}, free);
    EXPECT_EQ(rank.pick({"F0.1", "F5.0"}), "F0.1");
    return picked;
  };
  EXPECT_EQ(fifth({.live_activations_max = 9}, 2), "waits");
  EXPECT_EQ(fifth({.live_activations_max = 12}, 2), "waits");
  EXPECT_EQ(fifth({.live_activations_max = 13}, 2), "F4.0");
  EXPECT_EQ(fifth({.live_activations_max = 13}, 2, -1), "waits");
  EXPECT_EQ(fifth({}, 1), "waits");
}

// With room for six activations blocks are of four too: F4.0 comes in turn behind F3.1, when two of
// the eight before it are finished. With room for three they are of two.
TEST(AdaptivePipeline, BlocksUnderSlotsAreThoseThatCanBeFinished) {
  Asked four(0, {.live_activations_max = 6}, 2);
  for (const char* task : {"F0.0", "F1.0", "F2.0", "F3.0", "F0.1", "F1.1"}) {
    ASSERT_EQ(four.pick({task}), task);
  }
  EXPECT_EQ(four.pick({"F2.1"}), "waits");
  for (const char* task : {"B0.1", "F2.1", "B0.0", "F3.1"}) ASSERT_EQ(four.pick({task}), task);
  EXPECT_EQ(four.pick({"F4.0"}), "waits");
  ASSERT_EQ(four.pick({"B1.1"}), "B1.1");
  EXPECT_EQ(four.pick({"F4.0"}), "F4.0");
  Asked two(0, {.live_activations_max = 3}, 2);
  for (const char* task : {"F0.0", "F1.0", "F0.1"}) ASSERT_EQ(two.pick({task}), task);
  EXPECT_EQ(two.pick({"F2.0"}), "waits");
}

// Chunk 0 holds nothing. F1.0 overtakes F0.0 all the same, and there is no room for F0.1 and F1.1.
TEST(AdaptivePipeline, WhatHoldsNothingIsOvertakenToo) {
  const auto first = [](std::int64_t room) {
    Asked rank(1, {.equal_memory = {.sizes = {0, 100}, .room = room}}, 2);
    return rank.pick({"F1.0"});
  };
  EXPECT_EQ(first(150), "waits");
  EXPECT_EQ(first(204), "F1.0");  // A byte for each of F0.0 to F3.0 that come before.
}

// In a fold with slots a micro-batch enters if all of it fits: two activations each, room for four.
TEST(AdaptivePipeline, TwoWholeMicroBatchesFillRoomForFour) {
  Asked rank(0, {.live_activations_max = 4}, 2, ScheduleKind::ZeroBubbleV);
  EXPECT_EQ(rank.pick({"F0.0"}), "F0.0");
  EXPECT_EQ(rank.pick({"F1.0"}), "F1.0");
  EXPECT_EQ(rank.pick({"F2.0"}), "waits");
}

// Ranks of unlike memory: each is held to what fits on the one that is short of that chunk.
TEST(AdaptivePipeline, EqualMemoryIsThatOfTheShortestRank) {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::DynamicAdaptive, 2, 2, 8, 4, 4, 3});
  spec.stages[1].chunks[1].activation = {300};
  const auto programs = build_programs(spec);
  const EqualMemory memory = equal_memory_of(programs, std::vector<model::Bytes>{{1000}, {1200}});
  ASSERT_EQ(memory.sizes.size(), 2u);
  EXPECT_EQ(memory.sizes[0], (memory.room + 9) / 10);  // 100 of 1,000 on the first.
  EXPECT_EQ(memory.sizes[1], memory.room / 4);         // 300 of 1,200 on the second.
  EXPECT_EQ(memory.micro_batches, 3);                  // 400 of 1,200.
}

// Slow and fast links, two slots, memory for all: the first rank, which lets micro-batches in, is
// deep with the ones and broad with the others while its first forwards run, by what it sees of
// credits.
TEST(AdaptivePipeline, IsDeepOnlyWhereLinksAreFull) {
  const auto forwards_in_depth = [](std::int64_t send) {
    model::ProgramSpec spec =
        tests::uniform_spec({ScheduleKind::DynamicAdaptive, 4, 4, 24, 4, 4, 4});
    spec.overlap_p2p = true;
    spec.send_activation = spec.send_gradient = {send};
    const ExecutorOptions executor{.receive_slots = 2};
    const PipelineResult result = run(spec, {}, executor);
    const model::Program first = build_program(spec, {0});
    Watched policy{AdaptivePipelineOptions{}};
    replay({.program = first, .policy = &policy, .options = executor}, result.logs[0].events);
    return policy.forwards_in_depth;
  };
  EXPECT_EQ(forwards_in_depth(1), 0);
  EXPECT_GT(forwards_in_depth(12), 10);
}

// Room for ten activations: with nine it goes deep, with five it is broad again, not with six.
TEST(AdaptivePipeline, HalfOfTheRoomIsFree) {
  Asked last(3, {.live_activations_max = 10}, 0);
  for (const char* task :
       {"F0.0", "F1.0", "F0.1", "F1.1", "F2.0", "F3.0", "F4.0", "F2.1", "F3.1"}) {
    ASSERT_EQ(last.pick({task}), task);
    EXPECT_EQ(last.traversal(), kBreadth);
  }
  for (const char* task : {"B0.1", "B1.1", "B0.0", "B1.0"}) {
    ASSERT_EQ(last.pick({task}), task);
    EXPECT_EQ(last.traversal(), kDepth);
  }
  ASSERT_EQ(last.pick({"F4.1"}), "F4.1");
  EXPECT_EQ(last.traversal(), kBreadth);
}

// Every row of the tables of docs/dpp.md is simulated again; what the table says is what comes out.
TEST(AdaptivePipeline, TableBesideTheBestFixedOrder) {
  const tests::OrderRace race = tests::race_orders();
  tests::expect_generated("docs/dpp.md", "race", race.markdown);
  EXPECT_EQ(race.num_cases, 120);
  for (const tests::OrderRace::Miss& miss : race.misses) {
    EXPECT_LT(miss.over_best_percent, 3.6) << miss.where;
  }
  // The page names them and says why.
  EXPECT_LE(race.misses.size(), 3u);
}

TEST(AdaptivePipeline, TableByReceiveSlots) {
  const tests::OrderRace race = tests::race_slots();
  tests::expect_generated("docs/dpp.md", "slots", race.markdown);
  EXPECT_EQ(race.num_cases, 360);
  for (const tests::OrderRace::Miss& miss : race.misses) {
    EXPECT_LT(miss.over_best_percent, 4.4) << miss.where;
  }
  // The page names them and says why.
  EXPECT_LE(race.misses.size(), 7u);
}

}  // namespace
}  // namespace megatwin::policies
