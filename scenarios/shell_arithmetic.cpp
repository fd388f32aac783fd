#include "scenarios/shell_arithmetic.h"

#include <cctype>
#include <charconv>

namespace megatwin::scenarios {
namespace {

using Value = std::optional<std::int64_t>;

constexpr int kExpressionDepthMax = 64;

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const std::function<Value(const std::string&)>& lookup)
      : text_(text), lookup_(lookup) {}

  Value run() {
    const Value value = sum();
    skip_space();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Value sum() {
    Value value = product();
    for (;;) {
      if (take('+')) {
        value = combine('+', value, product());
      } else if (take('-')) {
        value = combine('-', value, product());
      } else {
        return value;
      }
    }
  }

  Value product() {
    Value value = factor();
    for (;;) {
      if (take('*')) {
        value = combine('*', value, factor());
      } else if (take('/')) {
        value = combine('/', value, factor());
      } else if (take('%')) {
        value = combine('%', value, factor());
      } else {
        return value;
      }
    }
  }

  static Value combine(char operation, Value a, Value b) {
    if (!a || !b) return std::nullopt;
    std::int64_t result = 0;
    switch (operation) {
      case '+':
        return __builtin_add_overflow(*a, *b, &result) ? Value() : Value(result);
      case '-':
        return __builtin_sub_overflow(*a, *b, &result) ? Value() : Value(result);
      case '*':
        return __builtin_mul_overflow(*a, *b, &result) ? Value() : Value(result);
      default:
        break;
    }
    if (*b == 0 || *b == -1) return std::nullopt;  // −1 could leave 63 bits, and nobody writes it.
    return operation == '/' ? *a / *b : *a % *b;
  }

  Value factor() {
    if (++depth_ > kExpressionDepthMax) return std::nullopt;
    const Value value = atom();
    --depth_;
    return value;
  }

  Value atom() {
    if (take('-')) return combine('-', 0, factor());
    if (take('(')) {
      const Value value = sum();
      return take(')') ? value : std::nullopt;
    }
    skip_space();
    const bool dollar = take('$');
    const bool braced = dollar && take('{');
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (braced && !take('}')) return std::nullopt;
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word.front())) == 0) {
      return lookup_(std::string(word));
    }
    std::int64_t number = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{} || rest != word.data() + word.size() || dollar) return std::nullopt;
    return number;
  }

  std::string_view text_;
  const std::function<Value(const std::string&)>& lookup_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(
    std::string_view expression,
    const std::function<std::optional<std::int64_t>(const std::string&)>& lookup) {
  return Arithmetic(expression, lookup).run();
}

}  // namespace megatwin::scenarios
