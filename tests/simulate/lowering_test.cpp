#include "model/program/lowering.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "model/attention_cost.h"
#include "model/compute_cost.h"
#include "model/flops.h"
#include "model/program/task_price.h"
#include "scenarios/gpu_profile_reader.h"
#include "scenarios/zoo.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

constexpr const char* kLlama =
    "model: {name: llama-3-8b, sequence_length: 4096}\n"
    "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
    "plan: {tensor: 2, data: 4, micro_batch: 1, global_batch: 8, precision: bf16}\n";

model::TaskOps lowered(const model::Job& job, const model::ChunkContent& content) {
  return model::lower_chunk({job.transformer, job.plan, job.software}, content);
}

model::Flop flop_of(const model::MicroOps& ops, bool recompute) {
  model::Flop sum;
  for (const model::MicroOp& op : ops) {
    if (op.recompute == recompute) sum += static_cast<double>(op.count) * op.flop;
  }
  return sum;
}

// Llama-3-8B, one layer on one of two tensor ranks, 4,096 tokens: QKV (4096 + 2·1024)/2 columns,
// projection 4096/2 rows, gate and up 2·14336/2, down 14336/2, each 2·T·in·out FLOP:
// 2·4096·4096·(3072 + 2048 + 14336 + 7168) = 893.35 GFLOP; causal attention over half the square:
// 2·16 heads·4096·2048·(128 + 128) = 68.72 GFLOP.
TEST(Lowering, CountsTheFlopOfALayerByHand) {
  const model::Job job = job_from(kLlama);
  const model::TaskOps ops = lowered(job, {.dense_layers = 1});
  EXPECT_DOUBLE_EQ(flop_of(ops.forward, false).value,
                   2.0 * 4096 * 4096 * (3072 + 2048 + 14336 + 7168) + 2.0 * 16 * 4096 * 2048 * 256);
}

// The whole model on one rank: the FLOP of the products and the attention that are priced are those
// that the utilisation figures count, for every model of the zoo. The conventions leave out the
// router; rows are rounded down to whole ones an expert.
TEST(Lowering, PricesTheFlopThatAreCounted) {
  for (const std::string& name : scenarios::zoo_names()) {
    const model::Job job = job_from("model: {name: " + name +
                                    ", sequence_length: 4096}\n"
                                    "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
                                    "plan: {data: 8, micro_batch: 1, global_batch: 8}\n");
    const model::Transformer& transformer = job.transformer;
    model::ChunkContent content{.mtp_layers = static_cast<int>(transformer.num_mtp_layers),
                                .embedding = true,
                                .head = true};
    for (std::int64_t layer = 0; layer < transformer.num_layers; ++layer) {
      ++(transformer.is_moe_layer(layer) ? content.moe_layers : content.dense_layers);
    }
    model::Flop priced;
    for (const model::MicroOp& op : lowered(job, content).forward) {
      if (op.name != "router") priced += static_cast<double>(op.count) * op.flop;
    }
    const model::ForwardFlop counted =
        model::forward_flop_per_token(transformer, model::FlopConvention::ModelCausalAttention);
    const model::Flop sum = counted.layer_matrices + counted.attention_core + counted.head;
    EXPECT_NEAR(priced.value / (4096 * sum.value), 1, 0.005) << name;
  }
}

// 8,192 tokens, a window of 4,096 on every other layer: 8192/2 keys on the full ones, 4096 −
// 4096²/(2 · 8192) = 3072 on the others, 3584 on average. A window one token short of the sequence
// changes next to nothing.
TEST(Lowering, WindowsSeeTheirMeanKeys) {
  model::Job job = job_from(kLlama);
  job.transformer.sequence_length = 8192;
  const auto keys = [&](std::int64_t window, int period) {
    job.transformer.sliding_window = window;
    job.transformer.sliding_window_period = period;
    for (const model::MicroOp& op : lowered(job, {.dense_layers = 1}).forward) {
      if (op.kind != model::MicroOpKind::Attention) continue;
      EXPECT_NEAR(op.flop.value / model::attention_flop(op.attention).value, 1, 2e-3);
      return op.flop.value / (2.0 * 16 * 8192 * 256);
    }
    return 0.0;
  };
  EXPECT_NEAR(keys(0, 1), 4096, 1);
  EXPECT_NEAR(keys(8191, 1), 4096, 1);
  EXPECT_NEAR(keys(4096, 1), 3072, 1);
  EXPECT_NEAR(keys(4096, 2), 3584, 1);
  EXPECT_NEAR(keys(128, 2), (127 + 4096) / 2.0, 1);
}

