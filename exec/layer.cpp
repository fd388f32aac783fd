#include "exec/layer.h"

#include <algorithm>

#include "kernels/reference_activation.h"
#include "kernels/reference_linear.h"
#include "kernels/reference_norm.h"

namespace megatwin::exec {

namespace reference = kernels::reference;

namespace {

RingContext ring_context(const LayerContext& context) {
  return {context.shape, context.groups.context, context.positions};
}
ExpertContext expert_context(const LayerContext& context) {
  return {context.shape, context.groups, context.places, context.positions};
}

void copy(std::span<const float> from, std::span<float> to) {
  MEGATWIN_ASSERT(from.size() == to.size(), from.size(), " into ", to.size());
  std::copy(from.begin(), from.end(), to.begin());
}

// Attention that runs again before its backward leaves its sums in the workspace.
std::int64_t recomputed_log_sums(const ModelShape& shape) {
  return shape.recomputes_attention() ? shape.tokens() * shape.local_heads() : 0;
}

void add_rows(std::span<float> to, std::span<const float> row) {
  for (std::size_t i = 0; i < to.size() && !row.empty(); ++i) {
    to[i] += row[i % row.size()];
  }
}

// y = norm(x) of the local tokens, where x lies in `saved` already.
struct Norm {
  const NormPlaces& at;
  Slice gamma, beta;
  std::span<float> y;
};
void normalise(const LayerContext& context, const LayerForward& arguments, const Norm& norm) {
  const ModelShape& shape = context.shape;
  reference::norm_forward<float>({.shape = {shape.local_tokens(), shape.hidden},
                                  .x = norm.at.x.of(arguments.saved),
                                  .gamma = norm.gamma.of(arguments.weights),
                                  .beta = norm.beta.of(arguments.weights),
                                  .y = norm.y,
                                  .mean = norm.at.mean.of(arguments.saved),
                                  .inverse = norm.at.inverse.of(arguments.saved)});
}

// The same, with y = all tokens.
void norm_and_gather(const LayerContext& context, const LayerForward& arguments, const Norm& norm) {
  Workspace workspace(arguments.workspace);
  const std::span<float> local = workspace.take(context.shape.message_size());
  normalise(context, arguments, {norm.at, norm.gamma, norm.beta, local});
  gather_tokens(context.shape, context.groups.tensor, local, norm.y);
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
  reduce_tokens(shape, context.groups.tensor, partial, projection.y);
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

// The gradient of a norm's input, from that of its output in dn, is added to `gradient`.
struct NormBackward {
  const NormPlaces& at;
  Slice gamma;
  std::span<const float> dn;
  std::span<float> dx;  // Workspace.
};
void norm_backward(const LayerContext& context, const LayerBackwardInput& arguments,
                   const NormBackward& norm) {
  const ModelShape& shape = context.shape;
  const std::span<float> dx = norm.dx.first(norm.dn.size());
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
// output, all tokens, not yet summed over the group.
void mlp_backward(const LayerContext& context, const LayerBackwardInput& arguments,
                  std::span<float> dpartial, std::span<float> rest) {
  const ModelShape& shape = context.shape;
  const LayerGradientInput& to = arguments.input_at;
  const std::span<float> dproduct = Workspace(rest).take(shape.tokens() * shape.local_ffn());
  const std::span<float> ddown = to.ddown.of(arguments.input);
  const std::span<float> dup = to.dup.of(arguments.input);
  const std::span<const float> up = arguments.at.up.of(arguments.saved);
  gather_tokens(shape, context.groups.tensor, arguments.gradient, ddown);
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
                        std::span<float> dpartial, std::span<float> rest) {
  const ModelShape& shape = context.shape;
  const LayerGradientInput& to = arguments.input_at;
  Workspace workspace(rest);
  const std::span<float> dattention = workspace.take(shape.tokens() * shape.query_width());
  const std::span<float> dout = to.dout.of(arguments.input);
  const std::span<float> dqkv = to.dqkv.of(arguments.input);
  gather_tokens(shape, context.groups.tensor, arguments.gradient, dout);
  reference::linear_backward_input<float>(
      {.shape = {shape.tokens(), shape.query_width(), shape.hidden},
       .dy = dout,
       .weight = context.places.out_weight.of(arguments.weights),
       .dx = dattention});
  const std::span<float> qkv = arguments.at.qkv.of(arguments.saved);
  const std::span<float> out = arguments.at.out.of(arguments.saved);
  std::span<float> log_sums = arguments.at.log_sums.of(arguments.saved);
  if (shape.recomputes_attention()) {
    log_sums = workspace.take(shape.tokens() * shape.local_heads());
    ring_forward(ring_context(context),
                 {.qkv = qkv, .out = out, .log_sums = log_sums, .workspace = workspace.rest()});
  }
  ring_backward(ring_context(context), {.qkv = qkv,
                                        .out = out,
                                        .log_sums = log_sums,
                                        .dout = dattention,
                                        .dqkv = dqkv,
                                        .workspace = workspace.rest()});
  if (shape.rotary) {
    rotate(ring_context(context), dqkv, Turn::Back);
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

LayerSaved::LayerSaved(const ModelShape& shape, FeedForward kind, Layout& layout)
    : norm1(take_norm(shape, layout)),
      n1(layout.take(shape.tokens() * shape.hidden)),
      qkv(layout.take(shape.tokens() * shape.qkv_width())),
      out(layout.take(shape.tokens() * shape.query_width())),
      log_sums(
          layout.take(shape.recomputes_attention() ? 0 : shape.tokens() * shape.local_heads())),
      norm2(take_norm(shape, layout)) {
  if (kind == FeedForward::Experts) {
    n2 = layout.take(shape.message_size());
    experts = ExpertSaved(shape, layout);
    return;
  }
  n2 = layout.take(shape.tokens() * shape.hidden);
  up = layout.take(shape.tokens() * shape.up_width());
  product = layout.take(shape.tokens() * shape.local_ffn());
}

LayerGradientInput::LayerGradientInput(const ModelShape& shape, FeedForward kind, Layout& layout)
    : norm1(take_norm(shape, layout)),
      dn1(layout.take(shape.message_size())),
      n1(layout.take(shape.tokens() * shape.hidden)),
      dqkv(layout.take(shape.tokens() * shape.qkv_width())),
      out(layout.take(shape.tokens() * shape.query_width())),
      dout(layout.take(shape.tokens() * shape.hidden)),
      norm2(take_norm(shape, layout)),
      dn2(layout.take(shape.message_size())) {
  if (kind == FeedForward::Experts) {
    n2 = layout.take(shape.message_size());
    experts = ExpertGradientInput(shape, layout);
    return;
  }
  n2 = layout.take(shape.tokens() * shape.hidden);
  dup = layout.take(shape.tokens() * shape.up_width());
  product = layout.take(shape.tokens() * shape.local_ffn());
  ddown = layout.take(shape.tokens() * shape.hidden);
}

std::int64_t layer_forward_workspace(const ModelShape& shape, FeedForward kind) {
  const std::int64_t experts =
      kind == FeedForward::Experts ? expert_forward_workspace(shape) : std::int64_t{0};
  const std::int64_t attention = recomputed_log_sums(shape) + ring_forward_workspace(shape);
  return std::max({shape.tokens() * shape.hidden, attention, experts});
}

double layer_forward(const LayerContext& context, const LayerForward& arguments) {
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
    rotate(ring_context(context), saved(at.qkv), Turn::Forward);
  }
  Workspace workspace(arguments.workspace);
  const std::span<float> dropped_log_sums = workspace.take(recomputed_log_sums(shape));
  ring_forward(ring_context(context),
               {.qkv = saved(at.qkv),
                .out = saved(at.out),
                .log_sums = shape.recomputes_attention() ? dropped_log_sums : saved(at.log_sums),
                .workspace = workspace.rest()});
  project_to_residual(context, arguments,
                      {.in = shape.query_width(),
                       .input = saved(at.out),
                       .weight = places.out_weight,
                       .bias = places.out_bias,
                       .x = saved(at.norm1.x),
                       .y = saved(at.norm2.x)});
  if (context.feed_forward == FeedForward::Experts) {
    normalise(context, arguments, {at.norm2, places.norm2_gamma, places.norm2_beta, saved(at.n2)});
    const double loss =
        expert_forward(expert_context(context), {.weights = arguments.weights,
                                                 .gradient_scale = arguments.gradient_scale,
                                                 .x = saved(at.n2),
                                                 .saved = arguments.saved,
                                                 .at = at.experts,
                                                 .workspace = arguments.workspace,
                                                 .y = arguments.y});
    add(arguments.y, saved(at.norm2.x));
    return loss;
  }
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
  return 0;
}

std::int64_t layer_backward_workspace(const ModelShape& shape, FeedForward kind) {
  const std::int64_t attention =
      shape.tokens() * shape.query_width() + recomputed_log_sums(shape) +
      std::max(ring_backward_workspace(shape),
               shape.recomputes_attention() ? ring_forward_workspace(shape) : 0);
  const std::int64_t feed_forward = kind == FeedForward::Experts
                                        ? expert_backward_workspace(shape)
                                        : shape.tokens() * shape.local_ffn();
  return shape.tokens() * shape.hidden + std::max(attention, feed_forward);
}

void layer_backward_input(const LayerContext& context, const LayerBackwardInput& arguments) {
  const ModelShape& shape = context.shape;
  const LayerSaved& at = arguments.at;
  const LayerGradientInput& to = arguments.input_at;
  Workspace workspace(arguments.workspace);
  const std::span<float> dpartial = workspace.take(shape.tokens() * shape.hidden);
  const std::span<float> rest = workspace.rest();
  const std::span<float> dn1 = to.dn1.of(arguments.input);
  const std::span<float> dn2 = to.dn2.of(arguments.input);

  if (context.feed_forward == FeedForward::Experts) {
    expert_backward_input(expert_context(context), {.weights = arguments.weights,
                                                    .dy = arguments.gradient,
                                                    .saved = arguments.saved,
                                                    .at = at.experts,
                                                    .input = arguments.input,
                                                    .input_at = to.experts,
                                                    .workspace = rest,
                                                    .dx = dn2});
  } else {
    mlp_backward(context, arguments, dpartial, rest);
    reduce_tokens(shape, context.groups.tensor, dpartial, dn2);
    copy(at.product.of(arguments.saved), to.product.of(arguments.input));
  }
  norm_backward(context, arguments, {at.norm2, context.places.norm2_gamma, dn2, dpartial});
  attention_backward(context, arguments, dpartial, rest);
  reduce_tokens(shape, context.groups.tensor, dpartial, dn1);
  norm_backward(context, arguments, {at.norm1, context.places.norm1_gamma, dn1, dpartial});

  copy_norm(arguments, at.norm1, to.norm1);
  copy_norm(arguments, at.norm2, to.norm2);
  copy(at.n1.of(arguments.saved), to.n1.of(arguments.input));
  copy(at.out.of(arguments.saved), to.out.of(arguments.input));
  copy(at.n2.of(arguments.saved), to.n2.of(arguments.input));
}

void layer_backward_weight(const LayerContext& context, const LayerBackwardWeight& arguments) {
  const ModelShape& shape = context.shape;
  const LayerPlaces& places = context.places;
  const LayerGradientInput& at = arguments.input_at;
  const std::int64_t tokens = shape.tokens();
  const std::int64_t hidden = shape.hidden;
  if (context.feed_forward == FeedForward::Experts) {
    expert_backward_weight(expert_context(context), {.x = at.n2.of(arguments.input),
                                                     .input = arguments.input,
                                                     .input_at = at.experts,
                                                     .gradients = arguments.gradients});
  } else {
    add_matrix_gradient(arguments, {{tokens, shape.local_ffn(), hidden},
                                    at.product,
                                    at.ddown,
                                    places.down_weight,
                                    places.down_bias});
    add_matrix_gradient(
        arguments,
        {{tokens, hidden, shape.up_width()}, at.n2, at.dup, places.up_weight, places.up_bias});
  }
  add_norm_gradient(shape, arguments, {at.norm2, at.dn2, places.norm2_gamma, places.norm2_beta});
  add_matrix_gradient(
      arguments,
      {{tokens, shape.query_width(), hidden}, at.out, at.dout, places.out_weight, places.out_bias});
  add_matrix_gradient(
      arguments,
      {{tokens, hidden, shape.qkv_width()}, at.n1, at.dqkv, places.qkv_weight, places.qkv_bias});
  add_norm_gradient(shape, arguments, {at.norm1, at.dn1, places.norm1_gamma, places.norm1_beta});
}

void gather_tokens(const ModelShape& shape, RankGroup& tensor, std::span<const float> local,
                   std::span<float> whole) {
  if (shape.sequence_parallel) {
    tensor.all_gather(local, whole);
    return;
  }
  copy(local, whole);
}

void reduce_tokens(const ModelShape& shape, RankGroup& tensor, std::span<float> partial,
                   std::span<float> local) {
  if (shape.sequence_parallel) {
    tensor.reduce_scatter(partial, local);
    return;
  }
  tensor.all_reduce_sum(partial);
  copy(partial, local);
}

}  // namespace megatwin::exec
