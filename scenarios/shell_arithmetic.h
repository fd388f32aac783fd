// Whole-number arithmetic as bash writes it in $((…)).
#ifndef MEGATWIN_SCENARIOS_SHELL_ARITHMETIC_H_
#define MEGATWIN_SCENARIOS_SHELL_ARITHMETIC_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace megatwin::scenarios {

// The value of an expression of + − * / % and brackets; names, with or without $, are asked of
// `lookup`. Nothing when it is no such expression, a name has no number, a division by zero, or
// more than 63 bits.
std::optional<std::int64_t> shell_arithmetic(
    std::string_view expression,
    const std::function<std::optional<std::int64_t>(const std::string&)>& lookup);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SHELL_ARITHMETIC_H_
