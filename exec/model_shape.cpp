#include "exec/model_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "exec/host_layout.h"
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
  refuse_if(transformer.latent.has_value(), "latent attention");
  if (transformer.experts) {
    const model::MixtureOfExperts& experts = *transformer.experts;
    refuse_if(experts.shared_expert_ffn_size > 0, "shared experts");
    refuse_if(experts.router_bias || experts.expert_bias, "biases of routers or experts");
    refuse_if(experts.experts_per_token < 1 || experts.experts_per_token > experts.num_experts,
              "more experts a token than there are");
    refuse_if(transformer.mlp_bias, "experts and biases of the feed-forward");
  }
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

bool has_dense_layers(const Transformer& transformer) {
  for (std::int64_t layer = 0; layer < transformer.num_layers; ++layer) {
    if (!transformer.is_moe_layer(layer)) {
      return true;
    }
  }
  return false;
}

void add_expert_problems(const Transformer& transformer, const Plan& plan,
                         std::vector<std::string>& problems) {
  const auto refuse_if = [&](bool condition, const std::string& why) {
    if (condition) {
      problems.push_back(why);
    }
  };
  if (!transformer.experts) {
    refuse_if(plan.expert != 1, "expert parallelism for a model without experts");
    return;
  }
  const model::MixtureOfExperts& experts = *transformer.experts;
  const int expert_tensor = plan.effective_expert_tensor();
  refuse_if(plan.tensor > 1 && !plan.sequence_parallel,
            "experts under tensor parallelism need sequence parallelism");
  refuse_if(experts.num_experts % plan.expert != 0,
            "expert-parallel size " + std::to_string(plan.expert) + " does not divide the " +
                std::to_string(experts.num_experts) + " experts");
  refuse_if(experts.expert_ffn_size % expert_tensor != 0,
            "expert-tensor-parallel size " + std::to_string(expert_tensor) +
                " does not divide the width of an expert " +
                std::to_string(experts.expert_ffn_size));
  refuse_if(plan.tensor * plan.context * plan.data % (plan.expert * expert_tensor) != 0,
            "expert- times expert-tensor-parallel size " +
                std::to_string(plan.expert * expert_tensor) +
                " does not divide the ranks of a stage " +
                std::to_string(plan.tensor * plan.context * plan.data));
}

void add_plan_problems(const Transformer& transformer, const Plan& plan,
                       std::vector<std::string>& problems) {
  const auto refuse_if = [&](bool condition, const std::string& why) {
    if (condition) {
      problems.push_back(why);
    }
  };
  refuse_if(plan.recompute == model::RecomputeKind::PerOp,
            "the host world recomputes attention or whole layers, not single operations");
  refuse_if(plan.recompute_layers < 0, "a negative number of recomputed layers");
  const auto must_divide = [&](std::int64_t value, const char* what) {
    refuse_if(value % plan.tensor != 0, "tensor-parallel size " + std::to_string(plan.tensor) +
                                            " does not divide " + what + " " +
                                            std::to_string(value));
  };
  must_divide(transformer.num_attention_heads, "the attention heads");
  must_divide(transformer.num_key_value_heads, "the key-value heads");
  if (has_dense_layers(transformer)) {
    must_divide(transformer.ffn_hidden_size, "the feed-forward width");
  }
  must_divide(transformer.vocab_size, "the vocabulary");
  if (plan.sequence_parallel) {
    must_divide(plan.micro_batch * transformer.sequence_length / plan.context,
                "the tokens of a micro-batch");
  }
  refuse_if(plan.context > 1 && transformer.sequence_length % (std::int64_t{2} * plan.context) != 0,
            "twice the context-parallel size " + std::to_string(plan.context) +
                " does not divide the " + std::to_string(transformer.sequence_length) +
                " tokens of a sequence");
  add_expert_problems(transformer, plan, problems);
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

// Sides of one size are told once.
void add_side_problems(const Transformer& transformer, const Plan& plan,
                       std::vector<std::string>& problems) {
  using model::PipelineSide;
  const Plan forward = instance_plan(plan, PipelineSide::Forward);
  const Plan backward = instance_plan(plan, PipelineSide::Backward);
  if (forward.tensor == backward.tensor) {
    add_plan_problems(transformer, forward, problems);
    return;
  }
  for (const auto& [name, side] :
       {std::pair("forward ranks: ", &forward), std::pair("backward ranks: ", &backward)}) {
    std::vector<std::string> of_side;
    add_plan_problems(transformer, *side, of_side);
    for (const std::string& problem : of_side) {
      problems.push_back(name + problem);
    }
  }
}

}  // namespace

std::vector<std::string> host_problems(const Transformer& transformer, const Plan& plan) {
  std::vector<std::string> problems;
  add_model_problems(transformer, problems);
  if (plan.schedule != model::ScheduleKind::Decoupled) {
    add_plan_problems(transformer, plan, problems);
    return problems;
  }
  add_side_problems(transformer, plan, problems);
  return problems.empty() ? decoupled_problems(transformer, plan) : problems;
}

std::int64_t ModelShape::expert_capacity() const {
  if (experts.settings.capacity_factor <= 0) {
    return 0;
  }
  const double share = static_cast<double>(micro_batch * sequence * experts.per_token) /
                       static_cast<double>(experts.count);
  return static_cast<std::int64_t>(std::ceil(experts.settings.capacity_factor * share));
}

std::int64_t ModelShape::arrivals_max() const {
  const std::int64_t local = experts.local_count();
  const std::int64_t any = experts.parallel * local_tokens() * std::min(experts.per_token, local);
  const std::int64_t capacity = expert_capacity();
  return capacity == 0 ? any : std::min(any, experts.parallel * local * capacity);
}

std::vector<std::int64_t> local_positions(const ModelShape& shape, int context_member) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(shape.local_sequence()));
  if (shape.context == 1) {
    std::iota(positions.begin(), positions.end(), 0);
    return positions;
  }
  const std::int64_t chunk = shape.local_sequence() / 2;
  const auto half = positions.begin() + chunk;
  std::iota(positions.begin(), half, context_member * chunk);
  std::iota(half, positions.end(), (2 * shape.context - 1 - context_member) * chunk);
  return positions;
}

ModelShape model_shape(const Transformer& transformer, const Plan& plan,
                       const ExpertSettings& experts) {
  ModelShape shape = {.num_layers = transformer.num_layers,
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
                      .tied = transformer.tied_embeddings,
                      .tensor = plan.tensor,
                      .context = plan.context,
                      .sequence_parallel = plan.sequence_parallel && plan.tensor > 1,
                      .zero_stage = plan.zero_stage,
                      .replicas = plan.data * plan.context,
                      .expert_replicas = plan.expert_data(),
                      .recompute = plan.recompute,
                      .recompute_layers = plan.recompute_layers};
  if (!transformer.experts) {
    return shape;
  }
  for (std::int64_t layer = 0; layer < transformer.num_layers; ++layer) {
    shape.is_moe.push_back(transformer.is_moe_layer(layer));
  }
  shape.experts = {.count = transformer.experts->num_experts,
                   .per_token = transformer.experts->experts_per_token,
                   .ffn = transformer.experts->expert_ffn_size,
                   .parallel = plan.expert,
                   .tensor = plan.effective_expert_tensor(),
                   .settings = experts};
  return shape;
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
