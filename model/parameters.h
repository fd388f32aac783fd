// How many parameters a transformer has, layer by layer, whole or as the shard of one rank. Exact
// integers; what they weigh in bytes is state_memory.h's. Every count comes from one function of
// the sharding, so that the whole model is simply the shard of a single rank.
#ifndef MEGATWIN_MODEL_PARAMETERS_H_
#define MEGATWIN_MODEL_PARAMETERS_H_

#include <cstdint>
#include <vector>

#include "model/transformer.h"

namespace megatwin::model {

// The sizes over which weights are cut. Norms, the router and the learned positions are kept whole
// by every rank of a tensor-parallel group; experts are cut by expert × expert_tensor and never by
// `tensor`. With fewer key-value heads than tensor ranks, each rank keeps one head.
struct WeightSharding {
  int tensor = 1;
  int expert = 1;
  int expert_tensor = 1;
  // Megatron pads the vocabulary to a multiple of this times `tensor`; 1 only rounds up so that
  // the ranks hold equal parts.
  std::int64_t vocab_divisible_by = 1;
};

struct LayerParameters {
  std::int64_t attention_matrices = 0;
  std::int64_t attention_vectors = 0;  // Biases, norms inside the attention, sinks.
  std::int64_t mlp_matrices = 0;       // Dense feed-forward.
  std::int64_t mlp_vectors = 0;
  std::int64_t norms = 0;
  std::int64_t router = 0;
  std::int64_t router_bias = 0;
  std::int64_t experts = 0;         // All routed experts, with their biases.
  std::int64_t experts_active = 0;  // Those that one token visits.
  std::int64_t shared_expert = 0;   // With its gate.

  std::int64_t dense() const {
    return attention_matrices + attention_vectors + mlp_matrices + mlp_vectors + norms + router +
           router_bias + shared_expert;
  }
  std::int64_t total() const { return dense() + experts; }
  // The bias of a router steers the choice and multiplies nothing, hence is not active.
  std::int64_t active() const { return dense() - router_bias + experts_active; }
};

struct ParameterCounts {
  std::int64_t total = 0;    // Without the multi-token-prediction layers.
  std::int64_t active = 0;   // Of one token; both embeddings count in full.
  std::int64_t layers = 0;   // All decoder layers.
  std::int64_t experts = 0;  // Routed experts of all decoder layers.
  std::int64_t input_embedding = 0;
  std::int64_t output_head = 0;  // 0 when tied.
  std::int64_t position = 0;     // Learned positions.
  std::int64_t embedding_norm = 0;
  std::int64_t final_norm = 0;
  std::int64_t mtp_total = 0;  // Multi-token prediction, sharing embedding and head.
  std::int64_t mtp_active = 0;
};

// One decoder layer (index from 0).
LayerParameters layer_parameters(const Transformer& transformer, std::int64_t layer,
                                 const WeightSharding& sharding = {});

// One multi-token-prediction module: a layer like the last one, the 2h → h projection (counted in
// mlp_matrices) and three norms. Source: DeepSeek-V3, arXiv:2412.19437, section 2.2.
LayerParameters mtp_layer_parameters(const Transformer& transformer,
                                     const WeightSharding& sharding = {});

ParameterCounts count_parameters(const Transformer& transformer);

// Vocabulary rows after padding; divisible by `tensor`.
std::int64_t padded_vocab_size(const Transformer& transformer, const WeightSharding& sharding);

// Token table of one rank, without what projects into or out of it.
std::int64_t token_table(const Transformer& transformer, const WeightSharding& sharding);

// What one pipeline stage holds.
struct StageContents {
  std::vector<std::int64_t> layers;  // Decoder layers of all its chunks.
  bool has_embedding = false;        // With learned positions and the embedding's norm.
  bool has_head = false;             // With the final norm.
  bool has_mtp = false;              // Multi-token prediction; usually where the head is.
};

// Parameters of one rank. Dense ones are replicated over data × context, expert ones over the
// expert-data group: their optimizer states shard differently.
struct RankParameters {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
  std::int64_t embedding = 0;  // Part of `dense`: input table and output head.
  std::int64_t total() const { return dense + expert; }
};

// A tied head on a stage without the embedding is a copy of the table and counts.
RankParameters rank_parameters(const Transformer& transformer, const StageContents& stage,
                               const WeightSharding& sharding);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PARAMETERS_H_
