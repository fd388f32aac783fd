// The adaptive policy: that its bounds hold and never stop it, that its decisions come out of the
// events again, and what it switches by. How it stands beside the best fixed order:
// order_race_test.
#include "policies/adaptive_pipeline.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "policies/replay.h"
#include "sim/pipeline_simulation.h"
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
  std::vector<std::uint64_t> seeds = tests::seeds(200);
  // Two activations of the larger chunk instead of a micro-batch: more than its memory.
  if (seeds.size() > 1) seeds.insert(seeds.end(), {2580, 3161, 3991});
  for (const std::uint64_t seed : seeds) {
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
      for (const int slots : {0, 1, 2}) {
        const ExecutorOptions executor{.issue_depth = std::max(slots, 1), .receive_slots = slots};
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

// Room for `share` of the batch on each rank, at least for one micro-batch. So that it binds, what
// chunks hold differs by up to fifteen times.
std::vector<model::Bytes> room_for(double share, model::ProgramSpec& spec, tests::Random& random) {
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      chunk.activation = model::Bytes{static_cast<double>(random.in(20, 300))};
      chunk.weight_gradient_input = 0.5 * chunk.activation;
    }
  }
  std::vector<model::Bytes> limits;
  for (const model::Program& program : build_programs(spec)) {
    model::Bytes one{0};
    for (const model::ChunkMemory& memory : program.chunk_memory) one += memory.activation;
    limits.push_back(program.fixed_memory + std::max(1.0, share * spec.micro_batches) * one);
  }
  return limits;
}

// The largest number of activations that the bytes of any rank hold: the smallest chunks first.
// By trying: as many as fit, one by one.
int most_in_bytes(const model::ProgramSpec& spec, const std::vector<model::Bytes>& limits) {
  int most = 0;
  for (const model::Program& program : build_programs(spec)) {
    std::vector<double> sizes;
    for (const model::ChunkMemory& memory : program.chunk_memory) {
      sizes.insert(sizes.end(), static_cast<std::size_t>(spec.micro_batches),
                   memory.activation.value);
    }
    std::sort(sizes.begin(), sizes.end());
    const auto rank = static_cast<std::size_t>(program.stage.value);
    double left = (limits[rank] - program.fixed_memory).value;
    int fit = 0;
    for (const double size : sizes) {
      if (size > left) break;
      left -= size;
      ++fit;
    }
    most = std::max(most, fit);
  }
  return most;
}

// A number of activations that the batch, or the bytes of any rank, do not reach changes nothing,
// told what all can count on or not.
TEST(AdaptivePipeline, ABoundThatDoesNotBindIsNone) {
  int binding = 0;
  for (const std::uint64_t seed : tests::seeds(60)) {
    tests::Random random(seed);
    model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed) + " " + tests::describe(spec));
    spec.overlap_p2p = true;
    const int batch = spec.micro_batches * spec.model_chunks;
    for (const double share : {0.0, 0.3, 0.6, 1.0, 100.0}) {
      const std::vector<model::Bytes> limits = room_for(share, spec, random);
      const EqualMemory memory = equal_memory_of(build_programs(spec), limits);
      const int most = std::max(most_in_bytes(spec, limits), spec.model_chunks);
      binding += most < batch ? 1 : 0;
      for (const int slots : {0, 1, 2}) {
        const ExecutorOptions executor{.receive_slots = slots};
        const auto orders = [&](int bound) {
          std::vector<Order> each;
          const PipelineResult result =
              run(spec, {.live_activations_max = bound, .equal_memory = memory}, executor, limits);
          for (const sim::RankResult& rank : result.ranks) each.push_back(rank.order);
          return each;
        };
        const std::vector<Order> free = orders(0);
        for (const int bound : {most, most + 1, batch, batch + 1, 2'000'000'000}) {
          ASSERT_EQ(orders(bound), free) << share << " slots " << slots << " bound " << bound;
        }
      }
    }
  }
  EXPECT_GT(binding, 50);
}

