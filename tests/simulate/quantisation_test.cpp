// What the fp8 and fp4 recipes cost, against counts by hand and each other.
#include "model/quantisation.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::OperandRole;
using model::Precision;

constexpr Precision kRecipes[] = {Precision::Fp8PerTensor, Precision::Fp8Current,
                                  Precision::Fp8Block, Precision::Mxfp8, Precision::Nvfp4};

model::SoftwareStack megatron() { return model::software_stack(model::Framework::MegatronCore); }

model::Job job_of(const std::string& node, const std::string& precision,
                  const std::string& more = "", const std::string& model = "") {
  return job_from("model: {name: llama-3-8b, sequence_length: 4096" + model +
                  "}\n"
                  "cluster: {nodes: [{type: " +
                  node +
                  ", count: 1}]}\n"
                  "plan: {tensor: 2, data: 4, micro_batch: 1, global_batch: 8, precision: " +
                  precision + "}\n" + more);
}

model::TaskOps layer_of(const model::Job& job) {
  return model::lower_chunk(model::lowering_input(job), {.dense_layers = 1});
}

// What all casts of a layer move, both passes.
double cast_traffic_of(const model::Job& job) {
  const model::TaskOps ops = layer_of(job);
  model::Bytes moved;
  for (const model::MicroOps* list : {&ops.forward, &ops.backward}) {
    for (const model::MicroOp& op : *list) {
      if (op.kind == model::MicroOpKind::Collective) continue;
      if (op.name.find("cast") != std::string_view::npos) {
        moved += static_cast<double>(op.count) * (op.read + op.written);
      }
    }
  }
  return moved.value;
}

std::map<std::string, model::MicroOp> by_name(const model::MicroOps& ops) {
  std::map<std::string, model::MicroOp> named;
  for (const model::MicroOp& op : ops) named[std::string(op.name)] = op;
  return named;
}

// 1,024 elements on Hopper. Delayed: 2 B read, fp8 along rows and columns. Current: read twice.
// Blocks: an fp32 scale for 128 elements in each copy. MX: a byte for 32. NVFP4: half a byte and a
// scale byte for 16, read twice.
TEST(Quantisation, BytesOfACastByHand) {
  const auto bytes = [](Precision precision) {
    const auto cast = model::cast_traffic(model::quantisation(precision, megatron(), false), 1024,
                                          OperandRole::Gradient);
    return std::pair(cast.read.value, cast.written.value);
  };
  EXPECT_EQ(bytes(Precision::Fp8PerTensor), std::pair(2048.0, 2048.0));
  EXPECT_EQ(bytes(Precision::Fp8Current), std::pair(4096.0, 2048.0));
  EXPECT_EQ(bytes(Precision::Fp8Block), std::pair(2048.0, 2 * (1024 + 8 * 4.0)));
  EXPECT_EQ(bytes(Precision::Mxfp8), std::pair(2048.0, 2 * (1024 + 32.0)));
  EXPECT_EQ(bytes(Precision::Nvfp4), std::pair(4096.0, 2 * (512 + 64.0)));
}

// Blackwell's tensor cores read fp8 along columns: one copy for scales of whole tensors, two where
// the scales of rows and columns differ.
TEST(Quantisation, OnlyWholeTensorsDoWithOneCopyOnBlackwell) {
  for (const Precision precision : kRecipes) {
    const bool whole = precision == Precision::Fp8PerTensor || precision == Precision::Fp8Current;
    EXPECT_TRUE(model::quantisation(precision, megatron(), false).copies_columns);
    EXPECT_EQ(model::quantisation(precision, megatron(), true).copies_columns, !whole);
  }
  EXPECT_FALSE(model::quantisation(Precision::Bf16, megatron(), false).on);
}

// Each step of the ladder moves at least as many bytes as the one before; without a recipe none.
TEST(Quantisation, FinerScalesNeverMoveFewerBytes) {
  const double delayed = cast_traffic_of(job_of("dgx-h100", "fp8"));
  const double block = cast_traffic_of(job_of("dgx-h100", "fp8-block"));
  const double current = cast_traffic_of(job_of("dgx-h100", "fp8-current"));
  EXPECT_EQ(cast_traffic_of(job_of("dgx-h100", "bf16")), 0);
  EXPECT_GT(delayed, 0);
  EXPECT_GT(block, delayed);
  EXPECT_GT(current, delayed);
  const double mx = cast_traffic_of(job_of("dgx-b200", "mxfp8"));
  EXPECT_GT(mx, cast_traffic_of(job_of("dgx-b200", "fp8")));
  EXPECT_EQ(mx,
            cast_traffic_of(job_of("dgx-b200", "fp8-block")));  // 1/32 of a byte an element each.
}

