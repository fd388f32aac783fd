#include "exec/expert_layer.h"

#include <algorithm>
#include <vector>

#include "exec/expert_dispatch.h"
#include "kernels/reference_activation.h"
#include "kernels/reference_linear.h"
#include "kernels/reference_router.h"
#include "model/numbers.h"

namespace megatwin::exec {

namespace reference = kernels::reference;

namespace {

using model::as_index;

reference::RouterShape router_shape(const ModelShape& shape) {
  return {shape.local_tokens(), shape.experts.count, shape.experts.per_token};
}

// The choices of every token of the micro-batch, token by token in the order of the text, from
// those of the local ones.
std::vector<float> gather_choices(const ExpertContext& context, std::span<const float> local) {
  const ModelShape& shape = context.shape;
  const std::int64_t k = shape.experts.per_token;
  std::vector<float> of_context(local.begin(), local.end());
  if (shape.sequence_parallel) {
    of_context.resize(as_index(shape.tokens() * k));
    context.groups.tensor.all_gather(local, of_context);
  }
  std::vector<float> by_member(of_context.size() * as_index(shape.context));
  context.groups.context.all_gather(of_context, by_member);
  std::vector<float> all(by_member.size());
  auto from = by_member.begin();
  for (const std::vector<std::int64_t>& positions : context.positions) {
    for (std::int64_t sequence = 0; sequence < shape.micro_batch; ++sequence) {
      for (const std::int64_t position : positions) {
        std::copy(from, from + k, all.begin() + (sequence * shape.sequence + position) * k);
        from += k;
      }
    }
  }
  return all;
}

// Where the local tokens are in the order of the text.
std::vector<std::int64_t> places_in_text(const ExpertContext& context) {
  const ModelShape& shape = context.shape;
  const auto& positions = context.positions[as_index(context.groups.context.member())];
  const std::int64_t first =
      shape.sequence_parallel ? context.groups.tensor.member() * shape.local_tokens() : 0;
  std::vector<std::int64_t> places;
  for (std::int64_t row = first; row < first + shape.local_tokens(); ++row) {
    places.push_back(row / shape.local_sequence() * shape.sequence +
                     positions[as_index(row % shape.local_sequence())]);
  }
  return places;
}

// Marks what exceeds the capacity: all first choices come before all second ones, and of equals the
// token that is earlier in the text (Lepikhin et al., arXiv:2006.16668, algorithm 1).
void drop(const ModelShape& shape, std::vector<float>& choices) {
  const std::int64_t capacity = shape.expert_capacity();
  if (capacity == 0) {
    return;
  }
  std::vector<std::int64_t> taken(as_index(shape.experts.count), 0);
  const std::int64_t k = shape.experts.per_token;
  for (std::int64_t choice = 0; choice < k; ++choice) {
    for (std::int64_t token = 0; token * k < std::ssize(choices); ++token) {
      float& expert = choices[as_index(token * k + choice)];
      if (++taken[as_index(static_cast<std::int64_t>(expert))] > capacity) {
        expert = -1 - expert;
      }
    }
  }
}

// Of the loss alpha · E · Σ f_e · P_e with f_e the share of all assignments that chose expert e and
// P_e its mean probability: its slope in the probability of one token (Fedus et al.,
// arXiv:2101.03961, equations 4 to 6, with f over the k choices of a token).
void balance_slopes(const ModelShape& shape, std::span<const float> choices,
                    std::span<float> slopes) {
  std::fill(slopes.begin(), slopes.end(), 0.0F);
  for (const float expert : choices) {
    slopes[as_index(static_cast<std::int64_t>(expert))] += 1;
  }
  const auto num_tokens = static_cast<double>(shape.micro_batch * shape.sequence);
  const double factor = shape.experts.settings.balance_loss *
                        static_cast<double>(shape.experts.count) /
                        (num_tokens * static_cast<double>(choices.size()));
  for (float& slope : slopes) {
    slope = static_cast<float>(factor * slope);
  }
}

// Fills probabilities, choices, weights and slopes.
void route(const ExpertContext& context, const ExpertForward& arguments) {
  const ModelShape& shape = context.shape;
  const ExpertSaved& at = arguments.at;
  const std::span<float> probabilities = at.probabilities.of(arguments.saved);
  const std::span<float> choices = at.choices.of(arguments.saved);
  std::vector<std::int32_t> chosen(choices.size());
  reference::linear_forward<float>(
      {.shape = {shape.local_tokens(), shape.hidden, shape.experts.count},
       .x = arguments.x,
       .weight = context.places.router.of(arguments.weights),
       .y = probabilities});
  reference::router_forward<float>({.shape = router_shape(shape),
                                    .logits = probabilities,
                                    .choices = chosen,
                                    .weights = at.weights.of(arguments.saved)});
  std::copy(chosen.begin(), chosen.end(), choices.begin());
  std::vector<float> all = gather_choices(context, choices);
  balance_slopes(shape, all, at.slopes.of(arguments.saved));
  drop(shape, all);
  const std::int64_t k = shape.experts.per_token;
  auto to = choices.begin();
  for (const std::int64_t place : places_in_text(context)) {
    to = std::copy_n(all.begin() + place * k, k, to);
  }
}

// The kept experts of each assignment as numbers, and those that the router chose.
struct Choices {
  explicit Choices(std::span<const float> saved) {
    for (const float value : saved) {
      const auto choice = static_cast<std::int32_t>(value);
      kept.push_back(choice);
      chosen.push_back(choice < 0 ? -1 - choice : choice);
    }
  }
  std::vector<std::int32_t> kept, chosen;
};

// Rows [begin, begin + count) of a buffer whose rows have `width` numbers.
template <class T>
std::span<T> rows_of(std::span<T> buffer, std::int64_t begin, std::int64_t count,
                     std::int64_t width) {
  return buffer.subspan(as_index(begin * width), as_index(count * width));
}

// Calls visit(expert, first row, rows) for each local expert that has any.
template <class Count, class Visit>
void for_each_expert(const ModelShape& shape, Count rows_of_expert, Visit visit) {
  std::int64_t first = 0;
  for (std::int64_t expert = 0; expert < shape.experts.local_count(); ++expert) {
    const std::int64_t rows = rows_of_expert(expert);
    if (rows > 0) {
      visit(as_index(expert), first, rows);
    }
    first += rows;
  }
}

// outputs = the local experts of the rows in `saved`.
void run_experts(const ExpertContext& context, const ExpertForward& arguments,
                 const ExpertDispatch& dispatch, std::span<float> outputs) {
  const ModelShape& shape = context.shape;
  const ExpertSaved& at = arguments.at;
  const std::int64_t ffn = shape.experts.local_ffn();
  const std::int64_t up_width = shape.expert_up_width();
  const auto rows_of_expert = [&](std::int64_t expert) { return dispatch.rows_of(expert); };
  for_each_expert(shape, rows_of_expert,
                  [&](std::size_t expert, std::int64_t first, std::int64_t rows) {
                    const auto up = rows_of(at.up.of(arguments.saved), first, rows, up_width);
                    const auto product = rows_of(at.product.of(arguments.saved), first, rows, ffn);
                    reference::linear_forward<float>(
                        {.shape = {rows, shape.hidden, up_width},
                         .x = rows_of(at.rows.of(arguments.saved), first, rows, shape.hidden),
                         .weight = context.places.expert_up[expert].of(arguments.weights),
                         .y = up});
                    if (shape.gated) {
                      reference::swiglu_forward<float>({{rows, ffn}, up, product});
                    } else {
                      reference::gelu_forward<float>({up, product});
                    }
                    reference::linear_forward<float>(
                        {.shape = {rows, ffn, shape.hidden},
                         .x = product,
                         .weight = context.places.expert_down[expert].of(arguments.weights),
                         .y = rows_of(outputs, first, rows, shape.hidden)});
                  });
}

// dx of the rows of each local expert, from ddown in `input`.
void run_experts_back(const ExpertContext& context, const ExpertBackwardInput& arguments,
                      const ExpertDispatch& dispatch, std::span<float> dproduct,
                      std::span<float> dx) {
  const ModelShape& shape = context.shape;
  const ExpertGradientInput& to = arguments.input_at;
  const std::int64_t ffn = shape.experts.local_ffn();
  const std::int64_t up_width = shape.expert_up_width();
  const auto rows_of_expert = [&](std::int64_t expert) { return dispatch.rows_of(expert); };
  for_each_expert(
      shape, rows_of_expert, [&](std::size_t expert, std::int64_t first, std::int64_t rows) {
        const auto up = rows_of(arguments.at.up.of(arguments.saved), first, rows, up_width);
        const auto dup = rows_of(to.dup.of(arguments.input), first, rows, up_width);
        const auto dproduct_rows = rows_of(dproduct, first, rows, ffn);
        reference::linear_backward_input<float>(
            {.shape = {rows, ffn, shape.hidden},
             .dy = rows_of(to.ddown.of(arguments.input), first, rows, shape.hidden),
             .weight = context.places.expert_down[expert].of(arguments.weights),
             .dx = dproduct_rows});
        if (shape.gated) {
          reference::swiglu_backward<float>({{rows, ffn}, up, dproduct_rows, dup});
        } else {
          reference::gelu_backward<float>({up, dproduct_rows, dup});
        }
        reference::linear_backward_input<float>(
            {.shape = {rows, shape.hidden, up_width},
             .dy = dup,
             .weight = context.places.expert_up[expert].of(arguments.weights),
             .dx = rows_of(dx, first, rows, shape.hidden)});
      });
}

}  // namespace

ExpertSaved::ExpertSaved(const ModelShape& shape, Layout& layout)
    : probabilities(layout.take(shape.local_tokens() * shape.experts.count)),
      choices(layout.take(shape.assignments())),
      weights(layout.take(shape.assignments())),
      slopes(layout.take(shape.experts.count)),
      outputs(layout.take(shape.assignments() * shape.hidden)),
      rows(layout.take(shape.expert_rows_max() * shape.hidden)),
      up(layout.take(shape.expert_rows_max() * shape.expert_up_width())),
      product(layout.take(shape.expert_rows_max() * shape.experts.local_ffn())) {}

ExpertGradientInput::ExpertGradientInput(const ModelShape& shape, Layout& layout)
    : dlogits(layout.take(shape.local_tokens() * shape.experts.count)),
      counts(layout.take(shape.experts.local_count())),
      rows(layout.take(shape.expert_rows_max() * shape.hidden)),
      dup(layout.take(shape.expert_rows_max() * shape.expert_up_width())),
      product(layout.take(shape.expert_rows_max() * shape.experts.local_ffn())),
      ddown(layout.take(shape.expert_rows_max() * shape.hidden)) {}

std::int64_t expert_forward_workspace(const ModelShape& shape) {
  return dispatch_workspace(shape) + shape.expert_rows_max() * shape.hidden;
}

double expert_forward(const ExpertContext& context, const ExpertForward& arguments) {
  const ModelShape& shape = context.shape;
  const ExpertSaved& at = arguments.at;
  route(context, arguments);
  const Choices choices(at.choices.of(arguments.saved));
  ExpertDispatch dispatch(shape, context.groups, choices.kept);
  Workspace workspace(arguments.workspace);
  const std::span<float> on_the_way = workspace.take(dispatch_workspace(shape));
  const std::span<float> outputs = workspace.take(shape.expert_rows_max() * shape.hidden);
  dispatch.to_experts({.from = arguments.x,
                       .assignments_per_row = shape.experts.per_token,
                       .to = at.rows.of(arguments.saved),
                       .workspace = on_the_way});
  run_experts(context, arguments, dispatch, outputs);
  const std::span<float> returned = at.outputs.of(arguments.saved);
  dispatch.from_experts({.from = outputs, .to = returned, .workspace = on_the_way});

  const std::span<float> weights = at.weights.of(arguments.saved);
  std::fill(arguments.y.begin(), arguments.y.end(), 0.0F);
  const auto hidden = as_index(shape.hidden);
  for (std::size_t assignment = 0; assignment < weights.size(); ++assignment) {
    const std::size_t row = assignment / as_index(shape.experts.per_token);
    for (std::size_t i = 0; i < hidden; ++i) {
      arguments.y[row * hidden + i] += weights[assignment] * returned[assignment * hidden + i];
    }
  }
  // The slopes become those of the loss as it is scaled.
  double loss = 0;
  const std::span<float> slopes = at.slopes.of(arguments.saved);
  const std::span<float> probabilities = at.probabilities.of(arguments.saved);
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    loss += static_cast<double>(probabilities[i]) * slopes[i % slopes.size()];
  }
  for (float& slope : slopes) {
    slope *= static_cast<float>(arguments.gradient_scale);
  }
  return loss;
}

