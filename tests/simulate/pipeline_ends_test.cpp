// Boundaries of a pipeline by where their two ranks sit, and the token table that its first and its
// last stage share.
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::PipelineHop;

model::Job gpt(int nodes, const std::string& plan) {
  return job_from(
      "model: {name: gpt-7.5b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: " +
      std::to_string(nodes) + "}]}\nplan: {micro_batch: 1, " + plan + "}\n");
}

// What a message takes over links that are laid out by hand: `sharing` ranks of a machine send.
model::Instant hop_by_hand(const model::Job& job, int ranks_per_node, int sharing,
                           bool over_spine) {
  const model::NodeGroup& machine = job.cluster.groups.front();
  model::GroupTopology links = model::group_topology(
      {.ranks = 2, .ranks_per_node = ranks_per_node, .groups_sharing_nics = sharing}, machine.node,
      machine.gpu, job.cluster.fabric, job.profile);
  if (over_spine) {
    links.switch_hops = 3;
    links.nic_efficiency *= 0.5;  // HDR with static routes.
  }
  const model::Bytes message = model::pipeline_message({job.transformer, job.plan, job.software});
  return model::round_to_instant(
      model::collective_time(model::CollectiveKind::SendReceive, message, links).time);
}

// Four stages of four ranks on two machines of eight: 0 and 1 share a machine, 2 and 3 the other,
// and from the last back to the first it is as far as over the middle.
TEST(PipelineHops, InsideAMachineAndAcrossTwo) {
  const model::Job job = gpt(2, "tensor: 4, pipeline: 4, global_batch: 16");
  const auto hops = model::pipeline_hops(job);
  ASSERT_EQ(hops.size(), 4u);
  const model::Instant inside = hop_by_hand(job, 2, 1, false);
  const model::Instant across = hop_by_hand(job, 1, 4, false);
  EXPECT_LT(inside, across);
  EXPECT_EQ(hops[0], (PipelineHop{inside, inside}));
  EXPECT_EQ(hops[1], (PipelineHop{across, across}));
  EXPECT_EQ(hops[2], (PipelineHop{inside, inside}));
  EXPECT_EQ(hops[3], (PipelineHop{across, across}));
}

// 32 stages of a machine each, 16 machines to a leaf: only 15 → 16 and the way back cross the
// spine.
TEST(PipelineHops, TheSpineIsCrossedOnce) {
  const model::Job job = gpt(32,
                             "tensor: 8, pipeline: 32, global_batch: 64, "
                             "layers_per_stage: [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,"
                             " 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]");
  const auto hops = model::pipeline_hops(job);
  const model::Instant near = hop_by_hand(job, 1, 8, false), far = hop_by_hand(job, 1, 8, true);
  EXPECT_LT(near, far);
  for (int boundary = 0; boundary < 32; ++boundary) {
    const bool crosses = boundary == 15 || boundary == 31;
    EXPECT_EQ(hops[static_cast<std::size_t>(boundary)].activation, crosses ? far : near)
        << boundary;
  }
}

// Of several replicas the one that is worst placed decides: replica 8 and on of stage 0 are in one
// leaf, but with 12 machines a stage some of the others are not.
TEST(PipelineHops, TheWorstReplicaDecides) {
  const model::Job job = gpt(24, "tensor: 8, pipeline: 2, data: 12, global_batch: 96");
  const auto hops = model::pipeline_hops(job);
  EXPECT_EQ(hops[0].activation, hop_by_hand(job, 1, 8, true));
  EXPECT_EQ(model::pipeline_hops(job, {0})[0].activation, hop_by_hand(job, 1, 8, false));
}

const model::MicroOp* exchange_of(const model::PricedStage& stage) {
  for (const model::MicroOp& op : stage.optimizer_ops) {
    if (op.name == "embedding.exchange") return &op;
  }
  return nullptr;
}

