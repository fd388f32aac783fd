#include "scenarios/launch_settings.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/counted.h"
#include "model/parameters.h"
#include "scenarios/pipeline_layout.h"

namespace megatwin::scenarios {
namespace {

using model::Plan;
using model::Transformer;

// Reads values, and says what is no number.
class SettingReader {
 public:
  SettingReader(const LaunchSettings& settings, std::vector<std::string>& warnings)
      : settings_(settings), warnings_(warnings) {}

  // Values that cannot be read, each by its name.
  model::Diagnostics faults() const {
    model::Diagnostics faults;
    for (const auto& [name, fault] : faults_) faults.push_back(fault);
    return faults;
  }

  bool has(const std::string& name) const { return settings_.contains(name); }
  std::string text(const std::string& name) const {
    const auto found = settings_.find(name);
    return found == settings_.end() ? std::string() : found->second;
  }
  bool on(const std::string& name) const {
    const std::string value = text(name);
    return value == "true" || value == "True" || value == "1";
  }

  std::optional<std::int64_t> integer(const std::string& name) {
    if (!has(name)) return std::nullopt;
    const std::string value = text(name);
    const auto number = whole_number(value);
    constexpr std::int64_t kMax = 1'000'000'000;
    if (number && *number >= 0 && *number <= kMax) return number;
    refuse(name, value == "true" ? "has no value" : "'" + value + "' is no whole number",
           "a whole number from 0 to 1000000000");
    return std::nullopt;
  }

  std::int64_t integer_or(const std::string& name, std::int64_t otherwise) {
    return integer(name).value_or(otherwise);
  }

  // A size of the plan, at least 1 and small enough to multiply.
  int size_or(const std::string& name, int otherwise) {
    const auto value = integer(name);
    if (!value) return otherwise;
    constexpr std::int64_t kMax = 16384;
    if (*value >= 1 && *value <= kMax) return static_cast<int>(*value);
    refuse(name, std::to_string(*value) + " is no size", "a whole number from 1 to 16384");
    return otherwise;
  }

  // Of a batch: none of nothing.
  std::int64_t batch_or(const std::string& name, std::int64_t otherwise) {
    const auto value = integer(name);
    if (!value) return otherwise;
    if (*value >= 1) return *value;
    refuse(name, "a batch of 0 trains nothing", "a whole number from 1 to 1000000000");
    return otherwise;
  }

  double number_or(const std::string& name, double otherwise) const {
    const std::string value = text(name);
    double number = 0;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    return error == std::errc{} && rest == end && !value.empty() ? number : otherwise;
  }

  void warn(const std::string& text) { warnings_.push_back(text); }

 private:
  void refuse(const std::string& name, std::string message, std::string allowed) {
    faults_.emplace(name,
                    model::Diagnostic{
                        .key = name, .message = std::move(message), .allowed = std::move(allowed)});
  }

