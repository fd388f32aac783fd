#include "exec/layer.h"

#include <algorithm>

#include "kernels/reference_activation.h"
#include "kernels/reference_linear.h"
#include "kernels/reference_norm.h"

namespace megatwin::exec {

namespace reference = kernels::reference;

namespace {

reference::AttentionShape attention_shape(const ModelShape& shape) {
  return {.batch = shape.micro_batch,
          .sequence = shape.sequence,
          .heads = shape.local_heads(),
          .kv_heads = shape.local_kv_heads(),
          .head_dim = shape.head_dim};
}

void copy(std::span<const float> from, std::span<float> to) {
  MEGATWIN_ASSERT(from.size() == to.size(), from.size(), " into ", to.size());
  std::copy(from.begin(), from.end(), to.begin());
}

void add(std::span<float> to, std::span<const float> values) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += values[i];
  }
}

void add_rows(std::span<float> to, std::span<const float> row) {
  for (std::size_t i = 0; i < to.size() && !row.empty(); ++i) {
    to[i] += row[i % row.size()];
  }
}

// whole = all tokens of norm(x), where x lies in `saved` already.
struct NormAndGather {
  const NormPlaces& at;
  Slice gamma, beta;
  std::span<float> whole;
};
void norm_and_gather(const LayerContext& context, const LayerForward& arguments,
                     const NormAndGather& norm) {
  Workspace workspace(arguments.workspace);
  const ModelShape& shape = context.shape;
  const std::span<float> local = workspace.take(shape.message_size());
  reference::norm_forward<float>({.shape = {shape.local_tokens(), shape.hidden},
                                  .x = norm.at.x.of(arguments.saved),
                                  .gamma = norm.gamma.of(arguments.weights),
                                  .beta = norm.beta.of(arguments.weights),
                                  .y = local,
                                  .mean = norm.at.mean.of(arguments.saved),
                                  .inverse = norm.at.inverse.of(arguments.saved)});
  gather_tokens(shape, context.group, local, norm.whole);
}

// y = x + the row-cut matrix of its input, summed over the group, + bias.
struct ResidualProjection {
  std::int64_t in = 0;
  std::span<const float> input;
  Slice weight, bias;
  std::span<const float> x;
  std::span<float> y;
};
void project_to_residual(const LayerContext& context, const LayerForward& arguments,
                         const ResidualProjection& projection) {
  Workspace workspace(arguments.workspace);
  const ModelShape& shape = context.shape;
  const std::span<float> partial = workspace.take(shape.tokens() * shape.hidden);
  reference::linear_forward<float>({.shape = {shape.tokens(), projection.in, shape.hidden},
                                    .x = projection.input,
                                    .weight = projection.weight.of(arguments.weights),
                                    .y = partial});
  reduce_tokens(shape, context.group, partial, projection.y);
  add_rows(projection.y, projection.bias.of(arguments.weights));
  add(projection.y, projection.x);
}

void activate(const ModelShape& shape, std::span<const float> up, std::span<float> product) {
  if (shape.gated) {
    reference::swiglu_forward<float>({{shape.tokens(), shape.local_ffn()}, up, product});
    return;
  }
  reference::gelu_forward<float>({up, product});
}

// The gradient of a norm's input is added to `gradient`. `dpartial`: the gradient of the norm's
// output, all tokens, not yet summed over the group; dn receives this member's sum.
struct NormBackward {
  const NormPlaces& at;
  Slice gamma;
  std::span<float> dpartial, dn;
};
void norm_backward(const LayerContext& context, const LayerBackwardInput& arguments,
                   const NormBackward& norm) {
  const ModelShape& shape = context.shape;
  reduce_tokens(shape, context.group, norm.dpartial, norm.dn);
  const std::span<float> dx = norm.dpartial.first(norm.dn.size());
  reference::norm_backward_input<float>({.shape = {shape.local_tokens(), shape.hidden},
                                         .x = norm.at.x.of(arguments.saved),
                                         .gamma = norm.gamma.of(arguments.weights),
                                         .mean = norm.at.mean.of(arguments.saved),
                                         .inverse = norm.at.inverse.of(arguments.saved),
                                         .dy = norm.dn,
                                         .dx = dx});
  add(arguments.gradient, dx);
}

