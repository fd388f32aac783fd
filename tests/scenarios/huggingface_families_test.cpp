// Families beyond the first ones: counts of checkpoints, the language part of models that see, and
// the reasons of those that a Transformer cannot describe.
#include <cstdint>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"
#include "scenarios/huggingface.h"
#include "scenarios/scenario.h"
#include "tests/scenarios/published_config.h"

namespace megatwin::scenarios {
namespace {

using model::Transformer;

// Keys as in the published files; counts of the checkpoints as they are commonly given, which a sum
// over their tensors by hand confirms.
const Published kPublished[] = {
    {"phi-3.5-moe", 41873153344,
     R"({"model_type": "phimoe", "architectures": ["PhiMoEForCausalLM"], "hidden_size": 4096,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "intermediate_size": 6400, "num_local_experts": 16, "num_experts_per_tok": 2,
         "vocab_size": 32064, "attention_bias": true, "lm_head_bias": true,
         "max_position_embeddings": 131072, "sliding_window": 131072,
         "tie_word_embeddings": false})"},
    {"olmoe-1b-7b", 6919161856,
     R"({"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16,
         "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 1024,
         "num_experts": 64, "num_experts_per_tok": 8, "vocab_size": 50304,
         "attention_bias": false, "tie_word_embeddings": false})"},
    {"olmo-3-7b", 7298011136,
     R"({"model_type": "olmo3", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
         "vocab_size": 100278, "max_position_embeddings": 65536, "sliding_window": 4096,
         "attention_bias": false, "tie_word_embeddings": false})"},
    {"granite-3.3-8b", 8170864640,
     R"({"model_type": "granite", "hidden_size": 4096, "num_hidden_layers": 40,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12800,
         "vocab_size": 49159, "attention_bias": false, "mlp_bias": false,
         "embedding_multiplier": 12.0, "tie_word_embeddings": true})"},
    {"granite-3.1-1b-a400m", 1334628352,
     R"({"model_type": "granitemoe", "hidden_size": 1024, "num_hidden_layers": 24,
         "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 512,
         "num_local_experts": 32, "num_experts_per_tok": 8, "vocab_size": 49155,
         "tie_word_embeddings": true})"},
    {"smollm3-3b", 3075098624,
     R"({"model_type": "smollm3", "hidden_size": 2048, "num_hidden_layers": 36,
         "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008,
         "vocab_size": 128256, "use_sliding_window": false, "sliding_window": null,
         "attention_bias": false, "mlp_bias": false})"},
    {"seed-oss-36b", 36151104512,
     R"({"model_type": "seed_oss", "hidden_size": 5120, "num_hidden_layers": 64,
         "num_attention_heads": 80, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 27648, "vocab_size": 155136, "attention_bias": true,
         "attention_out_bias": false, "mlp_bias": false, "tie_word_embeddings": false})"},
    {"ernie-4.5-0.3b", 360748032,
     R"({"model_type": "ernie4_5", "hidden_size": 1024, "num_hidden_layers": 18,
         "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
         "intermediate_size": 3072, "vocab_size": 103424, "use_bias": false,
         "tie_word_embeddings": true})"},
    {"ernie-4.5-21b-a3b", 21825437888,
     R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "num_hidden_layers": 28,
         "num_attention_heads": 20, "num_key_value_heads": 4, "intermediate_size": 12288,
         "moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536,
         "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 27,
         "moe_layer_interval": 1, "vocab_size": 103424, "use_bias": false,
         "tie_word_embeddings": true})"},
    {"exaone-4.0-1.2b", 1279391488,
     R"({"model_type": "exaone4", "hidden_size": 2048, "num_hidden_layers": 30,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "intermediate_size": 4096, "vocab_size": 102400, "sliding_window": null,
         "sliding_window_pattern": null, "tie_word_embeddings": true})"},
    {"command-r", 34980831232,
     R"({"model_type": "cohere", "hidden_size": 8192, "num_hidden_layers": 40,
         "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 22528,
         "vocab_size": 256000, "use_qk_norm": false})"},
    {"command-r-plus", 103810674688,
     R"({"model_type": "cohere", "hidden_size": 12288, "num_hidden_layers": 64,
         "num_attention_heads": 96, "num_key_value_heads": 8, "intermediate_size": 33792,
         "vocab_size": 256000, "use_qk_norm": true})"},
    {"aya-expanse-8b", 8028033024,
     R"({"model_type": "cohere", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "vocab_size": 256000, "use_qk_norm": false})"},
    {"stablelm-3b-4e1t", 2795443200,
     R"({"model_type": "stablelm", "hidden_size": 2560, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 6912,
         "vocab_size": 50304, "use_qkv_bias": false, "tie_word_embeddings": false})"},
    {"stablelm-2-1.6b", 1644515328,
     R"({"model_type": "stablelm", "hidden_size": 2048, "num_hidden_layers": 24,
         "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 5632,
         "vocab_size": 100352, "use_qkv_bias": true, "tie_word_embeddings": false})"},
    {"internlm2-7b", 7737708544,
     R"({"model_type": "internlm2", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "vocab_size": 92544, "bias": false, "tie_word_embeddings": false})"},
    {"gpt-j-6b", 6050882784,
     R"({"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048,
         "n_inner": null, "rotary_dim": 64, "vocab_size": 50400,
         "activation_function": "gelu_new", "tie_word_embeddings": false})"},
    {"starcoder", 15517456384,
     R"({"model_type": "gpt_bigcode", "n_embd": 6144, "n_layer": 40, "n_head": 48,
         "n_inner": 24576, "n_positions": 8192, "vocab_size": 49152, "multi_query": true,
         "activation_function": "gelu"})"},
    {"dbrx", 131596523520,
     R"({"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48,
         "max_seq_len": 32768, "vocab_size": 100352,
         "attn_config": {"model_type": "", "clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4,
                        "moe_loss_weight": 0.05}, "tie_word_embeddings": false})"},
    {"minimax-m2", 228689764864,
     R"({"model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62,
         "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
         "intermediate_size": 1536, "num_local_experts": 256, "num_experts_per_tok": 8,
         "vocab_size": 200064, "use_qk_norm": true, "use_routing_bias": true,
         "tie_word_embeddings": false})"},
    {"deepseek-moe-16b", 16375728128,
     R"({"model_type": "deepseek", "hidden_size": 2048, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944,
         "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
         "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
         "vocab_size": 102400, "attention_bias": false, "tie_word_embeddings": false})"},
};