// With delayed scaling the norms write what the products read; with the others a pass of its own
// does, and whole-tensor scales of sequence shards are agreed on first.
TEST(Quantisation, NormsCastOnlyWithScalesKnownBefore) {
  const auto delayed = by_name(layer_of(job_of("dgx-h100", "fp8")).forward);
  EXPECT_FALSE(delayed.contains("qkv.cast"));
  EXPECT_FALSE(delayed.contains("fc1.cast"));
  EXPECT_TRUE(delayed.contains("fc2.cast"));
  EXPECT_FALSE(delayed.contains("cast.magnitude"));
  const auto current = by_name(layer_of(job_of("dgx-h100", "fp8-current")).forward);
  EXPECT_TRUE(current.contains("qkv.cast"));
  EXPECT_EQ(current.at("cast.magnitude").bytes.value, 4);
  EXPECT_EQ(current.at("fc2.cast").kernels, 2);
  const auto block = by_name(layer_of(job_of("dgx-h100", "fp8-block")).forward);
  EXPECT_TRUE(block.contains("qkv.cast"));
  EXPECT_FALSE(block.contains("cast.magnitude"));
}

// On Hopper cuBLAS scales 128-blocks in software, and weight gradients have them on both sides;
// from Blackwell on the tensor cores do it.
TEST(Quantisation, BlocksCostTheProductsOfHopper) {
  const model::Job block = job_of("dgx-h100", "fp8-block");
  const model::TaskOps ops = layer_of(block);
  EXPECT_EQ(by_name(ops.forward).at("fc1").gemm.scaling, model::GemmScaling::WeightBlocks);
  EXPECT_EQ(by_name(ops.backward).at("fc1.dgrad").gemm.scaling, model::GemmScaling::WeightBlocks);
  EXPECT_EQ(by_name(ops.backward).at("fc1.wgrad").gemm.scaling, model::GemmScaling::RowBlocks);
  EXPECT_EQ(by_name(layer_of(job_of("dgx-b200", "fp8-block")).forward).at("fc1").gemm.scaling,
            model::GemmScaling::Uniform);
  const auto time = [](const model::Job& job) { return report_of(job).step_time; };
  EXPECT_GT(time(block), time(job_of("dgx-h100", "fp8")));
  EXPECT_LT(time(block), time(job_of("dgx-h100", "bf16")));
}

// Every product of the layers is in the recipe's format, weight gradients too; attention, router
// and head stay in 16 bits.
TEST(Quantisation, LinearLayersAreQuantisedInAllThreeProducts) {
  const model::Job job = job_of("dgx-b200", "nvfp4");
  const model::TaskOps ops =
      model::lower_chunk(model::lowering_input(job), {.dense_layers = 1, .head = true});
  int products = 0;
  for (const model::MicroOps* list : {&ops.forward, &ops.backward}) {
    for (const model::MicroOp& op : *list) {
      if (op.kind != model::MicroOpKind::Gemm) continue;
      const bool head = op.name.starts_with("logits");
      EXPECT_EQ(op.gemm.type, head ? model::DataType::Bf16 : model::DataType::Fp4) << op.name;
      products += head ? 0 : 1;
    }
  }
  EXPECT_EQ(products, 12);
}

// Rows of 16 elements are the least that fp8 units take: a layer with others stays in 16 bits.
TEST(Quantisation, UnalignedLayersStayInSixteenBits) {
  EXPECT_EQ(model::linear_type(Precision::Fp8PerTensor, {4096, 4096}), model::DataType::Fp8);
  EXPECT_EQ(model::linear_type(Precision::Fp8PerTensor, {4104, 4096}), model::DataType::Bf16);
  EXPECT_EQ(model::linear_type(Precision::Nvfp4, {4096, 4112}), model::DataType::Bf16);
  EXPECT_EQ(model::linear_type(Precision::Bf16, {4097, 4096}), model::DataType::Bf16);
}