// Down projection and activation: from the gradient of the residual to that of the second norm's
// output.
void mlp_backward(const LayerContext& context, const LayerBackwardInput& arguments,
                  std::span<float> dpartial) {
  const ModelShape& shape = context.shape;
  const LayerGradientInput& to = arguments.input_at;
  Workspace workspace(arguments.workspace);
  workspace.take(shape.tokens() * shape.hidden);  // dpartial.
  const std::span<float> dproduct = workspace.take(shape.tokens() * shape.local_ffn());
  const std::span<float> ddown = to.ddown.of(arguments.input);
  const std::span<float> dup = to.dup.of(arguments.input);
  const std::span<const float> up = arguments.at.up.of(arguments.saved);
  gather_tokens(shape, context.group, arguments.gradient, ddown);
  reference::linear_backward_input<float>(
      {.shape = {shape.tokens(), shape.local_ffn(), shape.hidden},
       .dy = ddown,
       .weight = context.places.down_weight.of(arguments.weights),
       .dx = dproduct});
  if (shape.gated) {
    reference::swiglu_backward<float>({{shape.tokens(), shape.local_ffn()}, up, dproduct, dup});
  } else {
    reference::gelu_backward<float>({up, dproduct, dup});
  }
  reference::linear_backward_input<float>(
      {.shape = {shape.tokens(), shape.hidden, shape.up_width()},
       .dy = dup,
       .weight = context.places.up_weight.of(arguments.weights),
       .dx = dpartial});
}

// Output projection, attention and rotation: likewise to the first norm's output.
void attention_backward(const LayerContext& context, const LayerBackwardInput& arguments,
                        std::span<float> dpartial) {
  const ModelShape& shape = context.shape;
  const LayerGradientInput& to = arguments.input_at;
  Workspace workspace(arguments.workspace);
  workspace.take(shape.tokens() * shape.hidden);  // dpartial.
  const std::span<float> dattention = workspace.take(shape.tokens() * shape.query_width());
  const std::span<float> dout = to.dout.of(arguments.input);
  const std::span<float> dqkv = to.dqkv.of(arguments.input);
  gather_tokens(shape, context.group, arguments.gradient, dout);
  reference::linear_backward_input<float>(
      {.shape = {shape.tokens(), shape.query_width(), shape.hidden},
       .dy = dout,
       .weight = context.places.out_weight.of(arguments.weights),
       .dx = dattention});
  reference::attention_backward<float>({.shape = attention_shape(shape),
                                        .qkv = arguments.at.qkv.of(arguments.saved),
                                        .out = arguments.at.out.of(arguments.saved),
                                        .log_sums = arguments.at.log_sums.of(arguments.saved),
                                        .dout = dattention,
                                        .dqkv = dqkv});
  if (shape.rotary) {
    reference::rotary<float>({attention_shape(shape), dqkv, reference::RotaryDirection::Inverse});
  }
  reference::linear_backward_input<float>(
      {.shape = {shape.tokens(), shape.hidden, shape.qkv_width()},
       .dy = dqkv,
       .weight = context.places.qkv_weight.of(arguments.weights),
       .dx = dpartial});
}

void copy_norm(const LayerBackwardInput& arguments, const NormPlaces& from, const NormPlaces& to) {
  copy(from.x.of(arguments.saved), to.x.of(arguments.input));
  copy(from.mean.of(arguments.saved), to.mean.of(arguments.input));
  copy(from.inverse.of(arguments.saved), to.inverse.of(arguments.input));
}

// One matrix with its input and the gradient of its output.
struct MatrixGradient {
  reference::LinearShape shape;
  Slice x, dy, weight, bias;
};
void add_matrix_gradient(const LayerBackwardWeight& arguments, const MatrixGradient& matrix) {
  reference::linear_backward_weight<float>({.shape = matrix.shape,
                                            .x = matrix.x.of(arguments.input),
                                            .dy = matrix.dy.of(arguments.input),
                                            .dweight = matrix.weight.of(arguments.gradients),
                                            .dbias = matrix.bias.of(arguments.gradients)});
}

