// One config.json while it is read: keys by any of their names, and a warning for every key that
// matters and is absent. Shared by huggingface.cpp and the architectures in
// the other huggingface_*.cpp files; nobody else includes this.
#ifndef MEGATWIN_SCENARIOS_HUGGINGFACE_CONFIG_H_
#define MEGATWIN_SCENARIOS_HUGGINGFACE_CONFIG_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/transformer.h"
#include "scenarios/map_reader.h"

namespace megatwin::scenarios {

// The names under which different architectures write one thing; the first that is set counts.
using Aliases = std::initializer_list<std::string_view>;

class HuggingfaceConfig {
 public:
  HuggingfaceConfig(ReadContext& context, const TreeNode& node, std::string path)
      : map_(context, node, std::move(path)) {}

  // The value, or nothing when no alias is set; null is "not set".
  std::optional<std::int64_t> size(Aliases aliases, IntegerRange range = {});
  // Reports when absent, and gives 0.
  std::int64_t needed_size(Aliases aliases, IntegerRange range = {});
  // Absent without a word: what the architecture's own class takes, or its files never write.
  std::int64_t size_or(Aliases aliases, std::int64_t fallback, IntegerRange range = {});
  // Absent with a warning: "KEY is missing; VALUE is taken, REASON".
  std::int64_t size_or_warn(Aliases aliases, std::int64_t fallback, std::string_view reason,
                            IntegerRange range = {});
  bool flag(Aliases aliases, bool fallback);
  bool flag_or_warn(std::string_view key, bool fallback);
  std::string word(Aliases aliases, std::string_view fallback = {});
  double probability(Aliases aliases);
  const TreeNode* node(std::string_view key);
  void warn(std::string_view key, std::string message);

  MapReader& map() { return map_; }

 private:
  // The first alias that is set, or an empty view.
  std::string_view present(Aliases aliases);

  MapReader map_;
};

// Reads what is particular to one architecture into a transformer that has the common sizes.
using FamilyReader = void (*)(HuggingfaceConfig& config, model::Transformer& transformer);

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // The class name without "ForCausalLM", for files without type.
  FamilyReader read;
};

const std::vector<Family>& families();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HUGGINGFACE_CONFIG_H_