// Where the bytes hold so many whichever they are, ranks decide as in a world without these bytes.
TEST(AdaptivePipeline, ANumberThatMemoryHasRoomForBoundsAlone) {
  int binding = 0;
  for (const std::uint64_t seed : tests::seeds(60)) {
    tests::Random random(seed);
    model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed) + " " + tests::describe(spec));
    spec.overlap_p2p = true;
    for (const double share : {0.4, 1.0}) {
      const std::vector<model::Bytes> limits = room_for(share, spec, random);
      const EqualMemory memory = equal_memory_of(build_programs(spec), limits);
      const auto most = static_cast<int>(memory.activations_fit);
      if (most < spec.model_chunks) continue;
      for (const int slots : {0, 1, 2}) {
        const ExecutorOptions executor{.receive_slots = slots};
        const AdaptivePipelineOptions bounded{.live_activations_max = most, .equal_memory = memory};
        const PipelineResult here = run(spec, bounded, executor, limits);
        const PipelineResult there = run(spec, {.live_activations_max = most}, executor);
        for (std::size_t rank = 0; rank < here.ranks.size(); ++rank) {
          ASSERT_EQ(here.ranks[rank].order, there.ranks[rank].order) << share << " slots " << slots;
        }
        binding += here.makespan != run(spec, {}, executor).makespan ? 1 : 0;
      }
    }
  }
  EXPECT_GT(binding, 20);
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

// Four stages of four chunks, sixteen micro-batches. With all the memory it passes blocks of eight
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
  EXPECT_EQ(position_of(broad, "F7.0"), 7);
  EXPECT_EQ(position_of(broad, "F0.1"), 8);
  EXPECT_EQ(position_of(broad, "F0.2"), 16);
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

// With 34 activations blocks are eight micro-batches wide. It begins breadth first, goes over to
// depth when memory is short, and back when half of it is free again.
TEST(AdaptivePipeline, SwitchesByAccountedMemory) {
  const model::ProgramSpec spec =
      tests::uniform_spec({ScheduleKind::DynamicAdaptive, 4, 4, 64, 4, 4, 3});
  const AdaptivePipelineOptions options{.live_activations_max = 34};
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

// Four stages of two chunks, eight micro-batches.
model::ProgramSpec four_by_two(ScheduleKind shape = ScheduleKind::DynamicAdaptive) {
  model::ProgramSpec spec = tests::uniform_spec({shape, 4, 2, 8, 4, 4, 3});
  spec.overlap_p2p = true;
  return spec;
}

// A rank of a pipeline that is asked by hand.
class Asked {
 public:
  Asked(int stage, const AdaptivePipelineOptions& options, int receive_slots,
        const model::ProgramSpec& spec = four_by_two(),
        model::Bytes limit = {std::numeric_limits<double>::infinity()})
      : program_(build_program(spec, {stage})),
        policy(options),
        receive_slots_(receive_slots),
        limit_(limit) {}

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
                                     .memory_limit = limit_,
                                     .receive_slots = receive_slots_,
                                     .free_slots = slots,
                                     .durations = durations});
    return picked ? to_text(program_.shape.task(*picked)) : "waits";
  }
  std::string traversal() const { return policy.seen.empty() ? "" : policy.seen.back(); }

 private:
  model::Program program_;

 public:
  Watched policy;

 private:
  int receive_slots_;
  model::Bytes limit_;
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

// In depth the first rank lets in no more than interleaved 1F1B would hold, eleven activations, of
// those in the blocks' order first; others never leave a message in its slot.
TEST(AdaptivePipeline, WhatEntersWaitsWhereLinksAreFull) {
  model::ProgramSpec spec = four_by_two();
  spec.micro_batches = 16;
  Asked first(0, {}, 2, spec);
  for (int n = 0; n < 11; ++n) {
    const std::string task = "F" + std::to_string(n) + ".0";
    ASSERT_EQ(first.pick({task}, -1), task);
  }
  EXPECT_EQ(first.traversal(), kDepth);
  EXPECT_EQ(first.pick({"F11.0"}, -1), "waits");
  EXPECT_EQ(first.pick({"F0.1", "F11.0"}, -1), "F0.1");
  ASSERT_EQ(first.pick({"B0.1"}, -1), "B0.1");
  EXPECT_EQ(first.pick({"F11.0"}, -1), "waits");
  ASSERT_EQ(first.pick({"B0.0"}, -1), "B0.0");
  EXPECT_EQ(first.pick({"F11.0"}, -1), "F11.0");
  EXPECT_EQ(first.pick({"F12.0"}, -1), "waits");
  for (const char* task : {"F1.1", "F2.1", "F3.1", "F4.1", "F5.1", "F6.1"}) {
    ASSERT_EQ(first.pick({task}), task);
  }
  EXPECT_EQ(first.traversal(), kBreadth);
  EXPECT_EQ(first.pick({"F12.0"}), "F12.0");
  Asked second(1, {}, 2, spec);
  for (int n = 0; n < 16; ++n) {
    const std::string task = "F" + std::to_string(n) + ".0";
    EXPECT_EQ(second.pick({task}, -1), task);
  }
}

