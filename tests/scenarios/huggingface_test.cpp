#include "scenarios/huggingface.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"
#include "tests/scenarios/published_config.h"

namespace megatwin::scenarios {
namespace {

using model::Transformer;

// Keys as in the published files, counts as Hugging Face shows them for the checkpoints.
const Published kPublished[] = {
    {"gpt2", 124439808,
     R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
         "n_ctx": 1024, "vocab_size": 50257, "activation_function": "gelu_new"})"},
    {"gpt-neox-20b", 20554567680,
     R"({"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44,
         "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432,
         "hidden_act": "gelu_fast", "tie_word_embeddings": false})"},
    {"opt-125m", 125239296,
     R"({"model_type": "opt", "hidden_size": 768, "num_hidden_layers": 12,
         "num_attention_heads": 12, "ffn_dim": 3072, "vocab_size": 50272,
         "max_position_embeddings": 2048, "word_embed_proj_dim": 768,
         "do_layer_norm_before": true, "activation_function": "relu"})"},
    {"opt-350m", 331196416,
     R"({"model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24,
         "num_attention_heads": 16, "ffn_dim": 4096, "vocab_size": 50272,
         "max_position_embeddings": 2048, "word_embed_proj_dim": 512,
         "do_layer_norm_before": false, "activation_function": "relu"})"},
    {"bloom-560m", 559214592,
     R"({"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16,
         "vocab_size": 250880})"},
    {"falcon-7b", 6921720704,
     R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
         "num_attention_heads": 71, "num_kv_heads": 71, "multi_query": true,
         "new_decoder_architecture": false, "parallel_attn": true, "bias": false,
         "vocab_size": 65024})"},
    {"falcon-40b", 41303293952,
     R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
         "num_attention_heads": 128, "num_kv_heads": 8, "new_decoder_architecture": true,
         "parallel_attn": true, "bias": false, "vocab_size": 65024})"},
    {"falcon-40b of the first file", 41303293952,
     R"({"model_type": "RefinedWeb", "hidden_size": 8192, "n_layer": 60, "n_head": 128,
         "n_head_kv": 8, "parallel_attn": true, "bias": false, "vocab_size": 65024})"},
    {"mpt-7b", 6649286656,
     R"({"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32,
         "expansion_ratio": 4, "vocab_size": 50432, "max_seq_len": 2048, "no_bias": true,
         "attn_config": {"alibi": true, "attn_type": "multihead_attention"}})"},
    {"qwen2-0.5b", 494032768,
     R"({"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24,
         "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
         "vocab_size": 151936, "tie_word_embeddings": true})"},
    {"qwen1.5-moe-a2.7b", 14315784192,
     R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
         "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632,
         "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
         "num_experts": 60, "num_experts_per_tok": 4, "vocab_size": 151936,
         "tie_word_embeddings": false})"},
    {"qwen3-0.6b", 596049920,
     R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 3072, "vocab_size": 151936, "tie_word_embeddings": true})"},
    {"gemma-2b", 2506172416,
     R"({"model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18,
         "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256,
         "intermediate_size": 16384, "vocab_size": 256000})"},
    {"gemma-3-1b", 999885952,
     R"({"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26,
         "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
         "intermediate_size": 6912, "vocab_size": 262144, "sliding_window": 512})"},
    {"starcoder2-3b", 3030371328,
     R"({"model_type": "starcoder2", "hidden_size": 3072, "num_hidden_layers": 30,
         "num_attention_heads": 24, "num_key_value_heads": 2, "intermediate_size": 12288,
         "vocab_size": 49152, "use_bias": true})"},
    {"phi-2", 2779683840,
     R"({"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
         "num_attention_heads": 32, "intermediate_size": 10240, "vocab_size": 51200,
         "tie_word_embeddings": false})"},
    {"glm-4-9b-hf", 9399951360,
     R"({"model_type": "glm", "hidden_size": 4096, "num_hidden_layers": 40,
         "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
         "intermediate_size": 13696, "vocab_size": 151552, "attention_bias": true,
         "tie_word_embeddings": false})"},
    {"deepseek-v2-lite", 15706484224,
     R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
         "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944,
         "vocab_size": 102400, "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64,
         "n_shared_experts": 2, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
         "first_k_dense_replace": 1, "moe_layer_freq": 1, "topk_method": "greedy",
         "tie_word_embeddings": false})"},
};

TEST(Huggingface, CountsWhatIsPublished) {
  for (const Published& published : kPublished) {
    EXPECT_EQ(model::count_parameters(transformer_of(published.config)).total, published.parameters)
        << published.name;
  }
}

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": false)";