// Two sequences on two context ranks are as many tokens and FLOP a rank as one sequence on one. By
// hand, forward, 32 heads of 128: the causal block of a rank's own 2,048 tokens, 2,048 by 1,024
// without a mask, and a merge: fp32 output in and out, the 16-bit one of the step in, statistics
// of both in and one out.
TEST(Lowering, RingStepsAreHalfBlocksAndAreMerged) {
  model::Job job = job_from(kLlama);
  job.plan.tensor = 1;
  job.plan.sequence_parallel = false;
  job.plan.context = 2;
  job.plan.micro_batch = 2;
  const model::TaskOps ops = lowered(job, {.dense_layers = 3});
  std::map<std::string, model::MicroOp> by_name;
  for (const model::MicroOp& op : ops.forward) by_name[std::string(op.name)] = op;
  const model::AttentionShape& own = by_name.at("attention").attention;
  EXPECT_TRUE(own.causal);
  EXPECT_EQ(own.query_length, 2048);
  EXPECT_EQ(own.key_length, 2048);
  const model::AttentionShape& step = by_name.at("attention.step").attention;
  EXPECT_FALSE(step.causal);
  EXPECT_EQ(step.query_length, 2048);
  EXPECT_EQ(step.key_length, 1024);
  const double rows = 2.0 * 32 * 2048;
  EXPECT_DOUBLE_EQ(by_name.at("attention.merge").read.value, rows * (128 * (4 + 2) + 2 * 4));
  EXPECT_DOUBLE_EQ(by_name.at("attention.merge").written.value, rows * (128 * 4 + 4));
  EXPECT_EQ(by_name.at("attention.step").count, 3);

  job.plan.context = 8;
  job.plan.recompute = model::RecomputeKind::Full;
  job.plan.recompute_layers = 2;
  for (const model::MicroOp& op : lowered(job, {.dense_layers = 3}).backward) {
    if (op.name == "attention.step") {
      EXPECT_EQ(op.count, 2 * 7);
    }
    if (op.name == "attention") {
      EXPECT_EQ(op.count, 2);
    }
    if (op.name == "attention.ring.backward") {
      EXPECT_EQ(op.count, 3 * 7);
    }
  }
}

// Of the core attention, per token: context parallelism does the same FLOP in smaller pieces, so it
// is never the cheaper one.
TEST(Lowering, ContextIsNeverCheaperAtTheSameFlop) {
  const char* gpus[] = {"dgx-h100", "dgx-a100-80g"};
  for (const std::string gpu : gpus) {
    for (const std::int64_t sequence : {2048, 4096, 8192, 32768, 131072}) {
      model::Job job =
          job_from("model: {name: llama-3-8b, sequence_length: " + std::to_string(sequence) +
                   "}\ncluster: {nodes: [{type: " + gpu +
                   ", count: 1}]}\nplan: {data: 8, micro_batch: 1, global_batch: 8}\n");
      job.profile = scenarios::gpu_profile(job.cluster.groups.front().gpu).value();
      const auto core = [&](bool backward) {
        const model::TaskOps ops = lowered(job, {.dense_layers = 1});
        std::pair<double, double> sum;  // FLOP and seconds.
        for (const model::MicroOp& op : backward ? ops.backward : ops.forward) {
          if (op.kind == model::MicroOpKind::Collective || !op.name.starts_with("attention"))
            continue;
          sum.first += op.count * op.flop.value;
          sum.second +=
              op.count * model::compute_time(op, job.cluster.groups.front().gpu, job.profile).value;
        }
        return sum;
      };
      for (const bool backward : {false, true}) {
        job.plan.context = 1;
        job.plan.micro_batch = 1;
        const auto [flop, alone] = core(backward);
        double before = alone;
        for (const int context : {2, 4, 8}) {
          SCOPED_TRACE(gpu + (backward ? " backward " : " forward ") + std::to_string(sequence) +
                       " tokens, context " + std::to_string(context));
          job.plan.context = context;
          job.plan.micro_batch = context;
          const auto [same, time] = core(backward);
          EXPECT_NEAR(same / flop, 1, 1e-9);
          EXPECT_GT(time, before);
          before = time;
        }
      }
    }
  }
}

