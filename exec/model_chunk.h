// A model chunk of one rank: a run of layers, with the embedding before the first and the head
// behind the last, its weights and their gradients. Runs the three passes of one micro-batch on
// buffers that it is lent, whose sizes it states.
#ifndef MEGATWIN_EXEC_MODEL_CHUNK_H_
#define MEGATWIN_EXEC_MODEL_CHUNK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "exec/chunk_parameters.h"
#include "exec/layer.h"
#include "exec/model_ends.h"
#include "exec/parameter_table.h"
#include "exec/reshard.h"

namespace megatwin::exec {

// Tokens of one micro-batch and what follows each.
struct TokenBatch {
  std::vector<std::int32_t> tokens, targets;
};

// Those of `whole` that a context-parallel member has, sequence by sequence.
TokenBatch local_tokens(const ModelShape& shape, int context_member, const TokenBatch& whole);

// Numbers of 4 bytes.
struct ModelChunkSizes {
  std::int64_t parameters = 0;          // Whole, as this rank's part of the model.
  HeldSizes held;                       // Throughout, by the replica that holds the most.
  std::int64_t activation = 0;          // Kept from forward to backward.
  std::int64_t gradient_input = 0;      // Kept from the backward of the input to the weights'.
  std::int64_t forward_workspace = 0;   // Only inside the forward, …
  std::int64_t backward_workspace = 0;  // … the backward of the input, …
  std::int64_t weight_workspace = 0;    // … and that of the weights.
};
ModelChunkSizes model_chunk_sizes(const ModelShape& shape, const ChunkPart& part);

// Where everything of an activation lies at a member of the tensor-parallel group, and which part
// of it. Requires: no layer with experts.
std::vector<HeldPart> saved_parts(const ModelShape& shape, const ChunkPart& part,
                                  int tensor_member);
// The same of what the gradients of the weights need.
std::vector<HeldPart> gradient_input_parts(const ModelShape& shape, const ChunkPart& part,
                                           int tensor_member);

struct ModelChunkSetup {
  const ModelShape& shape;
  ChunkPart part;
  std::uint64_t seed = 1;
  WeightUse use = WeightUse::Step;
};

class ModelChunk {
 public:
  // The shape and the groups are borrowed.
  ModelChunk(const ModelChunkSetup& setup, const RankGroups& groups);
  ModelChunk(const ModelChunk&) = delete;
  ModelChunk& operator=(const ModelChunk&) = delete;

  const ModelChunkSizes& sizes() const { return sizes_; }
  const ChunkPart& part() const { return part_; }
  const ParameterTable& table() const { return table_; }
  // What this rank holds of them, unit by unit.
  std::span<float> weights() { return parameters_.weights(); }
  std::span<float> gradients() { return parameters_.gradients(); }
  std::vector<HeldUnit>& units() { return parameters_.units(); }

  // Reads `input` unless it has the embedding. Writes `output`, or gives what the local tokens add
  // to the mean loss when it has the head. `balance_loss`, when it is there, receives what the
  // local tokens add to the experts' balancing loss.
  struct Forward {
    const TokenBatch& batch;  // The local tokens.
    double gradient_scale = 1;
    std::span<const float> input;
    std::span<float> activation, workspace;
    std::span<float> output;
    double* balance_loss = nullptr;
  };
  double forward(const Forward& arguments);

  // Reads the gradient of the output from `input` unless it has the head. Writes `output` unless it
  // has the embedding. `gradient_scale` as in the forward.
  struct BackwardInput {
    double gradient_scale = 1;
    std::span<const float> input;
    std::span<float> activation, gradient_input, workspace;
    std::span<float> output;
  };
  void backward_input(const BackwardInput& arguments);

  // Adds to the gradients.
  struct BackwardWeight {
    const TokenBatch& batch;
    std::span<float> gradient_input, workspace;
  };
  void backward_weight(const BackwardWeight& arguments);

 private:
  LayerContext layer_context(std::size_t layer) const;
  EndContext end_context() const;
  std::span<float> layer_input(std::size_t layer, std::span<float> activation) const;
  // Weights of the head's matrix, gathered into `workspace` when it is the embedding.
  std::span<const float> fetch_head(std::span<const float> bundle, Workspace& workspace);
  std::span<const float> fetch(const ParameterBundle& bundle, Workspace& workspace);
  void layer_backward(std::size_t layer, const BackwardInput& arguments, std::span<float> gradient,
                      std::span<float> workspace);

  // Where one layer's values lie. Of a layer that runs again only the input is kept; the other
  // places count from the begin of a block of workspace.
  struct LayerBuffers {
    std::optional<Slice> kept_input;
    LayerSaved saved;
    std::int64_t block_size = 0;
  };
  struct Buffers {
    Buffers(const ModelShape& shape, const ChunkPart& part);
    std::vector<LayerBuffers> layers;
    std::vector<LayerGradientInput> layer_inputs;
    std::optional<HeadSaved> head;
    std::optional<HeadGradientInput> head_input;
    Slice dembedding;
    std::int64_t activation = 0, gradient_input = 0;
  };
  friend ModelChunkSizes model_chunk_sizes(const ModelShape& shape, const ChunkPart& part);
  friend std::vector<HeldPart> saved_parts(const ModelShape& shape, const ChunkPart& part,
                                           int tensor_member);
  friend std::vector<HeldPart> gradient_input_parts(const ModelShape& shape, const ChunkPart& part,
                                                    int tensor_member);

  const ModelShape& shape_;
  RankGroups groups_;
  ChunkPart part_;
  ContextPositions positions_;
  ParameterTable table_;
  ChunkParameters parameters_;
  Buffers buffers_;
  ModelChunkSizes sizes_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MODEL_CHUNK_H_
