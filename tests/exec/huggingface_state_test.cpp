// Files of Hugging Face. tests/exec/huggingface/ holds two models with random weights as
// transformers 5.17 saved them, and this file the losses that it computed for them in fp32.
#include "exec/huggingface_state.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "exec/checkpoint.h"
#include "exec/model_chunk.h"
#include "exec/safetensors.h"
#include "scenarios/huggingface.h"

namespace megatwin::exec {
namespace {

constexpr const char* kFolder = "tests/exec/huggingface/";

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

model::Transformer transformer_of(const std::string& name) {
  const auto config = scenarios::load_huggingface_config(kFolder + name + "/config.json");
  EXPECT_TRUE(config) << to_text(config.error());
  model::Transformer transformer = config->transformer;
  transformer.sequence_length = 8;
  transformer.dropout = 0;  // transformers was told to evaluate.
  return transformer;
}

// The two sequences of which the losses are: token i of sequence s is 7i² + 3i + 5s mod 32.
double loss_of(const model::Transformer& transformer, const ModelState& state) {
  model::Plan plan;
  plan.micro_batch = plan.global_batch = 2;
  const ModelShape shape = model_shape(transformer, plan);
  LoneGroup group;
  ModelChunk chunk({.shape = shape, .part = {0, 2, true, true}}, groups_of_one(group));
  EXPECT_TRUE(state_problems(state, chunk.table()).empty());
  const ChunkState whole{
      .table = &chunk.table(), .held = {0, chunk.table().size}, .weights = chunk.weights()};
  scatter_weights(state, {&whole, 1});
  TokenBatch batch;
  for (int s = 0; s < 2; ++s) {
    for (int i = 0; i < 8; ++i) {
      batch.tokens.push_back((7 * i * i + 3 * i + 5 * s) % 32);
      batch.targets.push_back((7 * (i + 1) * (i + 1) + 3 * (i + 1) + 5 * s) % 32);
    }
  }
  std::vector<float> activation(static_cast<std::size_t>(chunk.sizes().activation));
  std::vector<float> workspace(static_cast<std::size_t>(chunk.sizes().forward_workspace));
  return chunk.forward({.batch = batch, .activation = activation, .workspace = workspace});
}

struct Stored {
  const char* name;
  double loss;
};
constexpr Stored kStored[] = {{"llama", 4.260917930}, {"gpt2", 4.155429549}};

TEST(HuggingfaceState, GivesTheLossOfTransformers) {
  for (const Stored& stored : kStored) {
    const model::Transformer transformer = transformer_of(stored.name);
    const auto state = load_huggingface_weights(std::string(kFolder) + stored.name, transformer);
    ASSERT_TRUE(state) << to_text(state.error());
    EXPECT_NEAR(loss_of(transformer, *state), stored.loss, 1e-5) << stored.name;
  }
}

// Each tensor that transformers wrote, with its name, shape and bits, and no other.
TEST(HuggingfaceState, WritesWhatItRead) {
  for (const Stored& stored : kStored) {
    const model::Transformer transformer = transformer_of(stored.name);
    const std::string path = std::string(kFolder) + stored.name + "/model.safetensors";
    const auto read = parse_safetensors(path, bytes_of(path));
    ASSERT_TRUE(read) << to_text(read.error());
    const std::vector<Tensor> written =
        huggingface_tensors(transformer, state_of_huggingface(transformer, *read));
    EXPECT_EQ(written.size(), read->size());
    std::map<std::string, const Tensor*> by_name;
    for (const Tensor& tensor : written) by_name[tensor.name] = &tensor;
    for (const Tensor& tensor : *read) {
      ASSERT_TRUE(by_name.count(tensor.name)) << tensor.name;
      EXPECT_EQ(by_name[tensor.name]->shape, tensor.shape) << tensor.name;
      EXPECT_EQ(by_name[tensor.name]->values, tensor.values) << tensor.name;
    }
  }
}

TEST(HuggingfaceState, ConfigurationReadsBack) {
  for (const Stored& stored : kStored) {
    const model::Transformer transformer = transformer_of(stored.name);
    const std::string path = testing::TempDir() + stored.name + ".json";
    std::ofstream(path) << huggingface_config_text(transformer);
    const auto config = scenarios::load_huggingface_config(path);
    ASSERT_TRUE(config) << to_text(config.error());
    EXPECT_EQ(config->transformer.num_layers, 2);
    EXPECT_EQ(config->transformer.ffn_hidden_size, transformer.ffn_hidden_size);
    EXPECT_EQ(config->transformer.num_key_value_heads, transformer.num_key_value_heads);
    EXPECT_EQ(config->transformer.vocab_size, 32);
    EXPECT_EQ(config->transformer.tied_embeddings, transformer.tied_embeddings);
    EXPECT_EQ(config->transformer.norm, transformer.norm);
  }
}

// A model of experts is stored as Mixtral.
TEST(HuggingfaceState, ConfigurationOfExpertsReadsBack) {
  model::Transformer transformer = transformer_of("llama");
  transformer.experts =
      model::MixtureOfExperts{.num_experts = 4, .experts_per_token = 2, .expert_ffn_size = 12};
  const std::string path = testing::TempDir() + "experts.json";
  std::ofstream(path) << huggingface_config_text(transformer);
  const auto config = scenarios::load_huggingface_config(path);
  ASSERT_TRUE(config) << to_text(config.error());
  ASSERT_TRUE(config->transformer.experts);
  EXPECT_EQ(config->transformer.experts->num_experts, 4);
  EXPECT_EQ(config->transformer.experts->experts_per_token, 2);
  EXPECT_EQ(config->transformer.experts->expert_ffn_size, 12);
}

TEST(Safetensors, ReadsHalfPrecision) {
  std::string header = R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"F16","shape":[2,2],"data_offsets":[4,12]}})";
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  // bf16 1.0 and -2.0; fp16 1.0, -2.0, the smallest subnormal 2⁻²⁴, 65504.
  for (const int bits : {0x3f80, 0xc000, 0x3c00, 0xc000, 0x0001, 0x7bff}) {
    bytes.push_back(static_cast<char>(bits & 0xff));
    bytes.push_back(static_cast<char>(bits >> 8));
  }
  const auto tensors = parse_safetensors("a", bytes);
  ASSERT_TRUE(tensors) << to_text(tensors.error());
  EXPECT_EQ((*tensors)[0].values, (std::vector<float>{1, -2}));
  EXPECT_EQ((*tensors)[1].values, (std::vector<float>{1, -2, 5.9604645e-8F, 65504}));
}

TEST(Safetensors, RefusesWhatIsCutOffAnywhere) {
  const std::vector<Tensor> tensors = {{"a", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"b", {1}, {7}}};
  const std::string bytes = safetensors_bytes(tensors);
  const auto read = parse_safetensors("a", bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)[0].values, tensors[0].values);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(parse_safetensors("a", std::string_view(bytes).substr(0, size))) << size;
  }
}

TEST(Safetensors, RefusesPlacesOutsideAndSizesThatOverflow) {
  for (const char* entry :
       {R"("shape":[2],"data_offsets":[0,9])", R"("shape":[3],"data_offsets":[0,8])",
        R"("shape":[-2],"data_offsets":[0,8])", R"("shape":[2],"data_offsets":[8,0])",
        R"("shape":[4611686018427387904,4],"data_offsets":[0,0])"}) {
    std::string header = std::string(R"({"a":{"dtype":"F32",)") + entry + "}}";
    std::string bytes(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_FALSE(parse_safetensors("a", bytes + header + std::string(8, 'x'))) << entry;
  }
}

}  // namespace
}  // namespace megatwin::exec
