// A model's weights under the names and in the layout of Hugging Face: Llama's names are our own;
// GPT-2 stores its matrices transposed, with queries, keys and values as one, and calls everything
// otherwise. Also the config.json that goes with them.
// Source: transformers 5.17, models/llama/modeling_llama.py and models/gpt2/modeling_gpt2.py.
#ifndef MEGATWIN_EXEC_HUGGINGFACE_STATE_H_
#define MEGATWIN_EXEC_HUGGINGFACE_STATE_H_

#include <string>
#include <vector>

#include "exec/model_state.h"
#include "exec/safetensors.h"
#include "model/transformer.h"

namespace megatwin::exec {

// Whether `transformer` is stored as GPT-2; otherwise as Llama.
bool is_stored_as_gpt2(const model::Transformer& transformer);

// The weights; moments are left out.
std::vector<Tensor> huggingface_tensors(const model::Transformer& transformer,
                                        const ModelState& state);

// The way back; an output head that is not stored is taken from the embedding. Tensors of other
// names are left out. Whether anything is missing is answered by state_problems().
ModelState state_of_huggingface(const model::Transformer& transformer, std::vector<Tensor> tensors);

// The text of config.json. What the architecture has no word for (GELU in a Llama, some dense
// layers before the experts) stands under keys of our own, see own_config_key().
std::string huggingface_config_text(const model::Transformer& transformer);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_HUGGINGFACE_STATE_H_
