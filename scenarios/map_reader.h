// Reads one map of a Document key by key and keeps account: which keys were asked for, which are
// left over. Every problem becomes a Diagnostic with its place and reading goes on, so that a user
// sees all of them at once. A getter gives nothing when the key is absent or its value was
// reported.
#ifndef MEGATWIN_SCENARIOS_MAP_READER_H_
#define MEGATWIN_SCENARIOS_MAP_READER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/document.h"
#include "scenarios/quantity.h"

namespace megatwin::scenarios {

// Where problems go. One per document that is being read.
class ReadContext {
 public:
  explicit ReadContext(const std::vector<SourceText>& sources) : sources_(sources) {}

  void error(Finding finding);
  void warning(Finding finding);
  bool has_error() const { return has_error_; }
  const model::Diagnostics& diagnostics() const { return diagnostics_; }
  // Adds diagnostics that are complete already, such as those of another file.
  void append(const model::Diagnostics& diagnostics);
  // A diagnostic of this place for somebody else to report; its severity is Error.
  model::Diagnostic at(Finding finding) const {
    return diagnostic_at(sources_, std::move(finding));
  }

 private:
  const std::vector<SourceText>& sources_;
  model::Diagnostics diagnostics_;
  bool has_error_ = false;
};

// A word of the file and what it stands for.
template <class Value>
struct Word {
  std::string_view name;
  Value value;
};

class MapReader {
 public:
  // Reports when `node` is not a map; an absent value (null) counts as an empty map.
  MapReader(ReadContext& context, const TreeNode& node, std::string path);

  bool has(std::string_view key) { return find(key) != nullptr; }
  // The value of `key`, of any kind; a key without a value is reported and counts as absent.
  const TreeNode* find(std::string_view key);
  // As find(), but null is an answer: JSON writes it for "not set".
  const TreeNode* find_or_null(std::string_view key);

  std::optional<std::string> text(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, IntegerRange range = {});
  std::optional<double> number(std::string_view key, NumberRange range);
  std::optional<bool> boolean(std::string_view key);

  // Reads with one of the parsers of quantity.h: read("memory", parse_bytes).
  template <class Value>
  std::optional<Value> read(std::string_view key,
                            model::Result<Value> (*parser)(std::string_view, Zero),
                            Zero zero = Zero::Refused) {
    return parsed<Value>(find(key), key, [&](std::string_view t) { return parser(t, zero); });
  }

  template <class Value>
  std::optional<Value> choice(std::string_view key, std::initializer_list<Word<Value>> words) {
    const TreeNode* node = find(key);
    if (node == nullptr) return std::nullopt;
    return word<Value>(*node, key, std::span<const Word<Value>>(words.begin(), words.size()));
  }

  // The same of a node that is at hand, such as an item of a sequence.
  template <class Value>
  std::optional<Value> word(const TreeNode& at, std::string_view key,
                            std::span<const Word<Value>> words) {
    const TreeNode* node = &at;
    if (!is_scalar(*node, key)) return std::nullopt;
    std::vector<std::string> names;
    for (const Word<Value>& word : words) {
      if (word.name == node->text) return word.value;
      names.emplace_back(word.name);
    }
    unknown_word(*node, key, names);
    return std::nullopt;
  }

  // Items of a sequence of whole numbers.
  std::optional<std::vector<std::int64_t>> integers(std::string_view key, IntegerRange range = {});

  // Reports that `key` has to be given, when it is absent.
  void require(std::string_view key, std::string_view allowed);

  // Reports every key that was not asked for. Call once, at the end.
  void finish();
  // Keys that were not asked for, in the file's order.
  std::vector<std::string> leftover_keys() const;

  // "path.key", or "key" at the top.
  std::string path_of(std::string_view key) const;
  const TreeNode& node() const { return node_; }
  ReadContext& context() { return context_; }
  void error_at(const TreeNode& node, std::string_view key, std::string message,
                std::string allowed = {});
  // Reports an unknown word with the nearest of `names`.
  void unknown_word(const TreeNode& node, std::string_view key,
                    const std::vector<std::string>& names, std::string_view what = {});
  bool is_scalar(const TreeNode& node, std::string_view key);

 private:
  template <class Value, class Parser>
  std::optional<Value> parsed(const TreeNode* node, std::string_view key, Parser parser) {
    if (node == nullptr || !is_scalar(*node, key)) return std::nullopt;
    model::Result<Value> value = parser(node->text);
    if (value) return *value;
    error_at(*node, key, value.error().front().message, value.error().front().allowed);
    return std::nullopt;
  }

  ReadContext& context_;
  const TreeNode& node_;
  std::string path_;
  std::vector<std::string> asked_;
  std::vector<std::string> reported_empty_;
};

// In the order of `file`'s lines; what concerns other files comes after, in its own order.
void sort_by_place(model::Diagnostics& diagnostics, const std::string& file);

// "a, b, c; did you mean 'b'?", at most thirty names.
std::string allowed_names(const std::string& word, const std::vector<std::string>& names);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_MAP_READER_H_