// A block of eight, in breadth. The last rank begins with its forwards of chunk 0 and one more,
// then has a gradient and a forward in turn; the third with two more than that. What is not in its
// turn goes too when nothing else is there.
TEST(AdaptivePipeline, TakesTurnsAsInterleaved) {
  for (const int stage : {3, 2}) {
    Asked rank(stage, {}, 0);
    for (int n = 0; n < 8; ++n) {
      const std::string task = "F" + std::to_string(n) + ".0";
      ASSERT_EQ(rank.pick({task}), task);
    }
    const auto of_chunk_1 = [&](int n) {
      return "F" + std::to_string(stage == 3 ? n : n + 2) + ".1";
    };
    if (stage == 2) {
      for (const char* task : {"F0.1", "F1.1"}) ASSERT_EQ(rank.pick({task, "B0.1"}), task);
    }
    EXPECT_EQ(rank.pick({of_chunk_1(0), "B0.1"}), of_chunk_1(0));
    EXPECT_EQ(rank.pick({of_chunk_1(1), "B0.1"}), "B0.1");
    EXPECT_EQ(rank.pick({of_chunk_1(1), "B1.1"}), of_chunk_1(1));
    EXPECT_EQ(rank.pick({of_chunk_1(2)}), of_chunk_1(2));
    EXPECT_EQ(rank.pick({of_chunk_1(3), "B1.1"}), "B1.1");
    EXPECT_EQ(rank.pick({of_chunk_1(3), "B2.1"}), "B2.1") << "one behind its turn";
    EXPECT_EQ(rank.pick({of_chunk_1(3), "B3.1"}), of_chunk_1(3));
  }
}

// One chunk a rank, four stages, room for four: the second rank has three forwards ahead of
// gradients and waits then. With room for six it has five; with room for all no bound.
TEST(AdaptivePipeline, RunsNoFurtherAheadThanTheFirstRankLetsIn) {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::DynamicAdaptive, 4, 1, 8, 4, 4, 3});
  const auto ahead = [&](int room) {
    Asked rank(1, {.live_activations_max = room}, 0, spec);
    int n = 0;
    while (n < 8 && rank.pick({"F" + std::to_string(n) + ".0"}) != "waits") ++n;
    return n;
  };
  EXPECT_EQ(ahead(4), 3);
  EXPECT_EQ(ahead(6), 5);
  EXPECT_EQ(ahead(0), 8);
}

