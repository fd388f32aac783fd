// Both ends of the model on a CPU: the embedding before the first layer, and norm, head and loss
// behind the last. Same calls and same conventions as exec/layer.h; the vocabulary is cut over the
// tensor-parallel group.
#ifndef MEGATWIN_EXEC_MODEL_ENDS_H_
#define MEGATWIN_EXEC_MODEL_ENDS_H_

#include <cstdint>
#include <span>

#include "exec/layer.h"

namespace megatwin::exec {

// Positions: of the local tokens of a sequence.
struct EndContext {
  const ModelShape& shape;
  RankGroup& tensor;
  const ParameterTable& table;
  std::span<const std::int64_t> positions;
};

// x = the embeddings of the tokens, with learned positions where the model has them.
struct EmbeddingForward {
  std::span<const std::int32_t> tokens;
  std::span<const float> weights;  // Of the embedding's bundle.
  std::span<float> workspace;
  std::span<float> x;
};
void embedding_forward(const EndContext& context, const EmbeddingForward& arguments);

// gradients += those of the embedding; dx: (tokens, hidden), all tokens.
struct EmbeddingBackwardWeight {
  std::span<const std::int32_t> tokens;
  std::span<const float> dx;
  std::span<float> gradients;
};
void embedding_backward_weight(const EndContext& context, const EmbeddingBackwardWeight& arguments);

struct HeadSaved {
  HeadSaved(const ModelShape& shape, Layout& layout);
  NormPlaces norm;
  Slice n;        // Normalised, all tokens.
  Slice dlogits;  // The gradient of the logits is there right after the loss.
};

struct HeadGradientInput {
  HeadGradientInput(const ModelShape& shape, Layout& layout);
  NormPlaces norm;
  Slice dn, n, dlogits;
};

// Gives what the local tokens add to the mean loss of the micro-batch, in nats per token. The
// gradient is that of `gradient_scale` times it. The input of the head is the x of its norm in
// `saved`. `weights` is the head's bundle, `head` its matrix, which may be the embedding.
struct HeadForward {
  std::span<const std::int32_t> targets;
  double gradient_scale = 1;
  std::span<const float> weights, head;
  std::span<float> saved;
  const HeadSaved& at;
  std::span<float> workspace;
};
double head_forward(const EndContext& context, const HeadForward& arguments);
std::int64_t head_forward_workspace(const ModelShape& shape);

// gradient = that of the head's input, overwritten.
struct HeadBackwardInput {
  std::span<const float> weights, head;
  std::span<float> saved;
  const HeadSaved& at;
  std::span<float> input;
  const HeadGradientInput& input_at;
  std::span<float> workspace;
  std::span<float> gradient;
};
void head_backward_input(const EndContext& context, const HeadBackwardInput& arguments);
std::int64_t head_backward_workspace(const ModelShape& shape);

struct HeadBackwardWeight {
  std::span<float> input;
  const HeadGradientInput& input_at;
  std::span<float> gradients, dhead;
};
void head_backward_weight(const EndContext& context, const HeadBackwardWeight& arguments);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MODEL_ENDS_H_