TEST(HuggingfaceFamilies, CountsWhatIsPublished) {
  for (const Published& published : kPublished) {
    EXPECT_EQ(model::count_parameters(transformer_of(published.config)).total, published.parameters)
        << published.name;
    EXPECT_EQ(problems_of(published.config), "") << published.name;
  }
}

// The whole model on one rank is the model, head's bias and all.
TEST(HuggingfaceFamilies, OneRankHoldsEverything) {
  for (const Published& published : kPublished) {
    const Transformer transformer = transformer_of(published.config);
    model::StageContents stage{.has_embedding = true, .has_head = true};
    stage.layers.resize(static_cast<std::size_t>(transformer.num_layers));
    std::iota(stage.layers.begin(), stage.layers.end(), 0);
    EXPECT_EQ(model::rank_parameters(transformer, stage, {}).total(), published.parameters)
        << published.name;
  }
}

// No exact figure is at hand for these: the sum by hand over the weights that the modelling file
// of Hugging Face creates. h: hidden size; sizes are those of the checkpoint that is named, or of
// the configuration class.
TEST(HuggingfaceFamilies, CountsByHand) {
  const auto total = [](const std::string& text) {
    return model::count_parameters(transformer_of(text)).total;
  };
  // Command R7B: q and o, k and v, feed-forward, one norm; tied.
  EXPECT_EQ(total(R"({"model_type": "cohere2", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "intermediate_size": 14336, "vocab_size": 256000, "sliding_window": 4096})"),
            32 * (2LL * 4096 * 4096 + 2LL * 4096 * 1024 + 3LL * 4096 * 14336 + 4096) +
                256000LL * 4096 + 4096);
  // A feed-forward of two matrices.
  EXPECT_EQ(total(R"({"model_type": "arcee", "hidden_size": 2560, "num_hidden_layers": 36,
      "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim": 128,
      "intermediate_size": 18432, "vocab_size": 128004, "hidden_act": "relu2",
      "tie_word_embeddings": false})"),
            36LL * (2 * 2560 * 2560 + 2 * 2560 * 512 + 2 * 2560 * 18432 + 2 * 2560) +
                2 * 128004LL * 2560 + 2560);
  // Norms of query and key, 128 wide each.
  EXPECT_EQ(
      total(R"({"model_type": "hunyuan_v1_dense", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "head_dim": 128, "intermediate_size": 11008, "vocab_size": 290943, "use_qk_norm": true,
      "tie_word_embeddings": false})"),
      32 * (2LL * 4096 * 4096 + 2LL * 4096 * 1024 + 2LL * 128 + 3LL * 4096 * 11008 + 2LL * 4096) +
          2 * 290943LL * 4096 + 4096);
  // One dense layer; then router with its bias, 128 experts and 2 shared.
  const std::int64_t dots_attention = 4LL * 4096 * 4096 + 2LL * 128 + 2LL * 4096;
  const std::int64_t dots_expert = 3LL * 4096 * 1408;
  EXPECT_EQ(total(R"({"model_type": "dots1", "hidden_size": 4096, "num_hidden_layers": 62,
      "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128,
      "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "n_group": 1,
      "topk_group": 1, "vocab_size": 152064, "tie_word_embeddings": false})"),
            62 * dots_attention + 3LL * 4096 * 10944 +
                61 * (130 * dots_expert + 4096LL * 128 + 128) + 2 * 152064LL * 4096 + 4096);
  // As granitemoe, with a feed-forward for every token.
  EXPECT_EQ(total(R"({"model_type": "granitemoeshared", "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 32, "shared_intermediate_size": 48, "num_local_experts": 8,
      "num_experts_per_tok": 2, "vocab_size": 100, "tie_word_embeddings": true})"),
            2 * (2 * 64 * 64 + 2 * 64 * 32 + 8 * 64 + 8 * 3 * 64 * 32 + 3 * 64 * 48 + 2 * 64) +
                100 * 64 + 64);
}

