#include "exec/model_chunk.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "exec/saved_parts.h"

namespace megatwin::exec {
namespace {

FeedForward kind_of(const ModelShape& shape, int layer) {
  return shape.has_experts(layer) ? FeedForward::Experts : FeedForward::Dense;
}

// Whether the head's matrix is the embedding of the same chunk.
bool head_is_embedding(const ParameterTable& table) {
  return table.head_bundle.num_units > 0 && table.head.size == 0;
}

// What fetch() takes for the head: its bundle, and that of the embedding when it has its matrix.
std::int64_t head_fetch_workspace(const ModelShape& shape, const ParameterTable& table) {
  return fetch_workspace(shape, table.head_bundle) +
         (head_is_embedding(table) ? fetch_workspace(shape, table.embedding_bundle) : 0);
}

std::string layer_name(std::size_t layer) { return "layers." + std::to_string(layer); }

// The parts of a buffer, every number of which is in one of them.
std::vector<HeldPart> all_of(std::int64_t size, std::vector<HeldPart> parts) {
  const std::int64_t described =
      std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                      [](std::int64_t sum, const HeldPart& held) { return sum + held.held.size; });
  MEGATWIN_ASSERT(described == size, described, " of ", size);
  return parts;
}

}  // namespace

TokenBatch local_tokens(const ModelShape& shape, int context_member, const TokenBatch& whole) {
  if (shape.context == 1) {
    return whole;
  }
  TokenBatch local;
  const auto positions = local_positions(shape, context_member);
  for (std::int64_t sequence = 0; sequence < shape.micro_batch; ++sequence) {
    for (const std::int64_t position : positions) {
      const auto index = static_cast<std::size_t>(sequence * shape.sequence + position);
      local.tokens.push_back(whole.tokens[index]);
      local.targets.push_back(whole.targets[index]);
    }
  }
  return local;
}

ModelChunk::Buffers::Buffers(const ModelShape& shape, const ChunkPart& part) {
  Layout saved;
  Layout input;
  for (int index = 0; index < part.num_layers; ++index) {
    const FeedForward kind = kind_of(shape, part.first_layer + index);
    if (shape.recomputes(index)) {
      Layout block;
      const LayerSaved places(shape, kind, block);
      layers.push_back({saved.take(shape.message_size()), places, block.size()});
    } else {
      layers.push_back({std::nullopt, LayerSaved(shape, kind, saved), 0});
    }
    layer_inputs.emplace_back(shape, kind, input);
  }
  if (part.has_head) {
    head.emplace(shape, saved);
    head_input.emplace(shape, input);
  }
  if (part.has_embedding) {
    dembedding = input.take(shape.tokens() * shape.hidden);
  }
  activation = saved.size();
  gradient_input = input.size();
}

ModelChunkSizes model_chunk_sizes(const ModelShape& shape, const ChunkPart& part) {
  const ParameterTable table = parameter_table({.shape = shape, .part = part, .member = {}});
  const ModelChunk::Buffers buffers(shape, part);
  ModelChunkSizes sizes{.parameters = table.size,
                        .held = held_sizes(shape, table, {}),
                        .activation = buffers.activation,
                        .gradient_input = buffers.gradient_input};
  const auto at_least = [](std::int64_t& most, std::int64_t size) { most = std::max(most, size); };
  for (std::size_t layer = 0; layer < buffers.layers.size(); ++layer) {
    const FeedForward kind = kind_of(shape, part.first_layer + static_cast<int>(layer));
    const ParameterBundle& bundle = table.layer_bundles[layer];
    const std::int64_t fetched = fetch_workspace(shape, bundle) + buffers.layers[layer].block_size;
    const std::int64_t forward = layer_forward_workspace(shape, kind);
    at_least(sizes.forward_workspace, fetched + forward);
    at_least(sizes.backward_workspace, fetched + layer_backward_workspace(shape, kind));
    if (buffers.layers[layer].kept_input) {
      at_least(sizes.backward_workspace, fetched + shape.message_size() + forward);
    }
    at_least(sizes.weight_workspace, gradient_workspace(shape, bundle));
  }
  if (part.has_embedding) {
    at_least(sizes.forward_workspace,
             fetch_workspace(shape, table.embedding_bundle) + shape.tokens() * shape.hidden);
    at_least(sizes.weight_workspace, gradient_workspace(shape, table.embedding_bundle));
  }
  if (part.has_head) {
    const std::int64_t fetched = head_fetch_workspace(shape, table);
    at_least(sizes.forward_workspace, fetched + head_forward_workspace(shape));
    at_least(sizes.backward_workspace, fetched + head_backward_workspace(shape));
    // The embedding's gradient stays where it is while the head adds to it.
    at_least(
        sizes.weight_workspace,
        gradient_workspace(shape, table.head_bundle) +
            (head_is_embedding(table) ? gradient_workspace(shape, table.embedding_bundle) : 0));
  }
  sizes.backward_workspace += shape.message_size();
  return sizes;
}