// One slot, room for thirteen activations. The first rank has ten forwards ahead of gradients in
// interleaved 1F1B: while links are full F7.0, twelfth in the order of blocks of four, waits for
// the first gradient. When they are not it runs as soon as there is room. Nine micro-batches have
// no such order.
TEST(AdaptivePipeline, EntersInItsTurnWhereASlotIsFull) {
  const auto twelfth = [](int micro_batches, int free) {
    model::ProgramSpec spec = four_by_two();
    spec.micro_batches = micro_batches;
    Asked rank(0, {.live_activations_max = 13}, 1, spec);
    std::vector<std::string> tasks = {"F0.0", "F1.0", "F2.0", "F3.0", "F0.1", "F1.1",
                                      "F2.1", "F3.1", "F4.0", "F5.0", "F6.0"};
    std::string last = "F7.0";
    if (micro_batches == 9) {  // Three blocks of three.
      tasks = {"F0.0", "F1.0", "F2.0", "F0.1", "F1.1", "F2.1",
               "F3.0", "F4.0", "F5.0", "F3.1", "F4.1", "F5.1"};
      last = "F6.0";
    }
    for (const std::string& task : tasks) EXPECT_EQ(rank.pick({task}, free), task);
    std::string picked = rank.pick({last}, free);
    EXPECT_EQ(rank.pick({"B0.1"}, free), "B0.1");
    if (picked == "waits") {
      EXPECT_EQ(rank.pick({last}, free), last);
    }
    return picked;
  };
  EXPECT_EQ(twelfth(8, -1), "waits");
  EXPECT_EQ(twelfth(8, 0), "F7.0");
  EXPECT_EQ(twelfth(9, -1), "F6.0");
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

// Under slots and short memory, room for thirteen activations, forwards go in one order on all
// ranks, of blocks of four: F4.0 never before F3.1, whatever room there is.
TEST(AdaptivePipeline, OvertakesNothingUnderSlotsWhenMemoryIsShort) {
  Asked rank(0, {.live_activations_max = 13}, 2);
  for (const char* task : {"F0.0", "F1.0", "F2.0", "F3.0"}) EXPECT_EQ(rank.pick({task}), task);
  EXPECT_EQ(rank.traversal(), kDepth);
  EXPECT_EQ(rank.pick({"F4.0"}), "waits");
  EXPECT_EQ(rank.pick({"F1.1"}), "waits");
  for (const char* task : {"F0.1", "F1.1", "F2.1", "F3.1"}) EXPECT_EQ(rank.pick({task}), task);
  EXPECT_EQ(rank.pick({"F4.0"}), "F4.0");
}

// One slot and memory for all, of which it takes the eleven activations of interleaved 1F1B. F4.0
// would overtake F0.1 to F3.1, which needs room for those, for F4.1 and all that comes before it:
// thirteen with F0.0 to F3.0. When two gradients are done there is room, but not while messages
// wait. Nine micro-batches have no order in interleaved 1F1B, and nothing less than all is taken.
TEST(AdaptivePipeline, OvertakesWithOneSlotOnlyWithRoomForAllBefore) {
  const auto begun = [](int micro_batches) {
    model::ProgramSpec spec = four_by_two();
    spec.micro_batches = micro_batches;
    Asked rank(0, {}, 1, spec);
    const int over = micro_batches % 4;
    for (int n = 0; n < 4 + over; ++n) {
      const std::string task = "F" + std::to_string(n) + ".0";
      EXPECT_EQ(rank.pick({task}), task);
    }
    return rank;
  };
  EXPECT_EQ(begun(9).pick({"F5.0"}), "F5.0");
  Asked rank = begun(8);
  EXPECT_EQ(rank.pick({"F4.0"}), "waits");
  for (const char* task : {"F0.1", "B0.1"}) ASSERT_EQ(rank.pick({task}), task);
  EXPECT_EQ(rank.pick({"F4.0"}), "waits");
  ASSERT_EQ(rank.pick({"B0.0"}), "B0.0");
  EXPECT_EQ(rank.pick({"F4.0"}, -1), "waits");
  EXPECT_EQ(rank.pick({"F4.0"}, 0), "F4.0");
}

// Two slots and room for six activations: blocks of three keep as many under way, so that the eight
// go in two, three and three. F4.0 comes in turn behind F3.0, when there is room. With room for
// three, micro-batches go one by one.
TEST(AdaptivePipeline, BlocksUnderSlotsAreThoseThatMemoryKeepsUnderWay) {
  Asked three(0, {.live_activations_max = 6}, 2);
  for (const char* task : {"F0.0", "F1.0", "F0.1", "F1.1", "F2.0", "F3.0"}) {
    ASSERT_EQ(three.pick({task}), task);
  }
  EXPECT_EQ(three.pick({"F4.0"}), "waits");
  ASSERT_EQ(three.pick({"B0.1"}), "B0.1");
  EXPECT_EQ(three.pick({"F2.1"}), "waits") << "F4.0 comes first";
  EXPECT_EQ(three.pick({"F4.0"}), "F4.0");
  Asked one(0, {.live_activations_max = 3}, 2);
  EXPECT_EQ(one.pick({"F1.0"}), "waits");
  for (const char* task : {"F0.0", "F0.1", "F1.0"}) ASSERT_EQ(one.pick({task}), task);
  EXPECT_EQ(one.pick({"F1.1"}), "waits");
}

// Chunk 0 holds nothing, and there is room for one and a half micro-batches. F1.0 overtakes F0.1
// all the same; it may not.
TEST(AdaptivePipeline, WhatHoldsNothingIsOvertakenToo) {
  model::ProgramSpec spec = four_by_two();
  for (model::StageCost& stage : spec.stages) {
    stage.chunks[0].activation = stage.chunks[0].weight_gradient_input = {0};
  }
  Asked rank(1, {}, 2, spec, {150});
  EXPECT_EQ(rank.pick({"F1.0"}), "waits");
  EXPECT_EQ(rank.pick({"F0.0"}), "F0.0");
  EXPECT_EQ(rank.pick({"F1.0"}), "waits");
  EXPECT_EQ(rank.pick({"F0.1"}), "F0.1");
  EXPECT_EQ(rank.pick({"F1.0"}), "F1.0");
}

// Room that bytes fill to the last fraction: 2 × 100.4 of 200.8, in whole bytes 202 of 200. The
// oldest micro-batch goes on all the same.
TEST(AdaptivePipeline, FractionsOfBytesStopNothing) {
  model::ProgramSpec spec = four_by_two();
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) chunk.activation = {100.4};
  }
  for (const int slots : {0, 1, 2}) {
    Asked rank(0, {}, slots, spec, {200.8});
    EXPECT_EQ(rank.pick({"F0.0"}), "F0.0");
    EXPECT_EQ(rank.pick({"F0.1"}), "F0.1") << slots;
  }
}