// Llama-3-8B on 2 tensor ranks keeps 32 · (4096 · (4096 + 2 · 1024) + 4096 · 4096 + 3 · 4096 ·
// 14336) / 2 linear weights, and their norms: 1 B along rows and 1 B along columns of each on
// Hopper, 1 B on Blackwell. torchao keeps none.
TEST(Quantisation, QuantisedWeightsLiveFromStepToStep) {
  const double linear = 32 * (4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3 * 4096.0 * 14336) / 2;
  const auto buffers = [](const std::string& node, const std::string& precision,
                          const std::string& stack) {
    const model::Job job = job_of(node, precision, "software: {framework: " + stack + "}\n");
    return model::build_job_program(job).spec.stages[0].buffers.value;
  };
  const auto copies = [&](const std::string& node, const std::string& stack) {
    return (buffers(node, "fp8", stack) - buffers(node, "bf16", stack)) / linear;
  };
  EXPECT_NEAR(copies("dgx-h100", "megatron-core"), 2, 1e-3);
  EXPECT_NEAR(copies("dgx-b200", "megatron-core"), 1, 1e-3);
  EXPECT_EQ(copies("dgx-h100", "fsdp2"), 0);
}

// torchao casts inputs again in the backward pass, and weights with every use.
TEST(Quantisation, TorchaoCastsWithEveryUse) {
  const model::Job job = job_of("dgx-h100", "fp8-current", "software: {framework: fsdp2}\n");
  const model::TaskOps ops = layer_of(job);
  EXPECT_TRUE(by_name(ops.forward).contains("weights.cast"));
  EXPECT_TRUE(by_name(ops.backward).contains("weights.cast"));
  EXPECT_TRUE(by_name(ops.backward).at("fc1.cast.input").weight_gradient);
  EXPECT_FALSE(
      by_name(layer_of(job_of("dgx-h100", "fp8-current")).forward).contains("weights.cast"));
}

// A feed-forward size that is no multiple of 16 keeps both of its products in 16 bits: no cast, no
// quantised copy of its weights, and its input is saved in 16 bits. Attention goes on in fp8.
TEST(Quantisation, LayersInSixteenBitsAreNotCast) {
  // 14,352 / 2 = 7,176 is no multiple of 16; twice that is.
  const auto job = [](const std::string& precision, const std::string& stack) {
    return job_of("dgx-h100", precision, "software: {framework: " + stack + "}\n",
                  ", ffn_hidden_size: 14352");
  };
  const auto casts = [](const model::Job& from, const std::string& of) {
    int count = 0;
    const model::TaskOps ops = layer_of(from);
    for (const model::MicroOps* list : {&ops.forward, &ops.backward}) {
      for (const model::MicroOp& op : *list) {
        count += !op.recompute && op.name.starts_with(of + ".cast") ? 1 : 0;
      }
    }
    return count;
  };
  const auto type = [](const model::Job& from, const std::string& product) {
    return by_name(layer_of(from).forward).at(product).gemm.type;
  };
  // Transformer Engine's joint matrix has 14,352 rows; torchao's two have 7,176 each.
  const model::Job joint = job("fp8-current", "megatron-core");
  EXPECT_EQ(casts(joint, "fc2"), 0);
  EXPECT_EQ(casts(joint, "fc1"), 2);
  EXPECT_EQ(type(joint, "fc1"), model::DataType::Fp8);
  EXPECT_EQ(type(joint, "fc2"), model::DataType::Bf16);
  const model::Job apart = job("fp8-current", "fsdp2");
  EXPECT_EQ(casts(apart, "fc1") + casts(apart, "fc2"), 0);
  EXPECT_EQ(type(apart, "fc1"), model::DataType::Bf16);
  EXPECT_EQ(casts(apart, "qkv"), 3);
  EXPECT_EQ(type(apart, "qkv"), model::DataType::Fp8);

  const auto saved = [](const model::Job& from) {
    return model::saved_activations(model::lowering_input(from), {.dense_layers = 1}).chunk.value;
  };
  // One byte less for each norm's shard of 2,048 tokens, one more for attention's copy.
  EXPECT_EQ(saved(job("bf16", "megatron-core")) - saved(joint), 2 * 2048.0 * 4096 - 4096.0 * 2048);
  const auto buffers = [](const model::Job& from) {
    return model::build_job_program(from).spec.stages[0].buffers.value;
  };
  const double weights = 32 * (4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 2 * 4096.0 * 14352) / 2;
  EXPECT_NEAR(buffers(joint) - buffers(job("bf16", "megatron-core")), 2 * weights, 1);
}

