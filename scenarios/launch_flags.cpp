// Which of Megatron-LM's flags count, and which of them take no value.
#include <algorithm>
#include <array>
#include <string_view>

#include "scenarios/launch_settings.h"

namespace megatwin::scenarios {
namespace {

// Everything that changes a shape, a plan or a cost; other flags are listed as ignored.
constexpr std::array<std::string_view, 73> kBearing = {
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "add_qkv_bias",
    "attention_dropout",
    "bf16",
    "checkpoint_activations",
    "context_parallel_size",
    "cross_entropy_loss_fusion",
    "data_parallel_sharding_strategy",
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "disable_bias_linear",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "ffn_hidden_size",
    "fp16",
    "fp4_format",
    "fp8_format",
    "fp8_hybrid",
    "fp8_recipe",
    "global_batch_size",
    "group_query_attention",
    "hidden_dropout",
    "hidden_size",
    "kv_channels",
    "kv_lora_rank",
    "make_vocab_size_divisible_by",
    "max_position_embeddings",
    "micro_batch_size",
    "microbatch_group_size_per_virtual_pipeline_stage",
    "moe_ffn_hidden_size",
    "moe_grouped_gemm",
    "moe_layer_freq",
    "moe_router_enable_expert_bias",
    "moe_router_topk",
    "moe_shared_expert_intermediate_size",
    "moe_token_dispatcher_type",
    "mtp_num_layers",
    "multi_latent_attention",
    "no_async_tensor_model_parallel_allreduce",
    "no_gradient_accumulation_fusion",
    "no_overlap_p2p_communication",
    "normalization",
    "num_attention_heads",
    "num_experts",
    "num_layers",
    "num_layers_per_virtual_pipeline_stage",
    "num_query_groups",
    "num_virtual_stages_per_pipeline_rank",
    "openai_gelu",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "pipeline_model_parallel_layout",
    "pipeline_model_parallel_size",
    "position_embedding_type",
    "q_lora_rank",
    "qk_head_dim",
    "qk_layernorm",
    "qk_pos_emb_head_dim",
    "recompute_activations",
    "recompute_granularity",
    "recompute_method",
    "recompute_modules",
    "recompute_num_layers",
    "rotary_base",
    "seq_length",
    "sequence_parallel",
    "squared_relu",
    "swiglu",
    "tensor_model_parallel_size",
    "tie_embeddings",
    "tokenizer_type",
    "untie_embeddings_and_output_weights"};
constexpr std::array<std::string_view, 13> kBearingToo = {"tp_comm_overlap",
                                                          "transformer_impl",
                                                          "use_distributed_optimizer",
                                                          "use_flash_attn",
                                                          "use_megatron_fsdp",
                                                          "use_mcore_models",
                                                          "use_rotary_position_embeddings",
                                                          "use_torch_fsdp2",
                                                          "use_tp_pp_dp_mapping",
                                                          "v_head_dim",
                                                          "vocab_size",
                                                          "num_moe_layers",
                                                          "moe_extended_tp"};

constexpr std::array<std::string_view, 33> kSwitches = {"account_for_embedding_in_pipeline_split",
                                                        "account_for_loss_in_pipeline_split",
                                                        "add_qkv_bias",
                                                        "bf16",
                                                        "checkpoint_activations",
                                                        "cross_entropy_loss_fusion",
                                                        "disable_bias_linear",
                                                        "fp16",
                                                        "fp8_hybrid",
                                                        "group_query_attention",
                                                        "moe_grouped_gemm",
                                                        "moe_router_enable_expert_bias",
                                                        "multi_latent_attention",
                                                        "no_async_tensor_model_parallel_allreduce",
                                                        "no_gradient_accumulation_fusion",
                                                        "no_overlap_p2p_communication",
                                                        "openai_gelu",
                                                        "overlap_grad_reduce",
                                                        "overlap_param_gather",
                                                        "qk_layernorm",
                                                        "recompute_activations",
                                                        "sequence_parallel",
                                                        "squared_relu",
                                                        "swiglu",
                                                        "tp_comm_overlap",
                                                        "untie_embeddings_and_output_weights",
                                                        "use_distributed_optimizer",
                                                        "use_flash_attn",
                                                        "use_mcore_models",
                                                        "use_megatron_fsdp",
                                                        "use_rotary_position_embeddings",
                                                        "use_torch_fsdp2",
                                                        "use_tp_pp_dp_mapping"};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool bears_on_cost(std::string_view name) {
  return holds(kBearing, name) || holds(kBearingToo, name);
}
// One letter too few, too many or wrong, or two neighbours exchanged: what lies further off is most
// often another flag of Megatron-LM.
std::string bearing_flag_near(const std::string& name) {
  std::string near;
  const auto look = [&](std::string_view flag) {
    const std::size_t longer = std::max(name.size(), flag.size());
    const std::size_t shorter = std::min(name.size(), flag.size());
    if (longer < 6 || longer - shorter > 1) return;
    const auto begins = std::mismatch(name.begin(), name.end(), flag.begin(), flag.end());
    const auto ends = std::mismatch(name.rbegin(), name.rend(), flag.rbegin(), flag.rend());
    const auto same = static_cast<std::size_t>(begins.first - name.begin()) +
                      static_cast<std::size_t>(ends.first - name.rbegin());
    const bool exchanged = longer == shorter && same + 2 == longer &&
                           *begins.first == *ends.second && *begins.second == *ends.first;
    if (same + 1 >= longer || exchanged) near = flag;
  };
  for (const std::string_view flag : kBearing) look(flag);
  for (const std::string_view flag : kBearingToo) look(flag);
  return near;
}
bool is_switch(std::string_view name) { return holds(kSwitches, name); }

}  // namespace megatwin::scenarios
