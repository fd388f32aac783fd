// The linear layers of one transformer layer on one rank: what products, casts, saved bytes and
// quantised copies of weights agree on. Plain arithmetic; callable from any thread.
#ifndef MEGATWIN_MODEL_PROGRAM_LINEAR_LAYERS_H_
#define MEGATWIN_MODEL_PROGRAM_LINEAR_LAYERS_H_

#include <cstdint>

#include "model/program/lowering.h"
#include "model/program/op_list.h"
#include "model/quantisation.h"

namespace megatwin::model {

// Latent attention has low-rank down- and up-projections in place of `qkv`; queries without a low
// rank have the up-projection only, from the hidden size.
struct AttentionLayers {
  LinearLayer qkv;
  LinearLayer q_down, q_up, kv_down, kv_up;
  LinearLayer proj;
};
AttentionLayers attention_layers(const LoweringInput& input, const LayerSizes& sizes);

struct FeedForwardLayers {
  LinearLayer fc1, fc2;
};
// `ffn`: its width on this rank.
FeedForwardLayers feed_forward_layers(const LoweringInput& input, const LayerSizes& sizes,
                                      std::int64_t ffn);
// Of one expert, and of the shared one.
FeedForwardLayers expert_layers(const LoweringInput& input, const LayerSizes& sizes);
FeedForwardLayers shared_expert_layers(const LoweringInput& input, const LayerSizes& sizes);
std::int64_t local_experts(const LoweringInput& input, const LayerSizes& sizes);

// Weights that the recipe quantises, of this rank.
std::int64_t quantised_weights(const LayerSizes& sizes, const AttentionLayers& layers);
std::int64_t quantised_weights(const LayerSizes& sizes, const FeedForwardLayers& layers);
std::int64_t quantised_weights(const LoweringInput& input, const ChunkContent& content);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_LINEAR_LAYERS_H_