TEST(Huggingface, WarnsOfEveryKeyThatMatters) {
  EXPECT_EQ(problems_of(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
                            "num_attention_heads": 4, "intermediate_size": 128,
                            "vocab_size": 100})"),
            "config.json: warning: num_key_value_heads: is missing; 4 is taken, one for every "
            "query head (multi-head attention)\n"
            "config.json: warning: tie_word_embeddings: is missing; false is taken, the default "
            "of this architecture\n");
  EXPECT_EQ(problems_of(std::string(kLlama) + "}"), "");
}

TEST(Huggingface, QuantizationDoesNotChangeTheShape) {
  const std::string quantized =
      std::string(kLlama) + R"(, "quantization_config": {"hidden_size": 3, "bits": 4}})";
  EXPECT_EQ(model::count_parameters(transformer_of(quantized)).total,
            model::count_parameters(transformer_of(std::string(kLlama) + "}")).total);
  const auto config = parse_huggingface_config("config.json", quantized);
  EXPECT_EQ(config->ignored, std::vector<std::string>{"quantization_config"});
}

TEST(Huggingface, ReadsTheLanguagePartOfAModelThatSees) {
  const Transformer scout = transformer_of(R"({"model_type": "llama4",
    "architectures": ["Llama4ForConditionalGeneration"], "tie_word_embeddings": false,
    "vision_config": {"hidden_size": 1408}, "text_config": {"model_type": "llama4_text",
    "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "num_local_experts": 16, "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1, "vocab_size": 202048}})");
  EXPECT_EQ(model::count_parameters(scout).total, 107769861120);
  EXPECT_FALSE(scout.tied_embeddings);
}

// Of four layers with step 2, the second and the fourth have experts; the fourth is then excepted.
TEST(Huggingface, ReadsWhichLayersHaveExperts) {
  const Transformer transformer = transformer_of(R"({"model_type": "qwen3_moe",
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128, "vocab_size": 100,
    "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2,
    "decoder_sparse_step": 2, "mlp_only_layers": [3], "tie_word_embeddings": false})");
  EXPECT_EQ(transformer.layer_is_moe, (std::vector<bool>{false, true, false, false}));
}

TEST(Huggingface, RecognisesTheArchitectureByItsClass) {
  EXPECT_EQ(transformer_of(R"({"architectures": ["MistralForCausalLM"], "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 100})")
                .family,
            "mistral");
  EXPECT_EQ(problems_of(R"({"model_type": "llma", "hidden_size": 64})").substr(0, 64),
            "config.json:1:16: error: model_type: unknown architecture 'llma'");
}

TEST(Huggingface, RefusesSizesThatNoModelHas) {
  const std::string zero = R"({"model_type": "llama", "hidden_size": 0, "num_hidden_layers": -2,
    "num_attention_heads": 4096000000, "vocab_size": "many", "intermediate_size": 128})";
  EXPECT_EQ(problems_of(zero),
            R"(config.json:1:40: error: hidden_size: '0' is out of range
    1 | {"model_type": "llama", "hidden_size": 0, "num_hidden_layers": -2,
      |                                        ^
  allowed: a whole number from 1 to 10000000
config.json:1:64: error: num_hidden_layers: '-2' is out of range
    1 | {"model_type": "llama", "hidden_size": 0, "num_hidden_layers": -2,
      |                                                                ^~
  allowed: a whole number from 1 to 10000
config.json:2:28: error: num_attention_heads: '4096000000' is out of range
    2 |     "num_attention_heads": 4096000000, "vocab_size": "many", "intermediate_size": 128}
      |                            ^~~~~~~~~~
  allowed: a whole number from 1 to 10000
config.json:2:54: error: vocab_size: 'many' is not a whole number
    2 |     "num_attention_heads": 4096000000, "vocab_size": "many", "intermediate_size": 128}
      |                                                      ^~~~~~
  allowed: a whole number from 1 to 10000000
4 errors; nothing was run
)");
}

TEST(Huggingface, SaysWhatAFileIsInstead) {
  EXPECT_EQ(problems_of("run:\n  name: x\ntrainer:\n  devices: 8\nmodel:\n  num_layers: 4\n"),
            "config.json: error: is a NeMo training file (YAML), not a Hugging Face config.json\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of(R"({"num_layers": 96, "n_head": 96, "hidden_dim": 12288,
                            "ffn_embed_dim": 49152})"),
            "config.json: error: is a model description of llm-analysis, not a Hugging Face "
            "config.json\n1 error; nothing was run\n");
  EXPECT_EQ(problems_of("[1, 2]"),
            "config.json: error: is JSON without an object at its top, not a Hugging Face "
            "config.json\n1 error; nothing was run\n");
}

TEST(Huggingface, RefusesAFolderWithoutAConfig) {
  const auto config = load_huggingface_config("tests/scenarios");
  EXPECT_EQ(to_text(config.error()),
            "tests/scenarios/config.json: error: cannot be opened: No such file or directory\n"
            "1 error; nothing was run\n");
}

}  // namespace
}  // namespace megatwin::scenarios