// A chunk of 2 dense and 3 expert layers, the first 3 layers recomputed: both dense ones, one
// other.
TEST(Lowering, PartialRecomputationCountsLayersOfBothKinds) {
  model::Job job = job_from(
      "model: {name: deepseek-v2-lite, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
      "plan: {data: 8, micro_batch: 1, global_batch: 8, recompute: full:3}\n");
  const auto again = [&](const model::ChunkContent& content) {
    return flop_of(lowered(job, content).backward, true).value;
  };
  job.plan.recompute_layers = 3;
  const double both = again({.dense_layers = 2, .moe_layers = 3});
  job.plan.recompute_layers = 0;
  EXPECT_DOUBLE_EQ(both, again({.dense_layers = 2}) + again({.moe_layers = 1}));
}

// Of a parallel block's halves only one gathers the common input, and only one reduces the sum.
TEST(Lowering, ParallelBlocksReduceOnce) {
  model::Job job = job_from(kLlama);
  const auto collectives = [&] {
    int count = 0;
    const model::TaskOps ops = lowered(job, {.dense_layers = 1});
    for (const auto* list : {&ops.forward, &ops.backward}) {
      for (const model::MicroOp& op : *list) {
        count += op.kind == model::MicroOpKind::Collective ? 1 : 0;
      }
    }
    return count;
  };
  EXPECT_EQ(collectives(), 4 + 6);  // Backward gathers the inputs of the weight gradients again.
  job.transformer.parallel_block = true;
  EXPECT_EQ(collectives(), 2 + 3);
}

// DeepSeek-V3 on 8 tensor ranks: what is gathered are the latents, (1536 + 512 + 64) a token, not
// the 7168 of the hidden state.
TEST(Lowering, LatentAttentionGathersLatents) {
  const model::Job job = job_from(
      "model: {name: deepseek-v3, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 16}]}\n"
      "plan: {tensor: 8, expert: 16, data: 16, micro_batch: 1, global_batch: 16, "
      "sequence_parallel: true, precision: bf16}\n");
  int found = 0;
  for (const model::MicroOp& op : lowered(job, {.dense_layers = 1}).forward) {
    if (op.name != "latent.gather") continue;
    ++found;
    EXPECT_DOUBLE_EQ(op.bytes.value, 4096.0 * (1536 + 512 + 64) * 2);
  }
  EXPECT_EQ(found, 1);
}

// Tensor 1 and expert-tensor 2: the two ranks hold tokens of their own, which meet on both.
TEST(Lowering, ExpertTensorRanksShareTheirTokens) {
  model::Job job = job_from(
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
      "plan: {expert: 8, expert_tensor: 2, data: 16, micro_batch: 1, global_batch: 16}\n");
  const auto gathered = [&] {
    for (const model::MicroOp& op : lowered(job, {.moe_layers = 1}).forward) {
      if (op.name == "moe.gather") return op.bytes.value;
    }
    return 0.0;
  };
  EXPECT_DOUBLE_EQ(gathered(), 2.0 * 4096 * 2 * 4096 * 2);
  const double saved =
      model::saved_activations({job.transformer, job.plan, job.software}, {.moe_layers = 1})
          .chunk.value;
  job.plan.expert_tensor = 1;
  EXPECT_GT(saved,
            model::saved_activations({job.transformer, job.plan, job.software}, {.moe_layers = 1})
                .chunk.value);
}

// Backward: every product twice, and the fused attention 2.5 times its forward.
TEST(Lowering, BackwardHasTwiceTheProducts) {
  const model::Job job = job_from(kLlama);
  const model::TaskOps ops = lowered(job, {.dense_layers = 1});
  const double products = 2.0 * 4096 * 4096 * (3072 + 2048 + 14336 + 7168);
  const double attention = 2.0 * 16 * 4096 * 2048 * 256;
  EXPECT_DOUBLE_EQ(flop_of(ops.backward, false).value, 2 * products + 2.5 * attention);
}

// Mixtral on 8 expert ranks, 4,096 tokens a rank, 2 experts a token, hidden 4,096, 2 bytes: an
// all-to-all takes 2 copies of each token; the all-gather dispatcher brings every rank the tokens
// of all 8, and adds the results up by a reduce-scatter of the same size.
TEST(Lowering, AllGatherDispatcherMovesEveryTokenToEveryRank) {
  model::Job job = job_from(
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
      "plan: {expert: 8, data: 8, micro_batch: 1, global_batch: 8, precision: bf16}\n");
  const double a_copy = 4096.0 * 4096 * 2;
  const auto moved = [&](const char* first, const char* second) {
    double bytes = 0;
    const model::TaskOps ops = lowered(job, {.moe_layers = 1});
    for (const model::MicroOp& op : ops.forward) {
      if (op.group != model::GroupKind::Expert || op.kind != model::MicroOpKind::Collective)
        continue;
      EXPECT_TRUE(op.name == first || op.name == second) << op.name;
      bytes += op.bytes.value;
    }
    return bytes;
  };
  EXPECT_DOUBLE_EQ(moved("moe.all_to_all", "moe.all_to_all.return"), 2 * 2 * a_copy);
  job.plan.dispatcher = model::ExpertDispatcher::AllGather;
  EXPECT_DOUBLE_EQ(moved("moe.all_gather", "moe.reduce_scatter"), 2 * 8 * a_copy);
}

