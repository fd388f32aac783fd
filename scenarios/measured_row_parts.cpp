#include "scenarios/measured_row_parts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/counted.h"
#include "model/layer_split.h"
#include "model/parameters.h"

namespace megatwin::scenarios {
namespace {

using model::ActivationKind;
using model::Diagnostics;
using model::Framework;
using model::Job;
using model::Plan;
using model::Precision;
using model::RecomputeKind;
using model::Transformer;

// A positive whole number of a column; `fallback` < 0 makes it required.
std::int64_t whole(const MeasuredRow& row, const std::string& column, std::int64_t fallback,
                   Diagnostics& problems) {
  const std::string& text = row.text(column);
  if (text.empty()) {
    if (fallback < 0) problem(row, column, column + " not stated", problems);
    return std::max<std::int64_t>(fallback, 1);
  }
  const auto value = number_of(text);
  const std::int64_t largest = column == "layers" || column == "heads" || column == "tp" ||
                                       column == "pp" || column == "cp" || column == "vpp" ||
                                       column == "etp"
                                   ? 10'000
                                   : kSizeMax;
  if (!value || !(*value >= 1) || *value != std::floor(*value) ||
      *value > static_cast<double>(largest)) {
    problem(row, column,
            column + " '" + text + "' is no whole number from 1 to " + std::to_string(largest),
            problems);
    return 1;
  }
  return static_cast<std::int64_t>(*value);
}

// The number that follows `word` in a text such as "128 experts top8, moe_ffn 768".
std::int64_t number_after(const std::string& text, const std::string& word) {
  std::size_t at = text.find(word);
  if (at == std::string::npos) return 0;
  at += word.size();
  while (at < text.size() && text[at] == ' ') ++at;
  return leading_number(text, at);
}

// "8 experts top2" · "128 experts top8, moe_ffn 768" · "… + 1 shared, … first 3 dense, MLA(…)".
void fill_experts(const MeasuredRow& row, Transformer& model, Diagnostics& problems) {
  const std::string& text = row.text("moe");
  if (text.empty()) return;
  model::MixtureOfExperts experts;
  experts.num_experts = number_after(text, "");
  experts.experts_per_token = number_after(text, "top");
  experts.expert_ffn_size = number_after(text, "moe_ffn");
  if (experts.expert_ffn_size == 0) experts.expert_ffn_size = model.ffn_hidden_size;
  if (contains(text, "shared")) {
    experts.shared_expert_ffn_size = number_after(text, "+") * experts.expert_ffn_size;
  }
  if (experts.num_experts < 1 || experts.experts_per_token < 1) {
    problem(row, "moe", "'" + text + "' does not say experts and top-k", problems);
    return;
  }
  const bool gpt_oss = model.family == "gpt_oss";
  experts.router_bias = experts.expert_bias = experts.clamped_activation = gpt_oss;
  model.num_dense_first_layers = number_after(text, "first");
  model.experts = experts;
  if (contains(text, "MLA")) {
    model.latent = model::LatentAttention{.q_lora_rank = number_after(text, "q_lora"),
                                          .kv_lora_rank = number_after(text, "kv_lora"),
                                          .qk_nope_head_dim = 128,
                                          .qk_rope_head_dim = 64,
                                          .v_head_dim = 128};
    model.head_dim = 192;
    model.num_mtp_layers = contains(row.text("model_name"), "w/o MTP") ? 0 : 1;
  }
}

// Gated feed-forward, norm and positions by family; the row states only sizes.
void fill_family(const std::string& name, Transformer& model) {
  const bool gpt = contains(name, "gpt") && !contains(name, "oss");
  const bool nemotron = contains(name, "nemotron");
  if (gpt || contains(name, "mpt")) {
    model.family = gpt ? "gpt" : "mpt";
    model.activation = ActivationKind::Gelu;
    model.norm = model::NormKind::LayerNorm;
    model.position = model::PositionKind::Learned;
    model.tied_embeddings = true;
    model.norm_bias = gpt;
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = gpt;
  } else if (nemotron) {
    model.family = "nemotron";
    model.activation = ActivationKind::SquaredRelu;
    model.norm = model::NormKind::LayerNorm;
    model.norm_bias = true;
  } else {
    model.family = "llama";
  }
  if (contains(name, "oss")) {
    model.family = "gpt_oss";
    model.head_dim = 64;
    model.sliding_window = 128;
    model.sliding_window_period = 2;
    model.attention_sinks = true;
    model.qkv_bias = model.attention_output_bias = true;
  } else if (contains(name, "qwen3")) {
    model.family = "qwen3_moe";
    model.head_dim = 128;
    model.qk_norm = true;
  }
}

std::int64_t vocabulary(const std::string& name) {
  if (contains(name, "nemotron")) return 256000;
  if (contains(name, "grok")) return 131072;
  return 51200;  // GPT-2's 50,257 padded as Megatron pads it.
}

Precision precision_of(const MeasuredRow& row, const Job& job, std::string* assumption) {
  const std::string name = lower(row.text("precision"));
  const Framework framework = job.software.framework;
  if (contains(name, "nvfp4")) return Precision::Nvfp4;
  if (contains(name, "mx")) return Precision::Mxfp8;
  if (contains(name, "rowwise")) return Precision::Fp8Block;
  // "CS" is current scaling, which torchao ("tensorwise") and Megatron-Bridge (releases from 25.09)
  // have only.
  const bool bridge = framework == Framework::MegatronCore &&
                      !row.text("framework_version").empty() &&
                      !is_older(row.text("framework_version"), "25.09");
  const bool current = contains(name, "-cs") || bridge || framework == Framework::Fsdp2;
  if (contains(name, "fp8")) return current ? Precision::Fp8Current : Precision::Fp8PerTensor;
  if (name == "amp") return Precision::AmpBf16;
  if (contains(name, "pure")) return Precision::Bf16Pure;
  if (contains(name, "fp16") && !contains(name, "bf16")) return Precision::Fp16;
  if (contains(name, "bf16")) return Precision::Bf16;
  const bool fp16_age =
      framework == Framework::Megatron2020 || framework == Framework::MegatronDeepspeed;
  *assumption = std::string("precision not stated: taken as ") + (fp16_age ? "fp16" : "bf16");
  return fp16_age ? Precision::Fp16 : Precision::Bf16;
}

// Equal chunks from the front, and what is left beside the head, prediction layers and loss: the
// layout string "Et*4|(t*4|)*14tmL" of Megatron-LM's DeepSeek recipes.
std::vector<int> front_filled(std::int64_t layers, int slots) {
  const std::int64_t each = (layers + 2 + slots - 1) / slots;
  std::vector<int> split;
  std::int64_t left = layers;
  for (int slot = 0; slot < slots; ++slot) {
    const std::int64_t after = slots - 1 - slot;
    const std::int64_t take = std::min(each, std::max<std::int64_t>(left - after, 0));
    split.push_back(static_cast<int>(slot + 1 == slots ? left : take));
    left -= split.back();
  }
  return split;
}

void fill_recompute(const MeasuredRow& row, Job& job) {
  const std::string text = lower(row.text("recompute"));
  Plan& plan = job.plan;
  if (text.empty()) {
    plan.recompute =
        job.software.full_recompute_default ? RecomputeKind::Full : RecomputeKind::None;
    job.assumptions.push_back(std::string("recompute not stated: taken as ") +
                              (job.software.full_recompute_default ? "full" : "none") + ", as " +
                              job.software.name + " runs by default");
  } else if (contains(text, "full")) {
    plan.recompute = RecomputeKind::Full;
  } else if (contains(text, "every other layer")) {
    plan.recompute = RecomputeKind::Full;
    plan.recompute_layers = static_cast<int>(job.transformer.num_layers / 2);
  } else if (contains(text, "op") || contains(text, "default of")) {
    plan.recompute = RecomputeKind::PerOp;
  } else if (contains(text, "selective")) {
    plan.recompute = RecomputeKind::Selective;
  } else {
    plan.recompute = RecomputeKind::None;
  }
}

// Experts stay whole under tensor parallelism, as Megatron's recipes have it; Grok's shards them.
void fill_expert_tensor(const MeasuredRow& row, Job& job, Diagnostics& problems) {
  if (!row.text("etp").empty()) {
    job.plan.expert_tensor = static_cast<int>(whole(row, "etp", 1, problems));
    return;
  }
  const bool grok = contains(lower(row.text("model_name")), "grok");
  job.plan.expert_tensor = grok ? job.plan.tensor : 1;
  if (job.plan.tensor > 1) {
    job.assumptions.push_back("expert-tensor size not stated: taken as " +
                              std::to_string(job.plan.expert_tensor));
  }
}

void fill_overlap(const MeasuredRow& row, Job& job) {
  Plan& plan = job.plan;
  const std::string text = lower(row.text("overlap"));
  const model::SoftwareStack& stack = job.software;
  plan.overlap_grad_reduce = stack.overlap_grad_reduce;
  plan.overlap_param_gather = stack.overlap_param_gather;
  plan.overlap_p2p = stack.overlap_p2p && plan.model_chunks > 1;
  plan.overlap_tensor_parallel = stack.overlap_tensor_parallel && plan.tensor > 1;
  if (contains(text, "asynctp") || contains(text, "async tp")) plan.overlap_tensor_parallel = true;
  // torch DistributedDataParallel overlaps; the rows without pipeline say they used it.
  if (contains(text, "torch ddp for tp-only") && plan.pipeline == 1)
    plan.overlap_grad_reduce = true;
  if (contains(text, "not overlapped")) plan.overlap_grad_reduce = false;
}

void fill_zero_stage(const MeasuredRow& row, Job& job, Diagnostics& problems) {
  Plan& plan = job.plan;
  if (row.text("zero_stage").empty()) {
    plan.zero_stage = job.software.default_zero_stage;
    job.assumptions.push_back("ZeRO stage not stated: taken as " + std::to_string(plan.zero_stage));
  } else {
    const auto stage = number_of(row.text("zero_stage"));
    if (!stage || (*stage != 0 && *stage != 1 && *stage != 2 && *stage != 3)) {
      problem(row, "zero_stage", "'" + row.text("zero_stage") + "' is none of 0, 1, 2, 3",
              problems);
      return;
    }
    plan.zero_stage = static_cast<int>(*stage);
  }
}

void fill_micro_batch(const MeasuredRow& row, Job& job, Diagnostics& problems) {
  Plan& plan = job.plan;
  if (!row.text("micro_batch").empty()) {
    plan.micro_batch = whole(row, "micro_batch", 1, problems);
    return;
  }
  plan.micro_batch =
      plan.pipeline > 1 ? 1 : std::max<std::int64_t>(1, plan.global_batch / plan.data);
  job.assumptions.push_back("micro-batch not stated: taken as " + std::to_string(plan.micro_batch));
}

}  // namespace

void fill_transformer(const MeasuredRow& row, Job& job, Diagnostics& problems) {
  Transformer& model = job.transformer;
  const std::string name = lower(row.text("model_name"));
  model.name = row.text("model_name");
  model.num_layers = whole(row, "layers", -1, problems);
  model.hidden_size = whole(row, "hidden", -1, problems);
  model.num_attention_heads = whole(row, "heads", -1, problems);
  model.num_key_value_heads = whole(row, "kv_heads", model.num_attention_heads, problems);
  model.ffn_hidden_size = whole(row, "ffn_hidden", 4 * model.hidden_size, problems);
  model.sequence_length = whole(row, "seq_len", -1, problems);
  model.max_position_embeddings = model.sequence_length;
  model.head_dim = model.hidden_size / model.num_attention_heads;
  if (row.text("vocab").empty()) {
    model.vocab_size = vocabulary(name);
    job.assumptions.push_back("vocabulary not stated: taken as " +
                              std::to_string(model.vocab_size));
  } else {
    model.vocab_size = whole(row, "vocab", -1, problems);
  }
  fill_family(name, model);
  fill_experts(row, model, problems);
}

void fill_plan(const MeasuredRow& row, Job& job, Diagnostics& problems) {
  Plan& plan = job.plan;
  plan.tensor = static_cast<int>(whole(row, "tp", 1, problems));
  plan.pipeline = static_cast<int>(whole(row, "pp", 1, problems));
  plan.context = static_cast<int>(whole(row, "cp", 1, problems));
  plan.expert = static_cast<int>(whole(row, "ep", 1, problems));
  const std::int64_t gpus = whole(row, "gpus", -1, problems);
  const std::int64_t model_parallel =
      static_cast<std::int64_t>(plan.tensor) * plan.pipeline * plan.context;
  plan.data = static_cast<int>(
      whole(row, "dp", std::max<std::int64_t>(1, gpus / model_parallel), problems));
  // torchtitan's looped schedules have two stages a rank unless told otherwise.
  // Source: its distributed/pipeline.py, stages_per_rank.
  const bool looped = plan.pipeline > 1 && job.software.framework == Framework::Fsdp2 &&
                      contains(lower(row.text("notes")), "interleaved");
  const int chunks = looped ? 2 : 1;
  if (row.text("vpp").empty()) {
    job.assumptions.push_back("model chunks not stated: taken as " + std::to_string(chunks));
  }
  plan.model_chunks = static_cast<int>(whole(row, "vpp", chunks, problems));
  plan.global_batch = whole(row, "global_batch", -1, problems);
  fill_micro_batch(row, job, problems);
  if (row.text("sp").empty()) {
    plan.sequence_parallel = plan.tensor > 1 && job.software.default_sequence_parallel;
  } else {
    plan.sequence_parallel = lower(row.text("sp")) == "true";
  }
  fill_zero_stage(row, job, problems);
  fill_recompute(row, job);
  std::string assumption;
  plan.precision = precision_of(row, job, &assumption);
  if (!assumption.empty()) job.assumptions.push_back(assumption);
  const bool gpipe = contains(row.text("overlap"), "gpipe");
  plan.schedule = gpipe                   ? model::ScheduleKind::GPipe
                  : plan.model_chunks > 1 ? model::ScheduleKind::Interleaved
                                          : model::ScheduleKind::OneForwardOneBackward;
  const int slots = plan.pipeline * plan.model_chunks;
  if (plan.pipeline > 1 && job.transformer.num_layers % slots != 0) {
    plan.embedding_as_layer = plan.head_as_layer = true;
    if (model::is_layer_split_legal(job.transformer, plan)) {
      job.assumptions.push_back(model::counted(job.transformer.num_layers, "layer") + " over " +
                                std::to_string(slots) +
                                " chunks: embedding and head placed as layers");
    } else {
      plan.embedding_as_layer = plan.head_as_layer = false;
      plan.layers_per_virtual_stage = front_filled(job.transformer.num_layers, slots);
      job.assumptions.push_back(model::counted(job.transformer.num_layers, "layer") + " over " +
                                std::to_string(slots) +
                                " chunks: filled from the front, the rest with the head");
    }
  }
  if (job.transformer.experts) {
    fill_expert_tensor(row, job, problems);
  }
  fill_overlap(row, job);
}

}  // namespace megatwin::scenarios
