// Which architecture is read by which function.
#include "scenarios/huggingface_config.h"
#include "scenarios/huggingface_readers.h"

namespace megatwin::scenarios {

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"llama", "Llama", read_llama},
      {"mistral", "Mistral", read_mistral},
      {"mixtral", "Mixtral", read_mixtral},
      {"qwen2", "Qwen2", read_qwen2},
      {"qwen2_moe", "Qwen2Moe", read_qwen2_moe},
      {"qwen3", "Qwen3", read_qwen3},
      {"qwen3_moe", "Qwen3Moe", read_qwen3_moe},
      {"gemma", "Gemma", read_gemma},
      {"gemma2", "Gemma2", read_gemma2},
      {"gemma3_text", "Gemma3", read_gemma3},
      {"phi3", "Phi3", read_phi3},
      {"phi", "Phi", read_phi},
      {"falcon", "Falcon", read_falcon},
      {"RefinedWeb", "RW", read_falcon},
      {"RefinedWebModel", "", read_falcon},
      {"bloom", "Bloom", read_bloom},
      {"opt", "OPT", read_opt},
      {"gpt2", "GPT2LMHead", read_gpt2},
      {"gpt_neox", "GPTNeoX", read_gpt_neox},
      {"gpt_oss", "GptOss", read_gpt_oss},
      {"deepseek_v2", "DeepseekV2", read_deepseek},
      {"deepseek_v3", "DeepseekV3", read_deepseek},
      {"kimi_k2", "", read_deepseek},
      {"chatglm", "ChatGLM", read_chatglm},
      {"glm", "Glm", read_glm},
      {"glm4", "Glm4", read_glm4},
      {"glm4_moe", "Glm4Moe", read_glm4_moe},
      {"olmo2", "Olmo2", read_olmo2},
      {"nemotron", "Nemotron", read_nemotron},
      {"starcoder2", "Starcoder2", read_starcoder2},
      {"mpt", "MPT", read_mpt},
      {"llama4_text", "Llama4", read_llama4},
  };
  return all;
}

}  // namespace megatwin::scenarios