std::vector<HeldPart> saved_parts(const ModelShape& shape, const ChunkPart& part,
                                  int tensor_member) {
  const ModelChunk::Buffers buffers(shape, part);
  SavedParts parts(shape, tensor_member);
  for (std::size_t layer = 0; layer < buffers.layers.size(); ++layer) {
    const ModelChunk::LayerBuffers& at = buffers.layers[layer];
    if (at.kept_input) {
      parts.add_residual(layer_name(layer), *at.kept_input);
    } else {
      parts.add_layer(layer_name(layer), at.saved);
    }
  }
  if (buffers.head) {
    parts.add_head(*buffers.head);
  }
  return all_of(buffers.activation, parts.take());
}

std::vector<HeldPart> gradient_input_parts(const ModelShape& shape, const ChunkPart& part,
                                           int tensor_member) {
  const ModelChunk::Buffers buffers(shape, part);
  SavedParts parts(shape, tensor_member);
  for (std::size_t layer = 0; layer < buffers.layers.size(); ++layer) {
    parts.add_layer(layer_name(layer), buffers.layer_inputs[layer]);
  }
  if (buffers.head_input) {
    parts.add_head(*buffers.head_input);
  }
  if (part.has_embedding) {
    parts.add_whole_residual("dembedding", buffers.dembedding);
  }
  return all_of(buffers.gradient_input, parts.take());
}

ModelChunk::ModelChunk(const ModelChunkSetup& setup, const RankGroups& groups)
    : shape_(setup.shape),
      groups_(groups),
      part_(setup.part),
      positions_(context_positions(shape_)),
      table_(parameter_table({.shape = setup.shape,
                              .part = setup.part,
                              .member = {.tensor = groups.tensor.member(),
                                         .expert = groups.expert.member(),
                                         .expert_tensor = groups.expert_tensor.member()}})),
      parameters_(shape_, table_, {setup.seed, setup.use}, groups_),
      buffers_(shape_, part_),
      sizes_(model_chunk_sizes(shape_, part_)) {}

LayerContext ModelChunk::layer_context(std::size_t layer) const {
  return {shape_, groups_, table_.layers[layer], positions_,
          kind_of(shape_, part_.first_layer + static_cast<int>(layer))};
}

EndContext ModelChunk::end_context() const {
  return {shape_, groups_.tensor, table_,
          positions_[static_cast<std::size_t>(groups_.context.member())]};
}

std::span<float> ModelChunk::layer_input(std::size_t layer, std::span<float> activation) const {
  const LayerBuffers& buffers = buffers_.layers[layer];
  return buffers.kept_input.value_or(buffers.saved.norm1.x).of(activation);
}

std::span<const float> ModelChunk::fetch(const ParameterBundle& bundle, Workspace& workspace) {
  return parameters_.fetch(bundle, workspace.take(fetch_workspace(shape_, bundle)));
}

std::span<const float> ModelChunk::fetch_head(std::span<const float> bundle, Workspace& workspace) {
  if (!head_is_embedding(table_)) {
    return table_.head.of(bundle);
  }
  return table_.embedding.of(fetch(table_.embedding_bundle, workspace));
}

double ModelChunk::forward(const Forward& arguments) {
  const std::size_t num_layers = buffers_.layers.size();
  // The input of layer n; behind the last, of the head or of the next stage.
  const auto input_of = [&](std::size_t layer) -> std::span<float> {
    if (layer < num_layers) {
      return layer_input(layer, arguments.activation);
    }
    return part_.has_head ? buffers_.head->norm.x.of(arguments.activation) : arguments.output;
  };
  if (part_.has_embedding) {
    Workspace workspace(arguments.workspace);
    const auto weights = fetch(table_.embedding_bundle, workspace);
    embedding_forward(end_context(), {.tokens = arguments.batch.tokens,
                                      .weights = weights,
                                      .workspace = workspace.rest(),
                                      .x = input_of(0)});
  } else {
    std::copy(arguments.input.begin(), arguments.input.end(), input_of(0).begin());
  }
  double balance_loss = 0;
  for (std::size_t layer = 0; layer < num_layers; ++layer) {
    const LayerBuffers& buffers = buffers_.layers[layer];
    Workspace workspace(arguments.workspace);
    const auto weights = fetch(table_.layer_bundles[layer], workspace);
    std::span<float> saved = arguments.activation;
    if (buffers.kept_input) {
      saved = workspace.take(buffers.block_size);
      const std::span<float> x = input_of(layer);
      std::copy(x.begin(), x.end(), buffers.saved.norm1.x.of(saved).begin());
    }
    balance_loss += layer_forward(layer_context(layer), {.weights = weights,
                                                         .gradient_scale = arguments.gradient_scale,
                                                         .saved = saved,
                                                         .at = buffers.saved,
                                                         .workspace = workspace.rest(),
                                                         .y = input_of(layer + 1)});
  }
  if (arguments.balance_loss != nullptr) {
    *arguments.balance_loss = balance_loss;
  }
  if (!part_.has_head) {
    return 0;
  }
  Workspace workspace(arguments.workspace);
  const auto weights = fetch(table_.head_bundle, workspace);
  const auto head = fetch_head(weights, workspace);
  return head_forward(end_context(), {.targets = arguments.batch.targets,
                                      .gradient_scale = arguments.gradient_scale,
                                      .weights = weights,
                                      .head = head,
                                      .saved = arguments.activation,
                                      .at = *buffers_.head,
                                      .workspace = workspace.rest()});
}