// Both ends hold the table of 51,200 × 4,096 and add up its fp32 gradients over 4 tensor ranks.
TEST(TiedTable, EndsExchangeItsGradients) {
  const model::Job job = gpt(2, "tensor: 4, pipeline: 4, global_batch: 16");
  ASSERT_TRUE(job.transformer.tied_embeddings);
  const model::JobProgram program = model::build_job_program(job);
  const double table = static_cast<double>(model::token_table(job.transformer, {.tensor = 4}));
  EXPECT_EQ(table, static_cast<double>(job.transformer.vocab_size) / 4 * 4096);
  const model::StageSites sites(job.plan, job.cluster);
  const model::Seconds time = model::collective_time(model::CollectiveKind::AllReduce, {4 * table},
                                                     model::hop_topology(job, sites, {0}, 3))
                                  .time;
  for (const int stage : {0, 3}) {
    const model::PricedStage& priced = program.stages[static_cast<std::size_t>(stage)];
    const model::MicroOp* op = exchange_of(priced);
    ASSERT_NE(op, nullptr) << stage;
    EXPECT_EQ(op->bytes.value, 4 * table);
    EXPECT_EQ(priced.table_exchange.value, time.value);
    EXPECT_GE(program.spec.stages[static_cast<std::size_t>(stage)].optimizer,
              model::round_to_instant(priced.optimizer + time));
  }
  EXPECT_EQ(exchange_of(program.stages[1]), nullptr);
  EXPECT_EQ(exchange_of(program.stages[2]), nullptr);
}

TEST(TiedTable, IsExplainedWithItsTime) {
  const model::Job job = gpt(2, "tensor: 4, pipeline: 4, global_batch: 16");
  const sim::SimulationReport report = report_of(job, {.explain = true, .sensitivities = false});
  int found = 0;
  for (const sim::PricedOp& op : report.priced_ops) {
    if (op.op.name != "embedding.exchange") continue;
    ++found;
    EXPECT_EQ(op.task, "optimizer");
    EXPECT_GT(op.time.value, 0);
  }
  EXPECT_EQ(found, 2);
}

// The V of ZB-V has both ends on one rank: nothing to exchange, and the table is there once.
// Without tensor parallelism the stages then sum to the model.
TEST(TiedTable, IsCountedOnceWhereBothEndsAreOnOneRank) {
  const model::Job folded = job_from(
      "model: {name: gpt-7.5b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 1}]}\n"
      "plan: {tensor: 1, pipeline: 2, model_chunks: 2, data: auto, micro_batch: 1,\n"
      "       global_batch: 32, layers_per_stage: [9, 9, 9, 9]}\n"
      "policy: {schedule: zb-v}\n");
  std::int64_t total = 0;
  for (const model::PricedStage& stage : model::build_job_program(folded).stages) {
    EXPECT_EQ(exchange_of(stage), nullptr);
    total += stage.parameters.total();
  }
  EXPECT_EQ(total, model::count_parameters(folded.transformer).total);
}

TEST(TiedTable, IsThereTwiceWithoutTheFold) {
  const model::Job job = gpt(1, "tensor: 1, pipeline: 2, data: auto, global_batch: 32");
  const model::JobProgram program = model::build_job_program(job);
  std::int64_t total = 0;
  for (const auto& stage : program.stages) total += stage.parameters.total();
  EXPECT_EQ(total, model::count_parameters(job.transformer).total +
                       model::token_table(job.transformer, {}));
}

TEST(TiedTable, AnUntiedModelExchangesNothing) {
  const model::Job job = job_from(
      "model: {name: llama-2-13b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 1}]}\n"
      "plan: {tensor: 4, pipeline: 2, micro_batch: 1, global_batch: 32}\n");
  for (const auto& stage : model::build_job_program(job).stages) {
    EXPECT_EQ(exchange_of(stage), nullptr);
  }
}

}  // namespace
}  // namespace megatwin::tests
