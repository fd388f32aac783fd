// What a model's config.json says of it, held against the model that a run is to train: shapes
// alone do not tell heads, activations or left-out layers apart.
#ifndef MEGATWIN_EXEC_STORED_MODEL_H_
#define MEGATWIN_EXEC_STORED_MODEL_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/result.h"
#include "model/transformer.h"

namespace megatwin::exec {

// What the host computes with, under the keys of a scenario's `model:`, always the same keys in the
// same order. Sequence length and the length of a table of positions are not among them.
using ModelFacts = std::vector<std::pair<std::string, std::string>>;
ModelFacts model_facts(const model::Transformer& transformer);

// A key of ours in a config.json, for what the architectures of Hugging Face cannot say.
std::string own_config_key(const std::string& key);

// Of a config.json with this text. Errors: it is not understood.
model::Result<ModelFacts> stored_facts(const std::string& file, const std::string& text);

// Where a scenario says what it says of its model, by key without `model.`: "job.yaml:3", "--set".
using ModelPlaces = std::map<std::string, std::string>;

// One diagnostic with every key that differs, both values and the scenario's place; none when the
// stored model is the wanted one. `file` is for the message.
model::Diagnostics other_model_faults(const std::string& file, const ModelFacts& stored,
                                      const model::Transformer& wanted, const ModelPlaces& places);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_STORED_MODEL_H_