// The last chunk holds ten times the first. F1.0 is in turn in a block of two, but when it has run
// there must be room for F0.1 still, or nothing could end: twelve, not the eleven of a rank that
// was told blocks for which it has no memory.
TEST(AdaptivePipeline, BeginsNothingThatKeepsTheOldestFromEnding) {
  model::ProgramSpec spec = four_by_two();
  spec.stages[3].chunks[0].activation = spec.stages[3].chunks[0].weight_gradient_input = {1};
  spec.stages[3].chunks[1].activation = spec.stages[3].chunks[1].weight_gradient_input = {10};
  const AdaptivePipelineOptions options{.equal_memory = {.micro_batches = 1, .block_width = 2}};
  for (const double room : {11.0, 12.0}) {
    Asked rank(3, options, 0, spec, {room});
    ASSERT_EQ(rank.pick({"F0.0"}), "F0.0");
    EXPECT_EQ(rank.pick({"F1.0"}), room < 12 ? "waits" : "F1.0");
  }
}

// In a fold with slots a micro-batch enters if all of it fits: two activations each, room for four.
TEST(AdaptivePipeline, TwoWholeMicroBatchesFillRoomForFour) {
  Asked rank(0, {.live_activations_max = 4}, 2, four_by_two(ScheduleKind::ZeroBubbleV));
  EXPECT_EQ(rank.pick({"F0.0"}), "F0.0");
  EXPECT_EQ(rank.pick({"F1.0"}), "F1.0");
  EXPECT_EQ(rank.pick({"F2.0"}), "waits");
}

// Ranks of unlike memory: what all can count on is what fits on the one that is short. Blocks of
// two hold four activations on the first rank, and on the second three, of which one is of 300:
// 500.
TEST(AdaptivePipeline, EqualMemoryIsThatOfTheShortestRank) {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::DynamicAdaptive, 2, 2, 8, 4, 4, 3});
  spec.stages[1].chunks[1].activation = {300};
  const auto programs = build_programs(spec);
  const auto memory = [&](double first, double second) {
    return equal_memory_of(programs, std::vector<model::Bytes>{{first}, {second}});
  };
  EXPECT_EQ(memory(1000, 1200).micro_batches, 3);  // 400 of 1,200.
  EXPECT_EQ(memory(1000, 2400).micro_batches, 5);  // 200 of 1,000.
  EXPECT_EQ(memory(400, 500).block_width, 2);
  EXPECT_EQ(memory(399, 500).block_width, 1);
  EXPECT_EQ(memory(400, 499).block_width, 1);
}

// A last rank that has room for three activations, in a pipeline where others have more: told so,
// the first rank takes blocks of three under slots too.
TEST(AdaptivePipeline, FollowsWhatAllCanCountOn) {
  const AdaptivePipelineOptions options{.equal_memory = {.micro_batches = 3, .block_width = 3}};
  Asked rank(0, options, 2, four_by_two(), {1500});
  for (const char* task : {"F0.0", "F1.0"}) ASSERT_EQ(rank.pick({task}), task);
  EXPECT_EQ(rank.pick({"F2.0"}), "waits");
  EXPECT_EQ(rank.pick({"F0.1"}), "F0.1");
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

}  // namespace
}  // namespace megatwin::policies