// What is cast of weights in a pass, over what one weight reads: every weight of the linear layers
// of the rank, once, experts and shared ones too, in recipes that do not keep them.
TEST(Quantisation, EveryWeightIsCastWithEveryUse) {
  struct Case {
    std::string model, plan;
    bool moe;
    double weights;
  };
  const double attention = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096;
  const double expert = 3 * 4096.0 * 14336;
  const Case cases[] = {
      {"llama-3-8b", "data: 8", false, attention + expert},
      {"mixtral-8x7b", "data: 8, expert: 8", true, attention + expert},
      {"mixtral-8x7b", "data: 8, expert: 2", true, attention + 4 * expert},
      {"mixtral-8x7b", "tensor: 2, data: 4, expert: 4", true, attention / 2 + 2 * expert / 2},
      // 32 of 256 experts, and the shared one, 2,048 wide each. Low ranks 1,536 and 512.
      {"deepseek-v3", "data: 8, expert: 8", true,
       7168.0 * (1536 + 512 + 64) + 1536 * 128 * 192.0 + 512 * 128 * 256.0 + 128 * 128 * 7168.0 +
           (32 + 1) * 3 * 7168.0 * 2048},
  };
  for (const Case& one : cases) {
    for (const char* precision : {"fp8", "fp8-current", "fp8-block"}) {
      const model::Job job = job_from(
          "model: {name: " + one.model +
          ", sequence_length: 4096}\n"
          "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
          "plan: {" +
          one.plan + ", micro_batch: 1, global_batch: 8, zero: 3, precision: " + precision + "}\n");
      const model::LoweringInput input = model::lowering_input(job);
      const model::TaskOps ops =
          model::lower_chunk(input, one.moe ? model::ChunkContent{.moe_layers = 1}
                                            : model::ChunkContent{.dense_layers = 1});
      const model::Quantisation recipe =
          model::quantisation(job.plan.precision, job.software, input.reads_columns);
      const double each = model::cast_traffic(recipe, 1, OperandRole::Weight).read.value;
      for (const model::MicroOps* list : {&ops.forward, &ops.backward}) {
        double read = 0;
        for (const model::MicroOp& op : *list) {
          if (op.name == "weights.cast") read += op.count * op.read.value;
        }
        EXPECT_EQ(read / each, one.weights) << one.model << " " << one.plan << " " << precision;
      }
    }
  }
}

// Where inputs are saved in 16 bits, the backward pass casts what the forward pass cast, byte for
// byte but for what a norm spares the forward pass.
TEST(Quantisation, InputsAreCastAgainInEveryKindOfLayer) {
  for (const std::string name : {"llama-3-8b", "mixtral-8x7b", "deepseek-v3"}) {
    const bool moe = name != "llama-3-8b";
    const model::Job job =
        job_from("model: {name: " + name +
                 ", sequence_length: 4096}\n"
                 "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
                 "plan: {data: 8, expert: " +
                 (moe ? "8" : "1") +
                 ", micro_batch: 1, global_batch: 8, zero: 3, precision: fp8-current}\n"
                 "software: {framework: fsdp2}\n");
    const model::TaskOps ops = model::lower_chunk(
        model::lowering_input(job),
        moe ? model::ChunkContent{.moe_layers = 1} : model::ChunkContent{.dense_layers = 1});
    double forward = 0, again = 0;
    for (const model::MicroOp& op : ops.forward) {
      if (op.name.ends_with(".cast") && op.name != "weights.cast") forward += op.written.value;
    }
    for (const model::MicroOp& op : ops.backward) {
      if (op.name.ends_with(".cast.input")) again += op.written.value;
    }
    EXPECT_GT(forward, 0);
    EXPECT_EQ(again, forward) << name;
  }
}

// Of an operand kept from forward to backward: 1 B, its scales beside it, half of it in fp4.
TEST(Quantisation, SavedOperandsFollowTheFormat) {
  const auto saved = [](const std::string& precision) {
    const model::Job job = job_of("dgx-b200", precision);
    return model::saved_activations(model::lowering_input(job), {.dense_layers = 1}).chunk.value;
  };
  EXPECT_LT(saved("nvfp4"), saved("fp8"));
  EXPECT_LT(saved("fp8"), saved("mxfp8"));
  EXPECT_LT(saved("mxfp8"), saved("bf16"));
  // Two norms (on 2,048 tokens), attention's output and the down-projection's input (on 4,096).
  const double elements = 2 * 2048.0 * 4096 + 4096.0 * (2048 + 7168);
  EXPECT_NEAR(saved("mxfp8") - saved("fp8"), elements / 32, 1);
}

}  // namespace
}  // namespace megatwin::tests
