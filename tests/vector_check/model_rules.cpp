// FLOP and parameters.
#include <cmath>

#include "model/flops.h"
#include "model/gemm_cost.h"
#include "model/parameters.h"
#include "model/roofline.h"
#include "tests/vector_check/rules.h"

namespace megatwin::vector_check {
namespace {

using model::Flop;
using model::FlopConvention;
using model::RecomputeKind;
using model::Transformer;

// A GPT for the formulas of SC21 and Korthikanti: only h, L, s and V matter.
Flop gpt_step_flop(const Row& row, FlopConvention convention, RecomputeKind recompute) {
  const Transformer gpt = gpt_from(row.inputs);
  const auto batch = std::llround(row.inputs.need({"B", "batch", "global_batch", "b"}));
  if (convention == FlopConvention::MegatronSc21Hardware) {
    return model::model_flop_per_step(gpt, convention, batch);
  }
  return model::hardware_flop_per_step(gpt, convention, recompute, batch);
}

double gpt_utilization(const Row& row, RecomputeKind recompute) {
  const Inputs& in = row.inputs;
  return row.in_unit(
      model::flop_utilization(gpt_step_flop(row, FlopConvention::ModelFullAttention, recompute),
                              in.need_time({"t", "time", "iter_time"}), in.need({"n", "gpus"}),
                              {in.get({"peak"}, 312e12)}));
}

model::PalmShape palm_from(const Inputs& in) {
  return {.parameters = in.need({"N", "params", "P"}),
          .layers = in.need({"L", "l"}),
          .heads = in.need({"H", "nh", "a", "n_heads"}),
          .head_dim = in.need({"Q", "hd", "d", "head_dim"}),
          .sequence_length = in.need({"T", "s", "seq"})};
}

double palm_work(const Row& row) {
  const bool all = row.says("recompute") || row.says("remat") || row.says("hw") || row.says("hfu");
  return row.in_unit(model::palm_flop_per_token(palm_from(row.inputs), all));
}

// From tokens a second, of the whole machine of n GPUs.
double palm_utilization(const Row& row) {
  const Inputs& in = row.inputs;
  const double tokens = in.need({"tokens_per_s", "tps", "tok_s", "tokens_s", "tokens_per_second"});
  const Flop work = tokens * model::palm_flop_per_token(palm_from(in), row.says("hfu"));
  return row.in_unit(
      model::flop_utilization(work, {1}, in.get({"n", "gpus", "chips"}, 1), {in.need({"peak"})}));
}

double training_days(const Row& row) {
  const Inputs& in = row.inputs;
  const bool recompute = !row.says("no_recompute") && !row.says("6");
  return row.in_unit(model::training_time({in.need({"T", "tokens"}),
                                           in.need({"P", "N", "params"}),
                                           in.need({"n", "gpus"}),
                                           {in.need({"X", "flops_per_gpu"})},
                                           recompute}));
}

double general_flop_per_token(const Row& row) {
  const Inputs& in = row.inputs;
  Transformer transformer = transformer_from(in);
  if (row.says("gelu") || row.says("gpt")) transformer.activation = model::ActivationKind::Gelu;
  const bool full = row.says("noncausal") || row.says("non_causal") || row.says("full_attention");
  return row.in_unit(
      model::model_flop_per_token(transformer, full ? FlopConvention::ModelFullAttention
                                                    : FlopConvention::ModelCausalAttention));
}

model::AttentionExtent attention_from(const Row& row) {
  const Inputs& in = row.inputs;
  return {.batch = in.get({"b", "B"}, 1),
          .sequence_length = in.need({"s", "T"}),
          .heads = in.need({"nh", "a", "n", "H"}),
          .head_dim = in.need({"hd", "d", "dqk", "d_qk"}),
          .value_head_dim = in.get({"dv", "d_v", "hd_v"}, 0),
          .causal = !row.says("noncausal") && !row.says("non_causal") && !row.says("full")};
}

double attention_work(const Row& row) {
  const auto extent = attention_from(row);
  return row.in_unit(row.says("bwd") || row.says("backward")
                         ? model::attention_backward_flop(extent)
                         : model::attention_forward_flop(extent));
}

double attention_rate(const Row& row) {
  const auto extent = attention_from(row);
  const Flop flop = row.says("bwd") || row.says("backward") ? model::attention_backward_flop(extent)
                                                            : model::attention_forward_flop(extent);
  return row.in_unit(flop / row.inputs.need_time({"t", "time"}));
}

// One GPT layer's forward FLOP over b sequences; the head's when it asks for logits.
double layer_forward(const Row& row) {
  Inputs in = row.inputs;
  in.values["L"].number = 1;
  const auto flop = model::forward_flop_per_token(gpt_from(in), FlopConvention::ModelFullAttention);
  const double tokens = in.get({"b", "B"}, 1) * in.need({"s"});
  return row.in_unit(tokens *
                     (row.says("logit") ? flop.head : flop.layer_matrices + flop.attention_core));
}

double count_of(const model::ParameterCounts& counts, const Row& row) {
  const bool active = row.says("active") || row.inputs.has({"experts_counted"});
  if (row.says("mtp")) {
    return static_cast<double>(active ? counts.mtp_active : counts.mtp_total);
  }
  return static_cast<double>(active ? counts.active : counts.total);
}

double gpt_parameters(const Row& row, bool final_norm) {
  row.inputs.need({"V"});
  Transformer gpt = gpt_from(row.inputs);
  gpt.final_norm = final_norm;
  return count_of(model::count_parameters(gpt), row);
}

double llama_parameters(const Row& row) {
  row.inputs.need({"V"});
  Transformer transformer = transformer_from(row.inputs);
  if (row.says("tied") && !row.says("untied")) transformer.tied_embeddings = true;
  if (row.says("qkv_bias")) transformer.qkv_bias = true;
  if (row.says("qk_norm")) transformer.qk_norm = true;
  if (row.says("geglu")) transformer.activation = model::ActivationKind::GeGlu;
  // DeepSeek-V3 has a bias on its router; V2 and the plain mixtures have none.
  if (row.says("deepseek_v3") && transformer.experts) transformer.experts->router_bias = true;
  return count_of(model::count_parameters(transformer), row);
}

}  // namespace

Rules flop_rules() {
  const auto step = [](FlopConvention convention, RecomputeKind recompute) {
    return [=](const Row& row) { return row.in_unit(gpt_step_flop(row, convention, recompute)); };
  };
  const auto utilization = [](RecomputeKind recompute) {
    return [=](const Row& row) { return gpt_utilization(row, recompute); };
  };
  constexpr auto kFull = FlopConvention::ModelFullAttention;
  return {
      {"sc21 flops", step(FlopConvention::MegatronSc21Hardware, RecomputeKind::Full)},
      {"train days|time", training_days},
      {"hw_over_model|hardware_over_model|eq9|overhead",
       [](const Row& row) {
         return model::selective_recompute_overhead(row.inputs.need({"s"}), row.inputs.need({"h"}));
       }},
      {"mfu|hfu palm|tokens", palm_utilization},
      {"hfu full", utilization(RecomputeKind::Full)},
      {"hfu", utilization(RecomputeKind::Selective)},
      {"mfu", utilization(RecomputeKind::None)},
      {"flops korthikanti|eq7|eq8 hardware|hw|eq8|selective",
       step(kFull, RecomputeKind::Selective)},
      {"flops korthikanti|eq7|model_flops", step(kFull, RecomputeKind::None)},
      {"palm flop", palm_work},
      {"attention|attn achieved|tflops", attention_rate},
      {"attention|attn flop", attention_work},
      {"layer|logit fwd|forward|flop -per_token", layer_forward},
      {"train|model|megatron flop token", general_flop_per_token},
      {"flops_per_token|flop_per_token", palm_work},
      {"flops_per_token|flop_per_token", general_flop_per_token},
      {"gemm flop",
       [](const Row& row) {
         const auto side = [&](std::string_view name) {
           return std::llround(row.inputs.need({name}));
         };
         return row.in_unit(model::gemm_flop({.m = side("m"), .n = side("n"), .k = side("k")}));
       }},
  };
}

Rules parameter_rules() {
  return {
      {"sc21 param", [](const Row& row) { return gpt_parameters(row, false); }},
      {"param gpt -oss", [](const Row& row) { return gpt_parameters(row, true); }},
      {"param count|total|active|deepseek|llama|qwen|mixtral -bytes", llama_parameters},
  };
}

}  // namespace megatwin::vector_check
