// Pieces that the architectures of Hugging Face share: each reads one property of the shape by all
// the names that it goes under. Only the huggingface_*.cpp files include this.
#ifndef MEGATWIN_SCENARIOS_HUGGINGFACE_PARTS_H_
#define MEGATWIN_SCENARIOS_HUGGINGFACE_PARTS_H_

#include <string_view>

#include "model/transformer.h"
#include "scenarios/huggingface_config.h"

namespace megatwin::scenarios {

constexpr IntegerRange kHeads{.min = 1, .max = 10'000};
constexpr IntegerRange kOrNone{.min = 0, .max = 10'000'000};

// Of a feed-forward with a gate: SiLU or a kind of GELU.
model::ActivationKind gated_activation(HuggingfaceConfig& config, std::string_view fallback);

model::ActivationKind plain_activation(HuggingfaceConfig& config, std::string_view fallback);

void layer_norm(model::Transformer& t, bool bias);

void all_biases(model::Transformer& t, bool bias);

void feed_forward_size(HuggingfaceConfig& config, model::Transformer& t);

// The older architectures leave it out where it is four times the hidden size.
void feed_forward_size_or_4h(HuggingfaceConfig& config, model::Transformer& t);

// Grouped-query attention. Dumps of third parties often lose this key, and a count without it is
// 11 to 14 % too high, hence never in silence.
void key_value_heads(HuggingfaceConfig& config, model::Transformer& t,
                     std::int64_t class_default = 0);

void head_dim(HuggingfaceConfig& config, model::Transformer& t, std::int64_t class_default = 0);

// Share of the layers that look back only over a window, by the list that newer files write.
void window_from_layer_types(HuggingfaceConfig& config, model::Transformer& t, int period);

// The window's size: `class_default` where the key is absent, none where it is null.
std::int64_t window_unless_null(HuggingfaceConfig& config, std::int64_t class_default);

// The window on all but every n-th layer, or on every n-th, unless the file lists the layers.
void windows_but_every(HuggingfaceConfig& config, model::Transformer& t, std::int64_t n);
void windows_on_every(HuggingfaceConfig& config, model::Transformer& t, std::int64_t n);

// Tie of input and output embedding where the class says false; its files write it all the same.
void untied_unless_written(HuggingfaceConfig& config, model::Transformer& t);

void tied_unless_written(HuggingfaceConfig& config, model::Transformer& t);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HUGGINGFACE_PARTS_H_