struct NormGradient {
  const NormPlaces& at;
  Slice dy, gamma, beta;
};
void add_norm_gradient(const ModelShape& shape, const LayerBackwardWeight& arguments,
                       const NormGradient& norm) {
  reference::norm_backward_weight<float>({.shape = {shape.local_tokens(), shape.hidden},
                                          .x = norm.at.x.of(arguments.input),
                                          .mean = norm.at.mean.of(arguments.input),
                                          .inverse = norm.at.inverse.of(arguments.input),
                                          .dy = norm.dy.of(arguments.input),
                                          .dgamma = norm.gamma.of(arguments.gradients),
                                          .dbeta = norm.beta.of(arguments.gradients)});
}

}  // namespace

NormPlaces take_norm(const ModelShape& shape, Layout& layout) {
  NormPlaces places;
  places.x = layout.take(shape.message_size());
  places.mean = layout.take(shape.centred_norm ? shape.local_tokens() : 0);
  places.inverse = layout.take(shape.local_tokens());
  return places;
}

LayerSaved::LayerSaved(const ModelShape& shape, Layout& layout)
    : norm1(take_norm(shape, layout)),
      n1(layout.take(shape.tokens() * shape.hidden)),
      qkv(layout.take(shape.tokens() * shape.qkv_width())),
      out(layout.take(shape.tokens() * shape.query_width())),
      log_sums(layout.take(shape.tokens() * shape.local_heads())),
      norm2(take_norm(shape, layout)),
      n2(layout.take(shape.tokens() * shape.hidden)),
      up(layout.take(shape.tokens() * shape.up_width())),
      product(layout.take(shape.tokens() * shape.local_ffn())) {}

LayerGradientInput::LayerGradientInput(const ModelShape& shape, Layout& layout)
    : norm1(take_norm(shape, layout)),
      dn1(layout.take(shape.message_size())),
      n1(layout.take(shape.tokens() * shape.hidden)),
      dqkv(layout.take(shape.tokens() * shape.qkv_width())),
      out(layout.take(shape.tokens() * shape.query_width())),
      dout(layout.take(shape.tokens() * shape.hidden)),
      norm2(take_norm(shape, layout)),
      dn2(layout.take(shape.message_size())),
      n2(layout.take(shape.tokens() * shape.hidden)),
      dup(layout.take(shape.tokens() * shape.up_width())),
      product(layout.take(shape.tokens() * shape.local_ffn())),
      ddown(layout.take(shape.tokens() * shape.hidden)) {}

std::int64_t layer_forward_workspace(const ModelShape& shape) {
  return shape.tokens() * shape.hidden;
}

void layer_forward(const LayerContext& context, const LayerForward& arguments) {
  const ModelShape& shape = context.shape;
  const LayerPlaces& places = context.places;
  const LayerSaved& at = arguments.at;
  const auto saved = [&](const Slice& slice) { return slice.of(arguments.saved); };

  norm_and_gather(context, arguments,
                  {at.norm1, places.norm1_gamma, places.norm1_beta, saved(at.n1)});
  reference::linear_forward<float>({.shape = {shape.tokens(), shape.hidden, shape.qkv_width()},
                                    .x = saved(at.n1),
                                    .weight = places.qkv_weight.of(arguments.weights),
                                    .bias = places.qkv_bias.of(arguments.weights),
                                    .y = saved(at.qkv)});
  if (shape.rotary) {
    reference::rotary<float>({attention_shape(shape), saved(at.qkv)});
  }
  reference::attention_forward<float>(
      {attention_shape(shape), saved(at.qkv), saved(at.out), saved(at.log_sums)});
  project_to_residual(context, arguments,
                      {.in = shape.query_width(),
                       .input = saved(at.out),
                       .weight = places.out_weight,
                       .bias = places.out_bias,
                       .x = saved(at.norm1.x),
                       .y = saved(at.norm2.x)});
  norm_and_gather(context, arguments,
                  {at.norm2, places.norm2_gamma, places.norm2_beta, saved(at.n2)});
  reference::linear_forward<float>({.shape = {shape.tokens(), shape.hidden, shape.up_width()},
                                    .x = saved(at.n2),
                                    .weight = places.up_weight.of(arguments.weights),
                                    .bias = places.up_bias.of(arguments.weights),
                                    .y = saved(at.up)});
  activate(shape, saved(at.up), saved(at.product));
  project_to_residual(context, arguments,
                      {.in = shape.local_ffn(),
                       .input = saved(at.product),
                       .weight = places.down_weight,
                       .bias = places.down_bias,
                       .x = saved(at.norm2.x),
                       .y = arguments.y});
}

