#include "exec/model_chunk.h"

#include <algorithm>

namespace megatwin::exec {

ModelChunkSizes model_chunk_sizes(const ModelShape& shape, const ChunkPart& part) {
  Layout saved;
  Layout input;
  for (int layer = 0; layer < part.num_layers; ++layer) {
    LayerSaved(shape, saved);
    LayerGradientInput(shape, input);
  }
  if (part.has_head) {
    HeadSaved(shape, saved);
    HeadGradientInput(shape, input);
  }
  if (part.has_embedding) {
    input.take(shape.tokens() * shape.hidden);
  }
  return {
      .parameters = parameter_table({.shape = shape, .part = part}).size,
      .activation = saved.size(),
      .gradient_input = input.size(),
      .forward_workspace = std::max(layer_forward_workspace(shape), head_forward_workspace(shape)),
      .backward_workspace = shape.message_size() + layer_backward_workspace(shape)};
}

ModelChunk::ModelChunk(const ModelChunkSetup& setup, TensorGroup& group)
    : shape_(setup.shape),
      group_(group),
      part_(setup.part),
      table_(parameter_table(
          {.shape = setup.shape, .part = setup.part, .tensor_member = group.member()})),
      weights_(static_cast<std::size_t>(table_.size)),
      gradients_(static_cast<std::size_t>(table_.size)),
      sizes_(model_chunk_sizes(shape_, part_)) {
  start_parameters(table_, shape_.num_layers, setup.seed, weights_);
  Layout saved;
  Layout input;
  for (int layer = 0; layer < part_.num_layers; ++layer) {
    saved_at_.emplace_back(shape_, saved);
    input_at_.emplace_back(shape_, input);
  }
  if (part_.has_head) {
    head_saved_at_.emplace_back(shape_, saved);
    head_input_at_.emplace_back(shape_, input);
  }
  if (part_.has_embedding) {
    dembedding_ = input.take(shape_.tokens() * shape_.hidden);
  }
  MEGATWIN_ASSERT(saved.size() == sizes_.activation, saved.size());
  MEGATWIN_ASSERT(input.size() == sizes_.gradient_input, input.size());
}

double ModelChunk::forward(const Forward& arguments) {
  // The input of layer n; behind the last, of the head or of the next stage.
  const auto input_of = [&](int layer) -> std::span<float> {
    if (layer < part_.num_layers) {
      return saved_at_[static_cast<std::size_t>(layer)].norm1.x.of(arguments.activation);
    }
    return part_.has_head ? head_saved_at_[0].norm.x.of(arguments.activation) : arguments.output;
  };
  if (part_.has_embedding) {
    embedding_forward(shape_, group_, table_,
                      {.tokens = arguments.batch.tokens,
                       .weights = weights_,
                       .workspace = arguments.workspace,
                       .x = input_of(0)});
  } else {
    std::copy(arguments.input.begin(), arguments.input.end(), input_of(0).begin());
  }
  for (int layer = 0; layer < part_.num_layers; ++layer) {
    const auto index = static_cast<std::size_t>(layer);
    layer_forward({shape_, group_, table_.layers[index]}, {.weights = weights_,
                                                           .saved = arguments.activation,
                                                           .at = saved_at_[index],
                                                           .workspace = arguments.workspace,
                                                           .y = input_of(layer + 1)});
  }
  if (!part_.has_head) {
    return 0;
  }
  return head_forward(shape_, group_, table_,
                      {.targets = arguments.batch.targets,
                       .gradient_scale = arguments.gradient_scale,
                       .weights = weights_,
                       .saved = arguments.activation,
                       .at = head_saved_at_[0],
                       .workspace = arguments.workspace});
}

void ModelChunk::backward_input(const BackwardInput& arguments) {
  Workspace workspace(arguments.workspace);
  const std::span<float> gradient = workspace.take(shape_.message_size());
  const std::span<float> rest = workspace.take(layer_backward_workspace(shape_));
  if (part_.has_head) {
    head_backward_input(shape_, group_, table_,
                        {.weights = weights_,
                         .saved = arguments.activation,
                         .at = head_saved_at_[0],
                         .input = arguments.gradient_input,
                         .input_at = head_input_at_[0],
                         .workspace = rest,
                         .gradient = gradient});
  } else {
    std::copy(arguments.input.begin(), arguments.input.end(), gradient.begin());
  }
  for (int layer = part_.num_layers - 1; layer >= 0; --layer) {
    const auto index = static_cast<std::size_t>(layer);
    layer_backward_input({shape_, group_, table_.layers[index]}, {.weights = weights_,
                                                                  .saved = arguments.activation,
                                                                  .at = saved_at_[index],
                                                                  .input = arguments.gradient_input,
                                                                  .input_at = input_at_[index],
                                                                  .workspace = rest,
                                                                  .gradient = gradient});
  }
  if (part_.has_embedding) {
    gather_tokens(shape_, group_, gradient, dembedding_.of(arguments.gradient_input));
    return;
  }
  std::copy(gradient.begin(), gradient.end(), arguments.output.begin());
}

void ModelChunk::backward_weight(const BackwardWeight& arguments) {
  if (part_.has_head) {
    head_backward_weight(shape_, table_,
                         {.input = arguments.gradient_input,
                          .input_at = head_input_at_[0],
                          .gradients = gradients_});
  }
  for (int layer = part_.num_layers - 1; layer >= 0; --layer) {
    const auto index = static_cast<std::size_t>(layer);
    layer_backward_weight(
        {shape_, group_, table_.layers[index]},
        {.input = arguments.gradient_input, .input_at = input_at_[index], .gradients = gradients_});
  }
  if (part_.has_embedding) {
    embedding_backward_weight(shape_, group_, table_,
                              {.tokens = arguments.batch.tokens,
                               .dx = dembedding_.of(arguments.gradient_input),
                               .gradients = gradients_});
  }
}

}  // namespace megatwin::exec
