// The twelve figures of Korthikanti et al., arXiv:2205.05198, figure 1 (as profiled values): model
// states and activations of 22B, 175B, 530B and 1T, the latter without anything and with sequence
// parallelism and selective recomputation. They come out of the memory planner over a program of
// layers, not out of the paper's formulas.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "model/program/data_parallel.h"
#include "model/program/lowering.h"
#include "model/program/memory_planner.h"
#include "policies/schedule.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Figure {
  const char* model;
  int layers, pipeline, chunks;
  int micro_batch;
  double states_gib, activations_gib, activations_sp_selective_gib;
};

model::Job job_of(const Figure& figure, bool sequence_parallel_and_selective) {
  const std::string yaml =
      "model: {name: " + std::string(figure.model) +
      ", sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: " +
      std::to_string(figure.pipeline) +
      "}]}\n"
      "software: {framework: megatron-2022}\n"
      "plan: {tensor: 8, data: 1, precision: fp16, zero: 0, pipeline: " +
      std::to_string(figure.pipeline) + ", model_chunks: " + std::to_string(figure.chunks) +
      ", micro_batch: " + std::to_string(figure.micro_batch) +
      ", global_batch: " + std::to_string(figure.micro_batch * figure.pipeline * 2) +
      ", sequence_parallel: " + (sequence_parallel_and_selective ? "true" : "false") +
      ", recompute: " + (sequence_parallel_and_selective ? "selective" : "none") + "}\n";
  return job_from(yaml);
}

// Peak bytes of activations on stage 0, of layers alone.
double planned_activations(const Figure& figure, const model::Job& job) {
  const model::LoweringInput input{job.transformer, job.plan, job.software};
  const model::ChunkContent layers{.dense_layers =
                                       figure.layers / (figure.pipeline * figure.chunks)};
  model::ProgramSpec spec;
  spec.pipeline = figure.pipeline;
  spec.model_chunks = figure.chunks;
  spec.micro_batches = 2 * figure.pipeline;
  spec.schedule = job.plan.schedule;
  model::ChunkCost chunk{.forward = {1}, .backward = {2}};
  chunk.activation = model::saved_activations(input, layers).chunk;
  const model::StageCost stage{.chunks = std::vector<model::ChunkCost>(figure.chunks, chunk)};
  spec.stages.assign(figure.pipeline, stage);
  const model::PipelineShape shape = model::pipeline_shape(spec);
  const auto orders = policies::schedule_orders(spec);
  return model::plan_memory({shape, spec.stages.front(), orders.front()}).buffers.value;
}

double planned_states(const Figure& figure, const model::Job& job) {
  const model::DataParallelTraffic traffic(job, {});
  const std::vector<model::ChunkContent> contents(
      figure.chunks, {.dense_layers = figure.layers / (figure.pipeline * figure.chunks)});
  model::StageCost cost;
  traffic.fill_memory(traffic.stage_parameters(contents), contents, cost);
  return (cost.parameters + cost.gradients + cost.optimizer_state).value;
}

class KorthikantiMemory : public testing::TestWithParam<Figure> {};

TEST_P(KorthikantiMemory, ComesFromThePlannerWithinOnePercent) {
  const Figure& figure = GetParam();
  const model::Job plain = job_of(figure, false), reduced = job_of(figure, true);
  EXPECT_NEAR(planned_states(figure, plain) / kGiB / figure.states_gib, 1, 0.01);
  EXPECT_NEAR(planned_activations(figure, plain) / kGiB / figure.activations_gib, 1, 1e-9);
  EXPECT_NEAR(planned_activations(figure, reduced) / kGiB / figure.activations_sp_selective_gib, 1,
              1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Figure1, KorthikantiMemory,
    testing::Values(Figure{"megatron-22b", 48, 1, 1, 4, 45.5625, 59.25, 9.5625},
                    Figure{"gpt3-175b", 96, 8, 3, 1, 45.5625, 66.84375, 12.3515625},
                    Figure{"turing-530b", 105, 35, 3, 1, 31.640625, 114.0234375, 23.076171875},
                    Figure{"megatron-1t", 128, 64, 1, 1, 32.958984375, 131.25, 26.5625}),
    [](const testing::TestParamInfo<Figure>& figure) {
      std::string name = figure.param.model;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace megatwin::tests
