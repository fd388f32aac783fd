// Reads the shape of a model field by field, under the names of model/transformer.h: what a
// scenario's `model:` and every entry of zoo.yaml hold.
#ifndef MEGATWIN_SCENARIOS_TRANSFORMER_READER_H_
#define MEGATWIN_SCENARIOS_TRANSFORMER_READER_H_

#include <string>
#include <vector>

#include "model/transformer.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// The habits of a family: `gpt` (LayerNorm with bias, GELU, learned positions, biases everywhere,
// tied embeddings) or `llama` (RMSNorm, SwiGLU, rotary positions, no biases, untied).
model::Transformer transformer_of_family(std::string_view family);

// Changes what is given and leaves the rest as it is.
void read_transformer_fields(MapReader& reader, model::Transformer& transformer);

// Fills in what follows from the rest (heads, head size, feed-forward size) and appends a sentence
// for each. Reports what must be given and is not.
void complete_transformer(MapReader& reader, model::Transformer& transformer,
                          std::vector<std::string>& assumptions);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_TRANSFORMER_READER_H_
