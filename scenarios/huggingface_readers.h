// One function an architecture: reads what is particular to it into a transformer that has the
// common sizes. Defaults are those of the configuration classes in Hugging Face transformers 4.57
// (src/transformers/models/*/configuration_*.py), which write a key only where it differs from
// them.
#ifndef MEGATWIN_SCENARIOS_HUGGINGFACE_READERS_H_
#define MEGATWIN_SCENARIOS_HUGGINGFACE_READERS_H_

#include "model/transformer.h"
#include "scenarios/huggingface_config.h"

namespace megatwin::scenarios {

// Dense models with RMSNorm: huggingface_dense.cpp.
void read_llama(HuggingfaceConfig& config, model::Transformer& transformer);
void read_mistral(HuggingfaceConfig& config, model::Transformer& transformer);
void read_qwen2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_qwen3(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gemma(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gemma2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gemma3(HuggingfaceConfig& config, model::Transformer& transformer);
void read_phi3(HuggingfaceConfig& config, model::Transformer& transformer);
void read_chatglm(HuggingfaceConfig& config, model::Transformer& transformer);
void read_glm(HuggingfaceConfig& config, model::Transformer& transformer);
void read_glm4(HuggingfaceConfig& config, model::Transformer& transformer);
void read_olmo2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_olmo3(HuggingfaceConfig& config, model::Transformer& transformer);
void read_granite(HuggingfaceConfig& config, model::Transformer& transformer);
void read_smollm3(HuggingfaceConfig& config, model::Transformer& transformer);
void read_seed_oss(HuggingfaceConfig& config, model::Transformer& transformer);
void read_ernie4_5(HuggingfaceConfig& config, model::Transformer& transformer);
void read_exaone4(HuggingfaceConfig& config, model::Transformer& transformer);
void read_arcee(HuggingfaceConfig& config, model::Transformer& transformer);
void read_internlm2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_hunyuan_dense(HuggingfaceConfig& config, model::Transformer& transformer);

// Dense models with LayerNorm: huggingface_layer_norm.cpp.
void read_phi(HuggingfaceConfig& config, model::Transformer& transformer);
void read_falcon(HuggingfaceConfig& config, model::Transformer& transformer);
void read_bloom(HuggingfaceConfig& config, model::Transformer& transformer);
void read_opt(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gpt2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gpt_neox(HuggingfaceConfig& config, model::Transformer& transformer);
void read_nemotron(HuggingfaceConfig& config, model::Transformer& transformer);
void read_starcoder2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_mpt(HuggingfaceConfig& config, model::Transformer& transformer);
void read_cohere(HuggingfaceConfig& config, model::Transformer& transformer);
void read_cohere2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_stablelm(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gptj(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gpt_bigcode(HuggingfaceConfig& config, model::Transformer& transformer);

// Mixtures of experts: huggingface_experts.cpp.
void read_mixtral(HuggingfaceConfig& config, model::Transformer& transformer);
void read_qwen2_moe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_qwen3_moe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_gpt_oss(HuggingfaceConfig& config, model::Transformer& transformer);
void read_deepseek(HuggingfaceConfig& config, model::Transformer& transformer);
void read_deepseek_moe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_glm4_moe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_llama4(HuggingfaceConfig& config, model::Transformer& transformer);
void read_phimoe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_olmoe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_granitemoe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_granitemoeshared(HuggingfaceConfig& config, model::Transformer& transformer);
void read_dbrx(HuggingfaceConfig& config, model::Transformer& transformer);
void read_ernie4_5_moe(HuggingfaceConfig& config, model::Transformer& transformer);
void read_minimax_m2(HuggingfaceConfig& config, model::Transformer& transformer);
void read_dots1(HuggingfaceConfig& config, model::Transformer& transformer);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HUGGINGFACE_READERS_H_
