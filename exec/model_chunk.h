// A model chunk of one rank: a run of layers, with the embedding before the first and the head
// behind the last, its weights and their gradients. Runs the three passes of one micro-batch on
// buffers that it is lent, whose sizes it states.
#ifndef MEGATWIN_EXEC_MODEL_CHUNK_H_
#define MEGATWIN_EXEC_MODEL_CHUNK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/layer.h"
#include "exec/model_ends.h"
#include "exec/parameter_table.h"

namespace megatwin::exec {

// Tokens of one micro-batch and what follows each.
struct TokenBatch {
  std::vector<std::int32_t> tokens, targets;
};

// Numbers of 4 bytes.
struct ModelChunkSizes {
  std::int64_t parameters = 0;
  std::int64_t activation = 0;          // Kept from forward to backward.
  std::int64_t gradient_input = 0;      // Kept from the backward of the input to the weights'.
  std::int64_t forward_workspace = 0;   // Only inside the forward …
  std::int64_t backward_workspace = 0;  // … and the backward of the input.
};
ModelChunkSizes model_chunk_sizes(const ModelShape& shape, const ChunkPart& part);

struct ModelChunkSetup {
  const ModelShape& shape;
  ChunkPart part;
  std::uint64_t seed = 1;
};

class ModelChunk {
 public:
  // The shape and the group are borrowed.
  ModelChunk(const ModelChunkSetup& setup, TensorGroup& group);

  const ModelChunkSizes& sizes() const { return sizes_; }
  const ChunkPart& part() const { return part_; }
  const ParameterTable& table() const { return table_; }
  std::span<float> weights() { return weights_; }
  std::span<float> gradients() { return gradients_; }

  // Reads `input` unless it has the embedding. Writes `output`, or gives the mean loss when it has
  // the head.
  struct Forward {
    const TokenBatch& batch;
    double gradient_scale = 1;
    std::span<const float> input;
    std::span<float> activation, workspace;
    std::span<float> output;
  };
  double forward(const Forward& arguments);

  // Reads the gradient of the output from `input` unless it has the head. Writes `output` unless it
  // has the embedding.
  struct BackwardInput {
    std::span<const float> input;
    std::span<float> activation, gradient_input, workspace;
    std::span<float> output;
  };
  void backward_input(const BackwardInput& arguments);

  // Adds to the gradients. Needs no other rank.
  struct BackwardWeight {
    const TokenBatch& batch;
    std::span<float> gradient_input;
  };
  void backward_weight(const BackwardWeight& arguments);

 private:
  const ModelShape& shape_;
  TensorGroup& group_;
  ChunkPart part_;
  ParameterTable table_;
  std::vector<float> weights_, gradients_;
  std::vector<LayerSaved> saved_at_;
  std::vector<HeadSaved> head_saved_at_;  // One or none.
  std::vector<LayerGradientInput> input_at_;
  std::vector<HeadGradientInput> head_input_at_;
  Slice dembedding_;
  ModelChunkSizes sizes_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MODEL_CHUNK_H_
