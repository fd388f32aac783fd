#include "scenarios/pipeline_layout.h"

#include <charconv>
#include <cstddef>
#include <string>

namespace megatwin::scenarios {
namespace {

constexpr std::size_t kLettersMax = 1'000'000;

// Letters and bars with every repetition written out. Groups do not nest.
class Expansion {
 public:
  explicit Expansion(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    std::string all;
    while (place_ < text_.size()) {
      const auto item = next();
      const auto times = item ? repetitions() : std::nullopt;
      if (!times || *times > kLettersMax / (item->size() + 1)) return std::nullopt;
      if (all.size() + *times * item->size() > kLettersMax) return std::nullopt;
      for (std::size_t i = 0; i < *times; ++i) all += *item;
    }
    return all;
  }

 private:
  static bool is_layer(char c) { return c == 'E' || c == 't' || c == 'm' || c == 'L' || c == '|'; }
  static bool is_nothing(char c) { return c == ',' || c == ' '; }

  // A letter, a group, or nothing; no value where the text is none.
  std::optional<std::string> next() {
    const char c = text_[place_++];
    if (is_nothing(c)) return std::string();
    if (is_layer(c)) return std::string(1, c);
    if (c != '(') return std::nullopt;
    const std::string_view rest = text_.substr(place_);
    const std::size_t size = rest.find(')');
    if (size == std::string_view::npos || rest.substr(0, size).find('(') != rest.npos) {
      return std::nullopt;
    }
    place_ += size + 1;
    return Expansion(rest.substr(0, size)).run();
  }

  std::optional<std::size_t> repetitions() {
    if (place_ == text_.size() || text_[place_] != '*') return 1;
    std::size_t times = 0;
    const char* begin = text_.data() + place_ + 1;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), times);
    if (error != std::errc{}) return std::nullopt;
    place_ += 1 + static_cast<std::size_t>(end - begin);
    return times;
  }

  std::string_view text_;
  std::size_t place_ = 0;
};

}  // namespace

std::optional<std::vector<int>> read_pipeline_layout(std::string_view text) {
  const auto letters = Expansion(text).run();
  if (!letters || letters->find('t') == std::string::npos) return std::nullopt;
  std::vector<int> layers = {0};
  const std::size_t last_layer = letters->rfind('t');
  for (std::size_t i = 0; i < letters->size(); ++i) {
    const char c = (*letters)[i];
    if (c == '|') layers.push_back(0);
    if (c == 't') ++layers.back();
    if (c == 'E' && i > 0) return std::nullopt;
    if ((c == 'L' || c == 'm') && i < last_layer) return std::nullopt;
  }
  // Prediction layers and loss are counted with the last stage.
  const std::size_t end = letters->find_first_of("mL");
  if (end != std::string::npos && letters->find('|', end) != std::string::npos) return std::nullopt;
  return layers;
}

}  // namespace megatwin::scenarios