std::int64_t expert_backward_workspace(const ModelShape& shape) {
  return shape.assignments() * (shape.hidden + 1) + dispatch_workspace(shape) +
         shape.expert_rows_max() * (shape.experts.local_ffn() + shape.hidden);
}

void expert_backward_input(const ExpertContext& context, const ExpertBackwardInput& arguments) {
  const ModelShape& shape = context.shape;
  const ExpertSaved& at = arguments.at;
  const ExpertGradientInput& to = arguments.input_at;
  const auto saved = [&](const Slice& slice) { return slice.of(arguments.saved); };
  const auto input = [&](const Slice& slice) { return slice.of(arguments.input); };
  Workspace workspace(arguments.workspace);
  const std::span<float> by_assignment = workspace.take(shape.assignments() * shape.hidden);
  const std::span<float> dweights = workspace.take(shape.assignments());
  const std::span<float> on_the_way = workspace.take(dispatch_workspace(shape));
  const std::span<float> dproduct =
      workspace.take(shape.expert_rows_max() * shape.experts.local_ffn());
  const std::span<float> dx_rows = workspace.take(shape.expert_rows_max() * shape.hidden);
  const auto hidden = as_index(shape.hidden);
  const auto k = as_index(shape.experts.per_token);

  const std::span<float> weights = saved(at.weights);
  const std::span<float> outputs = saved(at.outputs);
  for (std::size_t assignment = 0; assignment < weights.size(); ++assignment) {
    const float* dy = arguments.dy.data() + assignment / k * hidden;
    float dweight = 0;
    for (std::size_t i = 0; i < hidden; ++i) {
      dweight += dy[i] * outputs[assignment * hidden + i];
      by_assignment[assignment * hidden + i] = weights[assignment] * dy[i];
    }
    dweights[assignment] = dweight;
  }
  const Choices choices(saved(at.choices));
  ExpertDispatch dispatch(shape, context.groups, choices.kept);
  dispatch.to_experts({.from = by_assignment, .to = input(to.ddown), .workspace = on_the_way});
  run_experts_back(context, arguments, dispatch, dproduct, dx_rows);
  dispatch.from_experts({.from = dx_rows, .to = by_assignment, .workspace = on_the_way});

  reference::router_backward<float>({.shape = router_shape(shape),
                                     .probabilities = saved(at.probabilities),
                                     .choices = choices.chosen,
                                     .weights = weights,
                                     .dweights = dweights,
                                     .slopes = saved(at.slopes),
                                     .dlogits = input(to.dlogits)});
  reference::linear_backward_input<float>(
      {.shape = {shape.local_tokens(), shape.hidden, shape.experts.count},
       .dy = input(to.dlogits),
       .weight = context.places.router.of(arguments.weights),
       .dx = arguments.dx});
  for (std::size_t assignment = 0; assignment < weights.size(); ++assignment) {
    for (std::size_t i = 0; i < hidden; ++i) {
      arguments.dx[assignment / k * hidden + i] += by_assignment[assignment * hidden + i];
    }
  }

  const auto copy = [&](const Slice& from, const Slice& into) {
    std::copy_n(saved(from).begin(), from.size, input(into).begin());
  };
  copy(at.rows, to.rows);
  copy(at.product, to.product);
  for (std::int64_t expert = 0; expert < shape.experts.local_count(); ++expert) {
    input(to.counts)[as_index(expert)] = static_cast<float>(dispatch.rows_of(expert));
  }
}

