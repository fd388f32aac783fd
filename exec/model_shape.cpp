#include "exec/model_shape.h"

#include <numeric>

#include "model/assert.h"

namespace megatwin::exec {
namespace {

using model::ActivationKind;
using model::NormKind;
using model::Plan;
using model::PositionKind;
using model::Transformer;

// What the host's layers cannot express.
void add_model_problems(const Transformer& transformer, std::vector<std::string>& problems) {
  const auto refuse_if = [&](bool condition, const char* what) {
    if (condition) {
      problems.push_back(std::string("the host world does not train models with ") + what);
    }
  };
  refuse_if(transformer.activation != ActivationKind::Gelu &&
                transformer.activation != ActivationKind::SwiGlu,
            "an activation other than GELU and SwiGLU");
  refuse_if(
      transformer.position != PositionKind::Learned && transformer.position != PositionKind::Rotary,
      "positions other than learned and rotary");
  refuse_if(transformer.position == PositionKind::Learned &&
                transformer.max_position_embeddings < transformer.sequence_length,
            "fewer learned positions than tokens in a sequence");
  refuse_if(transformer.tied_embeddings, "tied embeddings");
  refuse_if(transformer.latent.has_value(), "latent attention");
  refuse_if(transformer.experts.has_value(), "experts");
  refuse_if(transformer.qk_norm, "norms on queries and keys");
  refuse_if(transformer.parallel_block, "parallel blocks");
  refuse_if(
      transformer.norms_per_layer != 2 || !transformer.final_norm || transformer.embedding_norm,
      "norms other than two a layer and a last one");
  refuse_if(transformer.sliding_window != 0, "a sliding window");
  refuse_if(transformer.attention_sinks || transformer.attention_output_gate,
            "attention sinks or gates");
  refuse_if(transformer.embedding_size != 0, "projected embeddings");
  refuse_if(transformer.head_bias, "a bias of the output head");
  refuse_if(transformer.dropout > 0, "dropout");
  refuse_if(transformer.num_mtp_layers > 0, "multi-token prediction");
}

void add_plan_problems(const Transformer& transformer, const Plan& plan,
                       std::vector<std::string>& problems) {
  const auto refuse_if = [&](bool condition, const std::string& why) {
    if (condition) {
      problems.push_back(why);
    }
  };
  refuse_if(plan.context != 1, "the host world has no context parallelism");
  refuse_if(plan.expert != 1, "the host world has no expert parallelism");
  refuse_if(plan.zero_stage > 1,
            "the host world shards the optimizer only: ZeRO stage 0 or 1, not " +
                std::to_string(plan.zero_stage));
  refuse_if(plan.recompute != model::RecomputeKind::None, "the host world does not recompute");
  const auto must_divide = [&](std::int64_t value, const char* what) {
    refuse_if(value % plan.tensor != 0, "tensor-parallel size " + std::to_string(plan.tensor) +
                                            " does not divide " + what + " " +
                                            std::to_string(value));
  };
  must_divide(transformer.num_attention_heads, "the attention heads");
  must_divide(transformer.num_key_value_heads, "the key-value heads");
  must_divide(transformer.ffn_hidden_size, "the feed-forward width");
  must_divide(transformer.vocab_size, "the vocabulary");
  if (plan.sequence_parallel) {
    must_divide(plan.micro_batch * transformer.sequence_length, "the tokens of a micro-batch");
  }
  refuse_if(plan.global_batch % (plan.micro_batch * plan.data) != 0,
            "micro-batch size times data-parallel size " +
                std::to_string(plan.micro_batch * plan.data) +
                " does not divide the global batch " + std::to_string(plan.global_batch));
  const int stages = plan.pipeline * plan.model_chunks;
  if (plan.layers_per_virtual_stage.empty()) {
    refuse_if(transformer.num_layers % stages != 0,
              std::to_string(transformer.num_layers) + " layers do not divide into " +
                  std::to_string(stages) + " virtual stages; say how many each has");
    return;
  }
  const auto& layers = plan.layers_per_virtual_stage;
  refuse_if(
      std::ssize(layers) != stages ||
          std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) != transformer.num_layers,
      "the layers of the virtual stages do not sum to the model's");
}

}  // namespace

std::vector<std::string> host_problems(const Transformer& transformer, const Plan& plan) {
  std::vector<std::string> problems;
  add_model_problems(transformer, problems);
  add_plan_problems(transformer, plan, problems);
  return problems;
}

ModelShape model_shape(const Transformer& transformer, const Plan& plan) {
  return {.num_layers = transformer.num_layers,
          .hidden = transformer.hidden_size,
          .ffn = transformer.ffn_hidden_size,
          .heads = transformer.num_attention_heads,
          .kv_heads = transformer.num_key_value_heads,
          .head_dim = transformer.head_dim,
          .vocab = transformer.vocab_size,
          .sequence = transformer.sequence_length,
          .micro_batch = plan.micro_batch,
          .centred_norm = transformer.norm == NormKind::LayerNorm,
          .norm_bias = transformer.norm_bias,
          .gated = transformer.activation == ActivationKind::SwiGlu,
          .rotary = transformer.position == PositionKind::Rotary,
          .qkv_bias = transformer.qkv_bias,
          .out_bias = transformer.attention_output_bias,
          .mlp_bias = transformer.mlp_bias,
          .tensor = plan.tensor,
          .sequence_parallel = plan.sequence_parallel && plan.tensor > 1};
}

std::vector<int> layers_of_virtual_stages(const Transformer& transformer, const Plan& plan) {
  if (!plan.layers_per_virtual_stage.empty()) {
    return plan.layers_per_virtual_stage;
  }
  const int stages = plan.pipeline * plan.model_chunks;
  MEGATWIN_ASSERT(transformer.num_layers % stages == 0, transformer.num_layers, " over ", stages);
  return std::vector<int>(static_cast<std::size_t>(stages),
                          static_cast<int>(transformer.num_layers / stages));
}

}  // namespace megatwin::exec
