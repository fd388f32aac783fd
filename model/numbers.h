// Counts as the type that a formula or an index wants, without a long cast at every use.
#ifndef MEGATWIN_MODEL_NUMBERS_H_
#define MEGATWIN_MODEL_NUMBERS_H_

#include <cstddef>
#include <cstdint>

namespace megatwin::model {

constexpr double as_double(std::int64_t value) { return static_cast<double>(value); }
// Requires: value >= 0.
constexpr std::size_t as_index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_NUMBERS_H_
