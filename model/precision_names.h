// Every precision that a plan can name, in the order in which messages list them. A reader of names
// asks name_of() for each.
#ifndef MEGATWIN_MODEL_PRECISION_NAMES_H_
#define MEGATWIN_MODEL_PRECISION_NAMES_H_

#include <array>
#include <string_view>

#include "model/data_type.h"

namespace megatwin::model {

inline constexpr std::array kPrecisions = {
    Precision::Fp32,    Precision::Fp16,         Precision::Bf16,       Precision::Bf16Pure,
    Precision::AmpBf16, Precision::Fp8PerTensor, Precision::Fp8Current, Precision::Fp8Block,
    Precision::Mxfp8,   Precision::Nvfp4};

// As many of `Word`, each a name and its precision.
template <class Word>
std::array<Word, kPrecisions.size()> precision_words() {
  std::array<Word, kPrecisions.size()> words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = {name_of(kPrecisions[i]), kPrecisions[i]};
  return words;
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PRECISION_NAMES_H_
