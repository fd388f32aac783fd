// Dynamic pipeline planning in the simulator: the order that a real run of it recorded, what it
// holds, and that its bounds hold without ever stopping it.
#include "policies/dynamic_pipeline.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "sim/pipeline_simulation.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/seeds.h"

namespace megatwin::policies {
namespace {

using model::ScheduleKind;
using sim::Engine;
using sim::PipelineResult;

std::string order_text(const PipelineResult& result, std::size_t rank) {
  std::string text;
  for (const model::TaskId id : result.ranks[rank].order) {
    text += (text.empty() ? "" : " ") + to_text(result.shape.task(id));
  }
  return text;
}

// Milliseconds as in the recorded run, rounded: the last chunk of the last rank has the head.
model::ProgramSpec recorded_pipeline() {
  model::ProgramSpec spec = tests::uniform_spec({ScheduleKind::Interleaved, 4, 4, 8, 4, 4, 3});
  spec.stages[3].chunks[3].forward = {22};
  spec.stages[3].chunks[3].backward = {20};
  return spec;
}

std::vector<int> live_activations(const model::ProgramSpec& spec, const PipelineResult& result) {
  std::vector<int> live;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    live.push_back(model::plan_memory({result.shape, spec.stages[rank], result.ranks[rank].order})
                       .in_flight_max_total);
  }
  return live;
}

PipelineResult run(const model::ProgramSpec& spec, const DynamicPipelineOptions& options,
                   const ExecutorOptions& executor = {}) {
  PipelineResult result = sim::simulate_pipeline(
      spec, Engine::Events, {.policy = dynamic_pipeline_factory(options), .executor = executor});
  EXPECT_TRUE(result.stalled.empty()) << result.stalled.front();
  return result;
}

// The order that MegaDPP ran on 4 ranks with 4 chunks and 8 micro-batches (RTX 4090, iteration 10).
TEST(DynamicPipeline, BreadthFirstGivesTheRecordedOrders) {
  const model::ProgramSpec spec = recorded_pipeline();
  const PipelineResult result =
      run(spec, {.traversal = Traversal::BreadthFirst}, {.issue_depth = 1});
  std::string forwards;
  std::string backwards;
  for (int chunk = 0; chunk < 4; ++chunk) {
    for (int n = 0; n < 8; ++n) {
      forwards += "F" + std::to_string(n) + "." + std::to_string(chunk) + " ";
      backwards += " B" + std::to_string(n) + "." + std::to_string(3 - chunk);
    }
  }
  const std::string all = forwards.substr(0, forwards.size() - 1) + backwards;
  EXPECT_EQ(order_text(result, 0), all);
  EXPECT_EQ(order_text(result, 1), all);
  EXPECT_EQ(order_text(result, 2), all);
  EXPECT_EQ(order_text(result, 3),
            "F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 F0.1 F1.1 F2.1 F3.1 F4.1 F5.1 F6.1 F7.1 "
            "F0.2 F1.2 F2.2 F3.2 F4.2 F5.2 F6.2 F7.2 F0.3 B0.3 F1.3 B1.3 F2.3 B2.3 F3.3 B3.3 "
            "F4.3 B4.3 F5.3 B5.3 F6.3 B6.3 F7.3 B7.3 B0.2 B1.2 B2.2 B3.2 B4.2 B5.2 B6.2 B7.2 "
            "B0.1 B1.1 B2.1 B3.1 B4.1 B5.1 B6.1 B7.1 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0");
  EXPECT_EQ(live_activations(spec, result), (std::vector<int>{32, 32, 32, 25}));
  EXPECT_EQ(live_activations(spec, simulate_pipeline(spec, Engine::Events)),
            (std::vector<int>{19, 17, 15, 13}));
}

TEST(DynamicPipeline, DepthFirstHoldsLess) {
  const model::ProgramSpec spec = recorded_pipeline();
  const std::vector<int> depth =
      live_activations(spec, run(spec, {.traversal = Traversal::DepthFirst}, {.issue_depth = 1}));
  EXPECT_LT(depth[3], 25);
  const std::vector<int> bound = live_activations(
      spec, run(spec, {.traversal = Traversal::BreadthFirst, .live_activations_max = 16}));
  for (const int live : bound) {
    EXPECT_LE(live, 16);
  }
}

// The tightest bounds that let a micro-batch in, by count and by bytes, on any plan: no stop.
TEST(DynamicPipeline, NeverStopsAtItsBounds) {
  for (const std::uint64_t seed : tests::seeds(100)) {
    tests::Random random(seed);
    const model::ProgramSpec spec = tests::random_plan(random);
    SCOPED_TRACE(tests::rerun_line("policies_property_test", seed));
    for (const auto traversal : {Traversal::BreadthFirst, Traversal::DepthFirst}) {
      const int bound = spec.model_chunks + static_cast<int>(random.in(0, 3));
      const PipelineResult by_count =
          run(spec, {.traversal = traversal, .live_activations_max = bound});
      for (const int live : live_activations(spec, by_count)) {
        ASSERT_LE(live, bound);
      }
      model::Bytes limit{0};
      for (const model::Program& program : build_programs(spec)) {
        model::Bytes need = program.fixed_memory;
        for (const model::ChunkMemory& memory : program.chunk_memory) {
          need += std::max(memory.activation, memory.weight_gradient_input);
        }
        limit = std::max(limit, need);
      }
      run(spec, {.traversal = traversal}, {.memory_limit = limit});
    }
  }
}

}  // namespace
}  // namespace megatwin::policies