void expert_backward_weight(const ExpertContext& context, const ExpertBackwardWeight& arguments) {
  const ModelShape& shape = context.shape;
  const ExpertGradientInput& at = arguments.input_at;
  const auto input = [&](const Slice& slice) { return slice.of(arguments.input); };
  const std::int64_t ffn = shape.experts.local_ffn();
  const std::int64_t up_width = shape.expert_up_width();
  reference::linear_backward_weight<float>(
      {.shape = {shape.local_tokens(), shape.hidden, shape.experts.count},
       .x = arguments.x,
       .dy = input(at.dlogits),
       .dweight = context.places.router.of(arguments.gradients)});
  const auto rows_of_expert = [&](std::int64_t expert) {
    return static_cast<std::int64_t>(input(at.counts)[as_index(expert)]);
  };
  for_each_expert(shape, rows_of_expert,
                  [&](std::size_t expert, std::int64_t first, std::int64_t rows) {
                    reference::linear_backward_weight<float>(
                        {.shape = {rows, ffn, shape.hidden},
                         .x = rows_of(input(at.product), first, rows, ffn),
                         .dy = rows_of(input(at.ddown), first, rows, shape.hidden),
                         .dweight = context.places.expert_down[expert].of(arguments.gradients)});
                    reference::linear_backward_weight<float>(
                        {.shape = {rows, shape.hidden, up_width},
                         .x = rows_of(input(at.rows), first, rows, shape.hidden),
                         .dy = rows_of(input(at.dup), first, rows, up_width),
                         .dweight = context.places.expert_up[expert].of(arguments.gradients)});
                  });
}

}  // namespace megatwin::exec