  const LaunchSettings& settings_;
  std::vector<std::string>& warnings_;
  std::map<std::string, model::Diagnostic> faults_;
};

// [0]*3+[1]*58, or a period: every n-th layer has experts.
void read_layer_pattern(SettingReader& reader, Transformer& shape) {
  const std::string text = reader.text("moe_layer_freq");
  if (text.empty() || text == "1") return;
  std::vector<bool> layers;
  std::size_t at = 0;
  const auto number = [&]() -> std::int64_t {
    std::int64_t value = -1;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (error != std::errc{}) return -1;
    at = static_cast<std::size_t>(rest - text.data());
    return value;
  };
  if (text.front() != '[' && text.front() != '(') {
    const std::int64_t period = number();
    if (period >= 1 && at == text.size()) {
      for (std::int64_t i = 0; i < shape.num_layers; ++i) layers.push_back(i % period == 0);
    }
  }
  const auto skip = [&](char c) {
    while (at < text.size() && (text[at] == c || text[at] == ' ')) ++at;
  };
  constexpr std::size_t kLayersMax = 10'000;
  while (at < text.size() && layers.size() < kLayersMax) {
    skip('+');
    skip('(');
    if (at >= text.size() || text[at] != '[') break;
    std::vector<bool> group;
    ++at;
    while (at < text.size() && text[at] != ']') {
      const std::int64_t value = number();
      if (value < 0) break;
      group.push_back(value != 0);
      skip(',');
    }
    skip(']');
    skip(')');
    std::int64_t times = 1;
    if (at < text.size() && text[at] == '*') {
      ++at;
      times = number();
    }
    for (std::int64_t i = 0; i < times && layers.size() < kLayersMax; ++i) {
      layers.insert(layers.end(), group.begin(), group.end());
    }
    skip(')');
    if (group.empty()) break;
  }
  if (std::ssize(layers) != shape.num_layers) {
    reader.warn("moe_layer_freq: '" + text + "' does not say which of the " +
                std::to_string(shape.num_layers) + " layers have experts; all are taken to");
    return;
  }
  const auto first_moe = std::find(layers.begin(), layers.end(), true);
  if (std::all_of(first_moe, layers.end(), [](bool moe) { return moe; })) {
    shape.num_dense_first_layers = first_moe - layers.begin();
  } else {
    shape.layer_is_moe = layers;
  }
}

void read_experts(SettingReader& reader, Transformer& shape) {
  const auto experts = reader.integer("num_experts");
  if (!experts || *experts == 0) return;
  model::MixtureOfExperts moe;
  moe.num_experts = *experts;
  moe.experts_per_token = reader.integer_or("moe_router_topk", 2);
  moe.expert_ffn_size = reader.integer_or("moe_ffn_hidden_size", shape.ffn_hidden_size);
  moe.shared_expert_ffn_size = reader.integer_or("moe_shared_expert_intermediate_size", 0);
  moe.router_bias = reader.on("moe_router_enable_expert_bias");
  shape.experts = moe;
  read_layer_pattern(reader, shape);
}

void read_latent(SettingReader& reader, Transformer& shape) {
  if (!reader.on("multi_latent_attention")) return;
  model::LatentAttention latent;
  latent.q_lora_rank = reader.integer_or("q_lora_rank", 0);
  latent.kv_lora_rank = reader.integer_or("kv_lora_rank", 32);
  latent.qk_nope_head_dim = reader.integer_or("qk_head_dim", 128);
  latent.qk_rope_head_dim = reader.integer_or("qk_pos_emb_head_dim", 64);
  latent.v_head_dim = reader.integer_or("v_head_dim", 128);
  shape.latent = latent;
  shape.head_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim;
  shape.qk_norm = false;  // Those of the latent vectors are counted with them.
}

void read_heads(SettingReader& reader, Transformer& shape) {
  shape.num_key_value_heads = shape.num_attention_heads;
  const auto groups = reader.integer("num_query_groups");
  if (groups && *groups > 0 && reader.on("group_query_attention")) {
    shape.num_key_value_heads = *groups;
  } else if (groups && *groups > 1 && *groups != shape.num_attention_heads) {
    reader.warn("num_query_groups " + std::to_string(*groups) +
                " has no effect without group_query_attention");
  }
  shape.head_dim = reader.integer_or("kv_channels", shape.hidden_size / shape.num_attention_heads);
}

std::int64_t vocabulary(SettingReader& reader) {
  if (const auto size = reader.integer("vocab_size")) return *size;
  if (reader.text("tokenizer_type").find("GPT2BPE") != std::string::npos) {
    reader.warn("vocab_size is not stated: 50257 is taken, that of the GPT-2 tokenizer");
    return 50257;
  }
  return 0;
}

void read_shape(SettingReader& reader, MegatronLaunch& launch) {
  Transformer shape;
  shape.num_layers = reader.integer_or("num_layers", 0);
  shape.hidden_size = reader.integer_or("hidden_size", 0);
  shape.num_attention_heads = reader.integer_or("num_attention_heads", 0);
  if (shape.num_layers == 0 || shape.hidden_size == 0 || shape.num_attention_heads == 0) {
    reader.warn(
        "num_layers, hidden_size or num_attention_heads is not stated, so there is no "
        "model to count");
    return;
  }
  constexpr std::int64_t kWidthMax = 1'000'000, kLayersMax = 10'000;
  if (shape.hidden_size > kWidthMax || shape.num_layers > kLayersMax) {
    reader.warn("the model is larger than any: its shape is not taken");
    return;
  }
  shape.name = shape.family = "megatron-gpt";
  const bool gated = reader.on("swiglu");
  shape.activation = gated                       ? model::ActivationKind::SwiGlu
                     : reader.on("squared_relu") ? model::ActivationKind::SquaredRelu
                                                 : model::ActivationKind::Gelu;
  // Megatron's default for a gate is two thirds of 4h, in multiples of 64.
  const std::int64_t ffn = gated ? shape.hidden_size * 8 / 3 / 64 * 64 : 4 * shape.hidden_size;
  shape.ffn_hidden_size = reader.integer_or("ffn_hidden_size", ffn);
  read_heads(reader, shape);
  shape.sequence_length = reader.integer_or("seq_length", 0);
  shape.max_position_embeddings =
      reader.integer_or("max_position_embeddings", shape.sequence_length);
  const bool rms = reader.text("normalization") == "RMSNorm";
  shape.norm = rms ? model::NormKind::RmsNorm : model::NormKind::LayerNorm;
  shape.norm_bias = !rms;
  const std::string position = reader.text("position_embedding_type");
  shape.position = position == "rope" || position == "yarn" || position == "mrope" ||
                           reader.on("use_rotary_position_embeddings")
                       ? model::PositionKind::Rotary
                   : position == "none" ? model::PositionKind::None
                                        : model::PositionKind::Learned;
  shape.tied_embeddings = !reader.on("untie_embeddings_and_output_weights");
  const bool bias = !reader.on("disable_bias_linear");
  shape.mlp_bias = shape.attention_output_bias = bias;
  shape.qkv_bias = bias || reader.on("add_qkv_bias");
  shape.qk_norm = reader.on("qk_layernorm");
  shape.dropout = reader.number_or("hidden_dropout", 0.1);
  shape.num_mtp_layers = reader.integer_or("mtp_num_layers", 0);
  read_latent(reader, shape);
  read_experts(reader, shape);
  shape.vocab_size = vocabulary(reader);
  if (shape.vocab_size == 0) {
    reader.warn(
        "vocab_size is not stated (the tokenizer decides it), so parameters are not "
        "counted");
    return;
  }
  const std::int64_t multiple = reader.integer_or("make_vocab_size_divisible_by", 128);
  launch.padded_vocab_size = model::padded_vocab_size(
      shape,
      {.tensor = launch.plan.tensor, .vocab_divisible_by = std::max<std::int64_t>(1, multiple)});
  launch.transformer = shape;
}

// Layers stage by stage; the number of stages says how many chunks a rank has.
void read_layout(SettingReader& reader, Plan& plan) {
  const std::string text = reader.text("pipeline_model_parallel_layout");
  const auto layers = read_pipeline_layout(text);
  const std::size_t stages = layers ? layers->size() : 0;
  const auto pipeline = static_cast<std::size_t>(plan.pipeline);
  if (stages == 0 || stages % pipeline != 0 || stages / pipeline > 1000) {
    reader.warn("pipeline_model_parallel_layout '" + text + "' is none for " +
                model::counted(plan.pipeline, "stage") +
                ", or has its ends elsewhere than at the ends");
    return;
  }
  plan.model_chunks = static_cast<int>(stages / pipeline);
  plan.layers_per_virtual_stage = *layers;
}

void read_chunks(SettingReader& reader, Plan& plan) {
  const auto stages = reader.integer("num_virtual_stages_per_pipeline_rank");
  const auto layers_per_stage = reader.integer("num_layers_per_virtual_pipeline_stage");
  if (stages && *stages >= 1 && *stages <= 1000) {
    plan.model_chunks = static_cast<int>(*stages);
  } else if (layers_per_stage && *layers_per_stage >= 1) {
    const std::int64_t layers = reader.integer_or("num_layers", 0);
    const std::int64_t per_rank = layers / plan.pipeline;
    if (per_rank % *layers_per_stage == 0 && per_rank > 0) {
      plan.model_chunks =
          static_cast<int>(std::min<std::int64_t>(per_rank / *layers_per_stage, 1000));
    } else {
      reader.warn("num_layers_per_virtual_pipeline_stage " + std::to_string(*layers_per_stage) +
                  " does not divide the " + model::counted(per_rank, "layer") + " of a stage");
    }
  }
  if (reader.has("pipeline_model_parallel_layout")) read_layout(reader, plan);
  if (plan.model_chunks > 1) plan.schedule = model::ScheduleKind::Interleaved;
}

void read_recompute(SettingReader& reader, Plan& plan) {
  const std::string granularity = reader.text("recompute_granularity");
  if (granularity == "full" || reader.on("checkpoint_activations")) {
    plan.recompute = model::RecomputeKind::Full;
    if (reader.text("recompute_method") == "block") {
      plan.recompute_layers = static_cast<int>(
          std::min<std::int64_t>(reader.integer_or("recompute_num_layers", 0), 10'000));
    }
  } else if (granularity == "selective" || reader.on("recompute_activations")) {
    plan.recompute = model::RecomputeKind::Selective;
  }
  if (reader.on("checkpoint_activations")) {
    reader.warn("checkpoint_activations is an old spelling of recompute_granularity full");
  }
  if (reader.on("recompute_activations")) {
    reader.warn("recompute_activations is a short form of recompute_granularity selective");
  }
}

void read_precision(SettingReader& reader, Plan& plan) {
  plan.precision = reader.on("bf16")   ? model::Precision::Bf16
                   : reader.on("fp16") ? model::Precision::Fp16
                                       : model::Precision::Fp32;
  if (reader.on("fp8_hybrid")) reader.warn("fp8_hybrid is an old spelling of fp8_format hybrid");
  if (reader.has("fp8_format") || reader.on("fp8_hybrid")) {
    const std::string recipe = reader.text("fp8_recipe");
    plan.precision = recipe == "blockwise"    ? model::Precision::Fp8Block
                     : recipe == "mxfp8"      ? model::Precision::Mxfp8
                     : recipe == "tensorwise" ? model::Precision::Fp8Current
                                              : model::Precision::Fp8PerTensor;
  }
  if (reader.has("fp4_format")) plan.precision = model::Precision::Nvfp4;
  if (plan.precision == model::Precision::Fp32) {
    reader.warn("neither bf16 nor fp16 is asked for: parameters and products are fp32");
  }
}

void read_zero(SettingReader& reader, Plan& plan) {
  if (reader.on("use_distributed_optimizer")) plan.zero_stage = 1;
  const std::string strategy = reader.text("data_parallel_sharding_strategy");
  if (strategy == "optim") plan.zero_stage = 1;
  if (strategy == "optim_grads") plan.zero_stage = 2;
  if (strategy == "optim_grads_params" || reader.on("use_torch_fsdp2")) plan.zero_stage = 3;
}

void read_data(SettingReader& reader, MegatronLaunch& launch) {
  Plan& plan = launch.plan;
  plan.data = 0;
  const std::int64_t inner = std::int64_t{plan.tensor} * plan.pipeline * plan.context;
  if (!launch.gpus) {
    reader.warn("the number of GPUs is not stated, so the data-parallel size is open");
    return;
  }
  if (*launch.gpus % inner != 0) {
    reader.warn(std::to_string(*launch.gpus) +
                " GPUs are no multiple of tensor · pipeline · "
                "context = " +
                std::to_string(inner));
    return;
  }
  plan.data = static_cast<int>(*launch.gpus / inner);
  const std::int64_t expert_ranks =
      std::int64_t{plan.effective_expert_tensor()} * plan.expert * plan.pipeline;
  if (*launch.gpus % expert_ranks != 0) {
    reader.warn(std::to_string(*launch.gpus) +
                " GPUs are no multiple of expert-tensor · expert · "
                "pipeline = " +
                std::to_string(expert_ranks));
  }
}

void read_plan(SettingReader& reader, MegatronLaunch& launch) {
  Plan& plan = launch.plan;
  plan.tensor = reader.size_or("tensor_model_parallel_size", 1);
  plan.pipeline = reader.size_or("pipeline_model_parallel_size", 1);
  plan.context = reader.size_or("context_parallel_size", 1);
  plan.expert = reader.size_or("expert_model_parallel_size", 1);
  plan.expert_tensor = reader.size_or("expert_tensor_parallel_size", 0);
  read_chunks(reader, plan);
  plan.micro_batch = reader.batch_or("micro_batch_size", 1);
  read_data(reader, launch);
  const std::int64_t one_each = plan.micro_batch * std::max(plan.data, 1);
  plan.global_batch = reader.batch_or("global_batch_size", one_each);
  plan.sequence_parallel = reader.on("sequence_parallel");
  if (plan.sequence_parallel && plan.tensor == 1) {
    reader.warn("sequence_parallel has no effect with a tensor-parallel size of 1");
    plan.sequence_parallel = false;
  }
  read_recompute(reader, plan);
  read_precision(reader, plan);
  read_zero(reader, plan);
  plan.overlap_grad_reduce = reader.on("overlap_grad_reduce");
  plan.overlap_param_gather = reader.on("overlap_param_gather");
  plan.overlap_tensor_parallel = reader.on("tp_comm_overlap");
  plan.overlap_p2p = plan.model_chunks > 1 && !reader.on("no_overlap_p2p_communication");
  if (reader.on("use_tp_pp_dp_mapping")) plan.rank_order = "tp-cp-ep-pp-dp";
  plan.embedding_as_layer = reader.on("account_for_embedding_in_pipeline_split");
  plan.head_as_layer = reader.on("account_for_loss_in_pipeline_split");
  const std::string dispatcher = reader.text("moe_token_dispatcher_type");
  // Megatron's default gathers all tokens.
  plan.dispatcher = dispatcher == "alltoall" ? model::ExpertDispatcher::AllToAll
                    : dispatcher == "flex"   ? model::ExpertDispatcher::DeepEp
                                             : model::ExpertDispatcher::AllGather;
  if (plan.data > 0 && plan.global_batch % one_each != 0) {
    reader.warn("global_batch_size " + std::to_string(plan.global_batch) +
                " is no multiple of micro-batch · data = " + std::to_string(one_each));
  }
}

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end || text.empty()) return std::nullopt;
  return number;
}

model::Diagnostics apply_settings(const LaunchSettings& settings, MegatronLaunch& launch) {
  SettingReader reader(settings, launch.warnings);
  read_plan(reader, launch);
  read_shape(reader, launch);
  // Where the shape is not complete, what else is wrong with it is told at the same time.
  for (const char* name : {"num_experts", "ffn_hidden_size", "seq_length", "kv_channels",
                           "num_query_groups", "max_position_embeddings", "vocab_size"}) {
    reader.integer(name);
  }
  return reader.faults();
}

}  // namespace megatwin::scenarios