std::int64_t layer_backward_workspace(const ModelShape& shape) {
  return shape.tokens() * (shape.hidden + std::max(shape.local_ffn(), shape.query_width()));
}

void layer_backward_input(const LayerContext& context, const LayerBackwardInput& arguments) {
  const ModelShape& shape = context.shape;
  const LayerSaved& at = arguments.at;
  const LayerGradientInput& to = arguments.input_at;
  const std::span<float> dpartial =
      Workspace(arguments.workspace).take(shape.tokens() * shape.hidden);

  mlp_backward(context, arguments, dpartial);
  norm_backward(context, arguments,
                {at.norm2, context.places.norm2_gamma, dpartial, to.dn2.of(arguments.input)});
  attention_backward(context, arguments, dpartial);
  norm_backward(context, arguments,
                {at.norm1, context.places.norm1_gamma, dpartial, to.dn1.of(arguments.input)});

  copy_norm(arguments, at.norm1, to.norm1);
  copy_norm(arguments, at.norm2, to.norm2);
  copy(at.n1.of(arguments.saved), to.n1.of(arguments.input));
  copy(at.out.of(arguments.saved), to.out.of(arguments.input));
  copy(at.n2.of(arguments.saved), to.n2.of(arguments.input));
  copy(at.product.of(arguments.saved), to.product.of(arguments.input));
}

void layer_backward_weight(const LayerContext& context, const LayerBackwardWeight& arguments) {
  const ModelShape& shape = context.shape;
  const LayerPlaces& places = context.places;
  const LayerGradientInput& at = arguments.input_at;
  const std::int64_t tokens = shape.tokens();
  const std::int64_t hidden = shape.hidden;
  add_matrix_gradient(arguments, {{tokens, shape.local_ffn(), hidden},
                                  at.product,
                                  at.ddown,
                                  places.down_weight,
                                  places.down_bias});
  add_matrix_gradient(
      arguments,
      {{tokens, hidden, shape.up_width()}, at.n2, at.dup, places.up_weight, places.up_bias});
  add_norm_gradient(shape, arguments, {at.norm2, at.dn2, places.norm2_gamma, places.norm2_beta});
  add_matrix_gradient(
      arguments,
      {{tokens, shape.query_width(), hidden}, at.out, at.dout, places.out_weight, places.out_bias});
  add_matrix_gradient(
      arguments,
      {{tokens, hidden, shape.qkv_width()}, at.n1, at.dqkv, places.qkv_weight, places.qkv_bias});
  add_norm_gradient(shape, arguments, {at.norm1, at.dn1, places.norm1_gamma, places.norm1_beta});
}

void gather_tokens(const ModelShape& shape, TensorGroup& group, std::span<const float> local,
                   std::span<float> whole) {
  if (shape.sequence_parallel) {
    group.all_gather(local, whole);
    return;
  }
  copy(local, whole);
}

void reduce_tokens(const ModelShape& shape, TensorGroup& group, std::span<float> partial,
                   std::span<float> local) {
  if (shape.sequence_parallel) {
    group.reduce_scatter(partial, local);
    return;
  }
  group.all_reduce_sum(partial);
  copy(partial, local);
}

}  // namespace megatwin::exec