TEST(HuggingfaceFamilies, WarnsOfPredictionLayersThatItsClassLacks) {
  const std::string text = R"({"model_type": "minimax_m2", "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
      "vocab_size": 100, "tie_word_embeddings": false, "use_mtp": true, "num_mtp_modules": 3})";
  EXPECT_EQ(problems_of(text),
            "config.json: warning: use_mtp: layers that predict further tokens are left out: this "
            "architecture's class has none\n");
}

TEST(HuggingfaceFamilies, ReadsWindows) {
  const std::string olmo3 = R"({"model_type": "olmo3", "hidden_size": 64,
      "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
      "vocab_size": 100, "max_position_embeddings": 65536, "tie_word_embeddings": false,
      "num_hidden_layers": 8)";
  const Transformer by_default = transformer_of(olmo3 + "}");
  EXPECT_EQ(by_default.sliding_window, 4096);
  EXPECT_DOUBLE_EQ(by_default.windowed_share(), 0.75);
  const Transformer none = transformer_of(olmo3 + R"(, "sliding_window": null})");
  EXPECT_DOUBLE_EQ(none.windowed_share(), 0);
  const Transformer listed = transformer_of(olmo3 + R"(, "layer_types": ["sliding_attention",
      "full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
      "full_attention", "full_attention"]})");
  EXPECT_DOUBLE_EQ(listed.windowed_share(), 0.125);
  const Transformer letters = transformer_of(R"({"model_type": "exaone4", "hidden_size": 64,
      "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 4,
      "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 65536,
      "sliding_window": 4096, "sliding_window_pattern": "LLLG", "tie_word_embeddings": false})");
  EXPECT_DOUBLE_EQ(letters.windowed_share(), 0.75);
}

// What is left out of the published totals: Qwen2-VL-7B has 8,291,375,616 with a tower of
// 675,759,104; LLaVA-1.5-7B 7,063,427,072 with tower and projector of 324,487,168; Gemma-3-4B's
// language model is 3,880,263,168. Those of Qwen3-VL are Qwen3's.
TEST(HuggingfaceFamilies, ReadsTheLanguagePartOfModelsThatSee) {
  const std::string warning =
      "config.json: warning: vision_config: is left out: only the language model is described, "
      "without the tower and the projector\n";
  const std::string qwen2_vl = R"({"model_type": "qwen2_vl", "hidden_size": 3584,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
      "intermediate_size": 18944, "vocab_size": 152064, "use_sliding_window": false,
      "sliding_window": 32768, "vision_config": {"hidden_size": 3584, "depth": 32},
      "tie_word_embeddings": false})";
  EXPECT_EQ(model::count_parameters(transformer_of(qwen2_vl)).total, 8291375616 - 675759104);
  EXPECT_EQ(problems_of(qwen2_vl), warning);
  const std::string qwen3_vl = R"({"model_type": "qwen3_vl", "tie_word_embeddings": false,
      "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 4096,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936},
      "vision_config": {"depth": 27}})";
  EXPECT_EQ(model::count_parameters(transformer_of(qwen3_vl)).total, 8190735360);
  EXPECT_EQ(problems_of(qwen3_vl), warning);
  const std::string qwen3_vl_moe = R"({"model_type": "qwen3_vl_moe",
      "tie_word_embeddings": false, "vision_config": {"depth": 27},
      "text_config": {"model_type": "qwen3_vl_moe_text", "hidden_size": 2048,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768,
      "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
      "mlp_only_layers": [], "vocab_size": 151936}})";
  EXPECT_EQ(model::count_parameters(transformer_of(qwen3_vl_moe)).total, 30532122624);
  EXPECT_EQ(problems_of(qwen3_vl_moe), warning);
  // These sections leave out what equals the defaults of their class.
  const std::string gemma3 = R"({"model_type": "gemma3", "text_config": {
      "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
      "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152}})";
  EXPECT_EQ(model::count_parameters(transformer_of(gemma3)).total, 3880263168);
  EXPECT_EQ(transformer_of(gemma3).num_key_value_heads, 4);
  EXPECT_EQ(problems_of(gemma3),
            warning +
                "config.json: warning: text_config.vocab_size: is missing; 262208 is taken, the "
                "default of this architecture\n"
                "config.json: warning: text_config.num_attention_heads: is missing; 8 is taken, "
                "the default of this architecture\n"
                "config.json: warning: text_config.num_key_value_heads: is missing; 4 is taken, "
                "the default of this architecture\n"
                "config.json: warning: text_config.head_dim: is missing; 256 is taken, the "
                "default of this architecture\n");
  const std::string llava = R"({"model_type": "llava", "tie_word_embeddings": false,
      "text_config": {"model_type": "llama", "vocab_size": 32064,
      "max_position_embeddings": 4096}, "vision_config": {"model_type": "clip_vision_model"}})";
  EXPECT_EQ(model::count_parameters(transformer_of(llava)).total, 7063427072 - 324487168);
}

