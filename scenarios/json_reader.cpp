// The one file that touches RapidJSON's types in this folder. Its quirks (version 1.1), tested in
// tests/scenarios/json_reader_test.cpp:
//   * its usual parser recurses once a level: kParseIterativeFlag does not;
//   * handlers do not learn where a token began: our stream counts what was consumed, and the start
//     follows from the token's length, which escapes make a few columns too far right;
//   * a key twice in one object is accepted: reported here;
//   * by default numbers become doubles: kParseNumbersAsStringsFlag keeps them as written.
#include "scenarios/json_reader.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

constexpr std::size_t kNodesMax = 4'000'000;

// A stream in RapidJSON's sense over a string view; '\0' marks the end, as RapidJSON expects.
class TextStream {
 public:
  using Ch = char;  // The name that RapidJSON asks for.

  explicit TextStream(std::string_view text) : text_(text) {}

  // NOLINTBEGIN(readability-identifier-naming): RapidJSON's names.
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char Take() { return at_ < text_.size() ? text_[at_++] : '\0'; }
  std::size_t Tell() const { return at_; }

  // Only parsing in place would write; RapidJSON wants the names all the same.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }
  // NOLINTEND(readability-identifier-naming)

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// Turns offsets into lines and columns; offsets must not decrease.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}

  // The place `back` bytes before `offset`.
  Position position(std::size_t offset, std::size_t back) {
    for (; at_ < offset && at_ < text_.size(); ++at_) {
      if (text_[at_] != '\n') continue;
      ++line_;
      line_start_ = at_ + 1;
    }
    const std::size_t start = std::max(line_start_, offset - std::min(offset, back));
    return {.source = 0,
            .line = line_,
            .column = static_cast<int>(start - line_start_) + 1,
            .length = static_cast<int>(offset - start)};
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

// Builds the tree from RapidJSON's events; every handler says whether to go on.
class TreeBuilder {
 public:
  TreeBuilder(const std::vector<SourceText>& sources, const TextStream& stream)
      : sources_(sources), stream_(stream), lines_(sources.front().text) {}

  // NOLINTBEGIN(readability-identifier-naming): RapidJSON's names.
  bool Null() { return add({.kind = TreeKind::Null, .position = here(4)}); }
  bool Bool(bool value) {
    const std::string text = value ? "true" : "false";
    return add({.kind = TreeKind::Scalar, .text = text, .position = here(text.size())});
  }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    return add(
        {.kind = TreeKind::Scalar, .text = std::string(text, length), .position = here(length)});
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    return add({.kind = TreeKind::Scalar,
                .quoted = true,
                .text = std::string(text, length),
                .position = here(length + 2)});
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    Frame& frame = frames_.back();
    frame.key = std::string(text, length);
    frame.key_position = here(length + 2);
    frame.drop = !frame.keys.insert(frame.key).second;
    if (frame.drop && diagnostics_.size() < 100) {
      diagnostics_.push_back(diagnostic_at(
          sources_, {frame.key_position, frame.key, "repeated key", "each key once"}));
    }
    return true;
  }
  bool StartObject() { return open(TreeKind::Map); }
  bool StartArray() { return open(TreeKind::Sequence); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool EndArray(rapidjson::SizeType) { return close(); }
  // kParseNumbersAsStringsFlag hands every number to RawNumber(); these are for the template only.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  // NOLINTEND(readability-identifier-naming)

  TreeNode take_root() { return std::move(root_); }
  model::Diagnostics& diagnostics() { return diagnostics_; }

 private:
  struct Frame {
    TreeNode node;
    std::string key;
    Position key_position;
    bool drop = false;
    std::set<std::string> keys;
  };

  Position here(std::size_t back) { return lines_.position(stream_.Tell(), back); }

  bool stop(const Position& position, std::string message) {
    diagnostics_.push_back(diagnostic_at(sources_, {position, "", std::move(message), ""}));
    return false;
  }

  bool open(TreeKind kind) {
    // The bracket is taken only after this.
    const Position position = lines_.position(stream_.Tell() + 1, 1);
    if (static_cast<int>(frames_.size()) >= kNestingMax) {
      return stop(position, "nested more than " + std::to_string(kNestingMax) + " levels deep");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.position = position;
    frames_.push_back(std::move(frame));
    return true;
  }

  bool close() {
    TreeNode node = std::move(frames_.back().node);
    frames_.pop_back();
    return add(std::move(node));
  }

  bool add(TreeNode node) {
    if (++num_nodes_ > kNodesMax) return stop(node.position, "holds more than 4 million values");
    if (frames_.empty()) {
      root_ = std::move(node);
    } else if (Frame& frame = frames_.back(); frame.node.kind == TreeKind::Sequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.drop) {
      frame.node.entries.push_back({std::move(frame.key), frame.key_position, std::move(node)});
    }
    return true;
  }

  const std::vector<SourceText>& sources_;
  const TextStream& stream_;
  LineCounter lines_;
  model::Diagnostics diagnostics_;
  std::vector<Frame> frames_;
  TreeNode root_;
  std::size_t num_nodes_ = 0;
};

}  // namespace

model::Result<Document> parse_json(const std::string& file, std::string_view text) {
  text = without_byte_order_mark(text);  // Not all texts come through read_file().
  model::Diagnostics problems = check_text(file, text);
  if (!problems.empty()) return model::fail(std::move(problems));
  Document document;
  document.sources.push_back({file, std::string(text)});
  const std::string_view content = document.sources.front().text;
  TextStream stream(content);
  TreeBuilder builder(document.sources, stream);
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (builder.diagnostics().empty() && result.IsError()) {
    const Position position = LineCounter(content).position(result.Offset(), 0);
    const std::string reason = rapidjson::GetParseError_En(result.Code());
    return model::fail(diagnostic_at(document.sources, {position, "", "not JSON: " + reason, ""}));
  }
  if (!builder.diagnostics().empty()) return model::fail(std::move(builder.diagnostics()));
  document.root = builder.take_root();
  return document;
}

}  // namespace megatwin::scenarios
