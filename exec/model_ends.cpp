#include "exec/model_ends.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference_linear.h"
#include "kernels/reference_norm.h"
#include "kernels/reference_vocabulary.h"

namespace megatwin::exec {

namespace reference = kernels::reference;

namespace {

reference::VocabularySlice vocabulary_slice(const ModelShape& shape, const RankGroup& group) {
  return {group.member() * shape.local_vocab(), shape.local_vocab()};
}

std::int64_t position_of(const EndContext& context, std::int64_t row) {
  return context.positions[static_cast<std::size_t>(row % context.shape.local_sequence())];
}

}  // namespace

void embedding_forward(const EndContext& context, const EmbeddingForward& arguments) {
  const ModelShape& shape = context.shape;
  RankGroup& group = context.tensor;
  const std::span<float> partial =
      Workspace(arguments.workspace).take(shape.tokens() * shape.hidden);
  reference::embedding_forward<float>({.slice = vocabulary_slice(shape, group),
                                       .width = shape.hidden,
                                       .tokens = arguments.tokens,
                                       .weight = context.table.embedding.of(arguments.weights),
                                       .y = partial});
  reduce_tokens(shape, group, partial, arguments.x);
  if (shape.rotary) {
    return;
  }
  const std::span<const float> positions = context.table.positions.of(arguments.weights);
  const std::int64_t first = shape.sequence_parallel ? group.member() * shape.local_tokens() : 0;
  for (std::int64_t row = 0; row < shape.local_tokens(); ++row) {
    const std::int64_t position = position_of(context, first + row);
    for (std::int64_t i = 0; i < shape.hidden; ++i) {
      arguments.x[static_cast<std::size_t>(row * shape.hidden + i)] +=
          positions[static_cast<std::size_t>(position * shape.hidden + i)];
    }
  }
}

void embedding_backward_weight(const EndContext& context,
                               const EmbeddingBackwardWeight& arguments) {
  const ModelShape& shape = context.shape;
  RankGroup& group = context.tensor;
  reference::embedding_backward_weight<float>(
      {.slice = vocabulary_slice(shape, group),
       .width = shape.hidden,
       .tokens = arguments.tokens,
       .dy = arguments.dx,
       .dweight = context.table.embedding.of(arguments.gradients)});
  if (shape.rotary) {
    return;
  }
  const std::span<float> dpositions = context.table.positions.of(arguments.gradients);
  for (std::int64_t row = 0; row < shape.tokens(); ++row) {
    const std::int64_t position = position_of(context, row);
    for (std::int64_t i = 0; i < shape.hidden; ++i) {
      dpositions[static_cast<std::size_t>(position * shape.hidden + i)] +=
          arguments.dx[static_cast<std::size_t>(row * shape.hidden + i)];
    }
  }
}

HeadSaved::HeadSaved(const ModelShape& shape, Layout& layout)
    : norm(take_norm(shape, layout)),
      n(layout.take(shape.tokens() * shape.hidden)),
      dlogits(layout.take(shape.tokens() * shape.local_vocab())) {}

HeadGradientInput::HeadGradientInput(const ModelShape& shape, Layout& layout)
    : norm(take_norm(shape, layout)),
      dn(layout.take(shape.message_size())),
      n(layout.take(shape.tokens() * shape.hidden)),
      dlogits(layout.take(shape.tokens() * shape.local_vocab())) {}

std::int64_t head_forward_workspace(const ModelShape& shape) {
  return std::max(shape.message_size(), 3 * shape.tokens());
}

double head_forward(const EndContext& context, const HeadForward& arguments) {
  const ModelShape& shape = context.shape;
  RankGroup& group = context.tensor;
  const HeadSaved& at = arguments.at;
  const std::span<float> n = at.n.of(arguments.saved);
  const std::span<float> logits = at.dlogits.of(arguments.saved);
  const std::span<float> local = Workspace(arguments.workspace).take(shape.message_size());
  reference::norm_forward<float>({.shape = {shape.local_tokens(), shape.hidden},
                                  .x = at.norm.x.of(arguments.saved),
                                  .gamma = context.table.final_gamma.of(arguments.weights),
                                  .beta = context.table.final_beta.of(arguments.weights),
                                  .y = local,
                                  .mean = at.norm.mean.of(arguments.saved),
                                  .inverse = at.norm.inverse.of(arguments.saved)});
  gather_tokens(shape, group, local, n);
  reference::linear_forward<float>({.shape = {shape.tokens(), shape.hidden, shape.local_vocab()},
                                    .x = n,
                                    .weight = arguments.head,
                                    .y = logits});

  Workspace workspace(arguments.workspace);  // The normalised tokens are in `n` now.
  const std::span<float> largest = workspace.take(shape.tokens());
  const std::span<float> sums = workspace.take(shape.tokens());
  const std::span<float> targets = workspace.take(shape.tokens());
  const reference::VocabularySlice slice = vocabulary_slice(shape, group);
  reference::row_max<float>({slice, logits, largest});
  group.all_reduce_max(largest);
  reference::row_sums<float>({slice, arguments.targets, logits, largest, sums, targets});
  group.all_reduce_sum(sums);
  group.all_reduce_sum(targets);
  double loss = 0;
  for (std::size_t row = 0; row < sums.size(); ++row) {
    loss += std::log(static_cast<double>(sums[row])) - static_cast<double>(targets[row]);
  }
  const auto num_tokens = static_cast<double>(shape.tokens() * shape.context);
  reference::cross_entropy_backward<float>(
      {.slice = slice,
       .targets = arguments.targets,
       .largest = largest,
       .sums = sums,
       .scale = static_cast<float>(arguments.gradient_scale / num_tokens),
       .logits = logits});
  return loss / num_tokens;
}

std::int64_t head_backward_workspace(const ModelShape& shape) {
  return shape.tokens() * shape.hidden;
}

void head_backward_input(const EndContext& context, const HeadBackwardInput& arguments) {
  const ModelShape& shape = context.shape;
  RankGroup& group = context.tensor;
  const HeadSaved& at = arguments.at;
  const HeadGradientInput& to = arguments.input_at;
  const std::span<float> dpartial =
      Workspace(arguments.workspace).take(shape.tokens() * shape.hidden);
  const std::span<float> dn = to.dn.of(arguments.input);
  reference::linear_backward_input<float>(
      {.shape = {shape.tokens(), shape.hidden, shape.local_vocab()},
       .dy = at.dlogits.of(arguments.saved),
       .weight = arguments.head,
       .dx = dpartial});
  reduce_tokens(shape, group, dpartial, dn);
  reference::norm_backward_input<float>({.shape = {shape.local_tokens(), shape.hidden},
                                         .x = at.norm.x.of(arguments.saved),
                                         .gamma = context.table.final_gamma.of(arguments.weights),
                                         .mean = at.norm.mean.of(arguments.saved),
                                         .inverse = at.norm.inverse.of(arguments.saved),
                                         .dy = dn,
                                         .dx = arguments.gradient});
  const auto copy = [&](const Slice& from, const Slice& into) {
    const std::span<float> values = from.of(arguments.saved);
    std::copy(values.begin(), values.end(), into.of(arguments.input).begin());
  };
  copy(at.norm.x, to.norm.x);
  copy(at.norm.mean, to.norm.mean);
  copy(at.norm.inverse, to.norm.inverse);
  copy(at.n, to.n);
  copy(at.dlogits, to.dlogits);
}

void head_backward_weight(const EndContext& context, const HeadBackwardWeight& arguments) {
  const ModelShape& shape = context.shape;
  const HeadGradientInput& at = arguments.input_at;
  reference::linear_backward_weight<float>(
      {.shape = {shape.tokens(), shape.hidden, shape.local_vocab()},
       .x = at.n.of(arguments.input),
       .dy = at.dlogits.of(arguments.input),
       .dweight = arguments.dhead});
  reference::norm_backward_weight<float>(
      {.shape = {shape.local_tokens(), shape.hidden},
       .x = at.norm.x.of(arguments.input),
       .mean = at.norm.mean.of(arguments.input),
       .inverse = at.norm.inverse.of(arguments.input),
       .dy = at.dn.of(arguments.input),
       .dgamma = context.table.final_gamma.of(arguments.gradients),
       .dbeta = context.table.final_beta.of(arguments.gradients)});
}

}  // namespace megatwin::exec
