// Real config.json files with the counts that other programs or the authors state, where the shared
// material lies beside the checkout (MEGATWIN_SHARED, or ../shared).
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "model/parameters.h"
#include "scenarios/huggingface.h"

namespace megatwin::scenarios {
namespace {

std::string shared_folder() {
  const char* given = std::getenv("MEGATWIN_SHARED");
  return (given != nullptr ? std::string(given) : "../shared") + "/data/files/hf_config/";
}

struct Expected {
  const char* file;
  std::int64_t total;
  std::int64_t active;  // 0: as total.
};

// OLMo-2-32B: the manifest's 32,233,886,720 leaves out the norms of query and key, 64 layers ×
// (5120
// + 1024) = 393,216. DeepSeek-V3 and gpt-oss: the manifest counts the routers' biases as active.
constexpr Expected kExpected[] = {
    {"llama-2-7b.config.json", 6738415616, 0},
    {"llama-3.1-8b.config.json", 8030261248, 0},
    {"llama-3.1-70b.config.json", 70553706496, 0},
    {"mistral-7b.config.json", 7241732096, 0},
    {"mixtral-8x22b.config.json", 140620634112, 39152031744},
    {"qwen3-30b-a3b.config.json", 30532122624, 3353032704},
    {"qwen3-235b-fp8.config.json", 235093634560, 22190763520},
    {"deepseek-v3.config.json", 671026419200, 37552282624},
    {"gemma-2-27b.config.json", 27227128320, 0},
    {"chatglm3-6b.config.json", 6243584000, 0},
    {"gpt-oss-20b.config.json", 20914757184, 4187439936},
    {"phi-4-mini-like.config.json", 3836021760, 0},
    {"olmo2-32b.config.json", 32233886720 + 393216, 0},
};

class HuggingfaceConformance : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(shared_folder())) {
      GTEST_SKIP() << "no " << shared_folder() << "; set MEGATWIN_SHARED";
    }
  }
};

TEST_F(HuggingfaceConformance, CountsEveryFile) {
  for (const Expected& expected : kExpected) {
    const auto config = load_huggingface_config(shared_folder() + expected.file);
    ASSERT_TRUE(config) << to_text(config.error());
    const model::ParameterCounts counts = model::count_parameters(config->transformer);
    EXPECT_EQ(counts.total, expected.total) << expected.file;
    EXPECT_EQ(counts.active, expected.active > 0 ? expected.active : expected.total)
        << expected.file;
    EXPECT_EQ(to_text(config->warnings), "") << expected.file;
  }
}

// One module is stored beside the 671,026,419,200: about 684.5e9 in all, embeddings shared once.
TEST_F(HuggingfaceConformance, KeepsMultiTokenPredictionApart) {
  const auto config = load_huggingface_config(shared_folder() + "deepseek-v3.config.json");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->transformer.num_mtp_layers, 1);
  EXPECT_GT(model::count_parameters(config->transformer).mtp_total, 11'000'000'000);
}

TEST_F(HuggingfaceConformance, RefusesTheTwoThatAreNone) {
  const auto nemo = load_huggingface_config(shared_folder() + "nemotron4-340b.nemo.yaml");
  ASSERT_FALSE(nemo);
  EXPECT_EQ(nemo.error().front().message,
            "is a NeMo training file (YAML), not a Hugging Face config.json");
  const auto bloom = load_huggingface_config(shared_folder() + "bloom-175b.llm-analysis.json");
  ASSERT_FALSE(bloom);
  EXPECT_EQ(bloom.error().front().message,
            "is a model description of llm-analysis, not a Hugging Face config.json");
}

}  // namespace
}  // namespace megatwin::scenarios