void ModelChunk::backward_input(const BackwardInput& arguments) {
  Workspace workspace(arguments.workspace);
  const std::span<float> gradient = workspace.take(shape_.message_size());
  const std::span<float> rest = workspace.rest();
  if (part_.has_head) {
    Workspace of_head(rest);
    const auto weights = fetch(table_.head_bundle, of_head);
    const auto head = fetch_head(weights, of_head);
    head_backward_input(end_context(), {.weights = weights,
                                        .head = head,
                                        .saved = arguments.activation,
                                        .at = *buffers_.head,
                                        .input = arguments.gradient_input,
                                        .input_at = *buffers_.head_input,
                                        .workspace = of_head.rest(),
                                        .gradient = gradient});
  } else {
    std::copy(arguments.input.begin(), arguments.input.end(), gradient.begin());
  }
  for (std::size_t layer = buffers_.layers.size(); layer-- > 0;) {
    layer_backward(layer, arguments, gradient, rest);
  }
  if (part_.has_embedding) {
    gather_tokens(shape_, groups_.tensor, gradient,
                  buffers_.dembedding.of(arguments.gradient_input));
    return;
  }
  std::copy(gradient.begin(), gradient.end(), arguments.output.begin());
}

// A layer of which only the input was kept runs forward again first.
void ModelChunk::layer_backward(std::size_t layer, const BackwardInput& arguments,
                                std::span<float> gradient, std::span<float> rest) {
  const LayerBuffers& buffers = buffers_.layers[layer];
  Workspace workspace(rest);
  const auto weights = fetch(table_.layer_bundles[layer], workspace);
  std::span<float> saved = arguments.activation;
  if (buffers.kept_input) {
    saved = workspace.take(buffers.block_size);
    const std::span<float> x = layer_input(layer, arguments.activation);
    std::copy(x.begin(), x.end(), buffers.saved.norm1.x.of(saved).begin());
    Workspace again(workspace.rest());
    const std::span<float> y = again.take(shape_.message_size());
    layer_forward(layer_context(layer), {.weights = weights,
                                         .gradient_scale = arguments.gradient_scale,
                                         .saved = saved,
                                         .at = buffers.saved,
                                         .workspace = again.rest(),
                                         .y = y});
  }
  layer_backward_input(layer_context(layer), {.weights = weights,
                                              .saved = saved,
                                              .at = buffers.saved,
                                              .input = arguments.gradient_input,
                                              .input_at = buffers_.layer_inputs[layer],
                                              .workspace = workspace.rest(),
                                              .gradient = gradient});
}

void ModelChunk::backward_weight(const BackwardWeight& arguments) {
  if (part_.has_head) {
    Workspace workspace(arguments.workspace);
    const auto of_head = workspace.take(gradient_workspace(shape_, table_.head_bundle));
    const std::span<float> gradients = parameters_.gradient_buffer(table_.head_bundle, of_head);
    std::span<float> dhead = table_.head.of(gradients);
    if (head_is_embedding(table_)) {
      dhead = table_.embedding.of(
          parameters_.gradient_buffer(table_.embedding_bundle, workspace.rest()));
    }
    head_backward_weight(end_context(), {.input = arguments.gradient_input,
                                         .input_at = *buffers_.head_input,
                                         .gradients = gradients,
                                         .dhead = dhead});
    parameters_.collect(table_.head_bundle, of_head);
    if (head_is_embedding(table_)) {
      parameters_.collect(table_.embedding_bundle, workspace.rest());
    }
  }
  for (std::size_t layer = buffers_.layers.size(); layer-- > 0;) {
    const ParameterBundle& bundle = table_.layer_bundles[layer];
    layer_backward_weight(layer_context(layer),
                          {.input = arguments.gradient_input,
                           .input_at = buffers_.layer_inputs[layer],
                           .gradients = parameters_.gradient_buffer(bundle, arguments.workspace)});
    parameters_.collect(bundle, arguments.workspace);
  }
  if (part_.has_embedding) {
    embedding_backward_weight(
        end_context(),
        {.tokens = arguments.batch.tokens,
         .dx = buffers_.dembedding.of(arguments.gradient_input),
         .gradients = parameters_.gradient_buffer(table_.embedding_bundle, arguments.workspace)});
    parameters_.collect(table_.embedding_bundle, arguments.workspace);
  }
}

}  // namespace megatwin::exec