TEST(Lowering, FullRecomputationRepeatsTheForward) {
  model::Job job = job_from(kLlama);
  job.plan.recompute = model::RecomputeKind::Full;
  const model::TaskOps ops = lowered(job, {.dense_layers = 4});
  EXPECT_DOUBLE_EQ(flop_of(ops.backward, true).value, flop_of(ops.forward, false).value);
  job.plan.recompute_layers = 1;  // Of four.
  const model::TaskOps part = lowered(job, {.dense_layers = 4});
  EXPECT_DOUBLE_EQ(flop_of(part.backward, true).value, flop_of(part.forward, false).value / 4);
}

// Every op has a name and says what it moves: bytes of a collective, traffic of a kernel.
TEST(Lowering, NamesEveryOpWithItsBytes) {
  for (const char* extra :
       {"", "software: {framework: megatron-2021}\n", "software: {framework: fsdp2}\n"}) {
    const model::Job job = job_from(std::string(kLlama) + extra);
    const model::TaskOps ops = lowered(job, {.dense_layers = 2, .embedding = true, .head = true});
    for (const model::MicroOps* list : {&ops.forward, &ops.backward}) {
      for (const model::MicroOp& op : *list) {
        EXPECT_FALSE(op.name.empty());
        const bool collective = op.kind == model::MicroOpKind::Collective;
        EXPECT_GT(collective ? op.bytes.value : (op.read + op.written).value, 0) << op.name;
        if (op.kind == model::MicroOpKind::Gemm) {
          EXPECT_GT(op.flop.value, 0) << op.name;
        }
      }
    }
  }
}

// Split and whole backward run the same ops: their parts are marked, none is lost.
TEST(Lowering, SplitBackwardIsThePartition) {
  const model::Job job = job_from(kLlama);
  const model::TaskPricer pricer(job, {});
  const model::TaskOps ops = lowered(job, {.dense_layers = 2});
  const auto whole = pricer.price(ops.backward);
  const auto input = pricer.price(ops.backward, model::TaskPart::WithoutWeightGradient);
  const auto weight = pricer.price(ops.backward, model::TaskPart::WeightGradientOnly);
  EXPECT_NEAR((input.gemm + weight.gemm).value, whole.gemm.value, 1e-12);
  EXPECT_GT(weight.gemm.value, 0);
}

// Sequence parallelism: 34·s·b·h/t bytes a layer with selective recomputation (equation 6), and
// without anything s·b·h·(34 + 5as/h) (equation 1). Source: arXiv:2205.05198.
TEST(SavedActivations, EqualTheEquationsOfThePaper) {
  const char* yaml =
      "model: {name: gpt3-175b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 1}]}\n"
      "software: {framework: megatron-2022}\n"
      "plan: {tensor: 8, data: 1, micro_batch: 1, global_batch: 8, precision: fp16}\n";
  model::Job job = job_from(yaml);
  const double sbh = 2048.0 * 12288, scores = 5.0 * 96 * 2048 / 12288;
  const auto saved = [&] {
    return model::saved_activations({job.transformer, job.plan, job.software}, {.dense_layers = 1})
        .chunk.value;
  };
  job.plan.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(saved(), sbh * (10 + 24.0 / 8 + scores / 8));  // Equation 2.
  job.plan.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(saved(), sbh / 8 * (34 + scores));  // Equation 4.
  job.plan.recompute = model::RecomputeKind::Selective;
  EXPECT_DOUBLE_EQ(saved(), 34 * sbh / 8);  // Equation 6.
  job.plan.recompute = model::RecomputeKind::Full;
  EXPECT_DOUBLE_EQ(saved(), 2 * sbh / 8);
  job.plan.recompute = model::RecomputeKind::None;
  job.plan.tensor = 1;
  EXPECT_DOUBLE_EQ(saved(), sbh * (34 + scores));  // Equation 1.
}

}  // namespace
}  // namespace megatwin::tests