TEST(HuggingfaceFamilies, RefusesWithTheReason) {
  EXPECT_EQ(problems_of(R"({"model_type": "qwen3_next", "hidden_size": 2048})"),
            "config.json:1:16: error: model_type: 'qwen3_next': three of four layers are gated "
            "linear attention, which is not modelled\n"
            "    1 | {\"model_type\": \"qwen3_next\", \"hidden_size\": 2048}\n"
            "      |                ^~~~~~~~~~~~\n"
            "1 error; nothing was run\n");
  for (const char* type :
       {"jamba", "mamba2", "nemotron_h", "granitemoehybrid", "zamba2", "rwkv", "recurrent_gemma",
        "t5", "whisper", "bert", "llada", "deepseek_v32", "olmo", "mllama", "gemma3n"}) {
    const std::string problems =
        problems_of(R"({"model_type": ")" + std::string(type) + R"(", "text_config": {}})");
    EXPECT_NE(problems.find("'" + std::string(type) + "': "), std::string::npos) << problems;
    EXPECT_EQ(problems.find("unknown architecture"), std::string::npos) << problems;
  }
  EXPECT_NE(problems_of(R"({"model_type": "some_vl", "text_config": {
                "model_type": "qwen3_5_text"}})")
                .find("text_config.model_type: 'qwen3_5_text': three of four layers"),
            std::string::npos);
  EXPECT_EQ(problems_of(R"({"_class_name": "FluxTransformer2DModel", "num_layers": 19})"),
            "config.json: error: is the configuration of a diffusion model (diffusers), not a "
            "Hugging Face config.json\n1 error; nothing was run\n");
  EXPECT_NE(problems_of(R"({"model_type": "stablelm", "hidden_size": 64, "num_hidden_layers": 2,
                "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
                "vocab_size": 100, "qk_layernorm": true, "tie_word_embeddings": false})")
                .find("error: qk_layernorm: norms of every head's own"),
            std::string::npos);
}

TEST(HuggingfaceFamilies, StandInTheUserGuide) {
  std::ostringstream guide;
  guide << std::ifstream("docs/user-guide.md").rdbuf();
  for (const std::string& family : huggingface_families()) {
    EXPECT_NE(guide.str().find("`" + family + "`"), std::string::npos) << family;
  }
}

// What the message offers is a section that a scenario takes, with the count of a Llama.
TEST(HuggingfaceFamilies, OffersToWriteOutWhatLooksLikeALlama) {
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
      "vocab_size": 100, "is_encoder_decoder": false, "tie_word_embeddings": true)";
  const std::string problems = problems_of(R"({"model_type": "lama2", )" + sizes + "}");
  const std::size_t start = problems.find("model: {family: llama");
  ASSERT_NE(start, std::string::npos) << problems;
  const std::string section = problems.substr(start, problems.find('}', start) - start + 1);
  const auto scenario =
      parse_scenario("s.yaml", section + "\ncluster: {nodes: [{type: dgx-h100, count: 1}]}\n" +
                                   "plan: {data: auto, micro_batch: 1, global_batch: 8}\n");
  ASSERT_TRUE(scenario) << to_text(scenario.error());
  EXPECT_EQ(
      model::count_parameters(scenario->jobs.front().transformer).total,
      model::count_parameters(transformer_of(R"({"model_type": "llama", )" + sizes + "}")).total);
  for (const char* more : {R"("num_experts": 8)", R"("ssm_cfg": {})", R"("kv_lora_rank": 16)",
                           R"("layer_types": ["linear_attention", "full_attention"])"}) {
    const std::string other =
        problems_of(R"({"model_type": "lama2", )" + sizes + ", " + more + "}");
    EXPECT_NE(other.find("unknown architecture 'lama2'"), std::string::npos) << other;
    EXPECT_EQ(other.find("model: {"), std::string::npos) << more;
  }
}

}  // namespace
}  // namespace megatwin::scenarios
