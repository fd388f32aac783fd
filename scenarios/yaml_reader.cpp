// The one file that touches yaml-cpp's types. Its quirks (version 0.7), each with a test in
// tests/scenarios/yaml_reader_test.cpp:
//   * Mark() counts lines and columns from 0: one is added here.
//   * YAML::Node accepts a key twice and the first wins: this file listens to events instead, and
//     reports the second.
//   * YAML::Node never says which keys nobody asked for: map_reader.h keeps account.
//   * as<int>() reads 010 as 8 and as<bool>() reads NO as false: scalars stay text here and are
//     read by quantity.h.
//   * It recurses once a level; its own guard allows 500 levels. This file stops at kNestingMax.
//   * Columns count bytes, not characters.
#include "scenarios/yaml_reader.h"

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

namespace megatwin::scenarios {
namespace {

// Bytes that one document may unfold to, all aliases replaced: a guard against "billion laughs".
constexpr std::size_t kUnfoldedMax = 128U << 20U;
constexpr std::size_t kNodeWeight = 128;

// Thrown out of yaml-cpp's parser by our own event handler, and caught in this file.
struct StopParsing {
  Position position;
  std::string message;
};

Position to_position(const YAML::Mark& mark, std::size_t length) {
  return {.source = 0,
          .line = mark.line + 1,
          .column = mark.column + 1,
          .length = static_cast<int>(length)};
}

// How much a subtree holds and how deep it is: what an alias to it adds.
struct Extent {
  std::size_t weight = 0;
  int depth = 0;
};

Extent extent_of(const TreeNode& node) {
  Extent whole{.weight = kNodeWeight + node.text.size()};
  const auto include = [&whole](const TreeNode& child, std::size_t key_size) {
    const Extent extent = extent_of(child);
    whole.weight += extent.weight + key_size;
    whole.depth = std::max(whole.depth, extent.depth + 1);
  };
  for (const TreeNode& item : node.items) include(item, 0);
  for (const TreeEntry& entry : node.entries) include(entry.value, entry.key.size());
  return whole;
}

// Builds the tree from yaml-cpp's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::vector<SourceText>& sources) : sources_(sources) {}

  TreeNode take_root() { return std::move(root_); }
  model::Diagnostics& diagnostics() { return diagnostics_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    TreeNode node;
    node.position = to_position(mark, 0);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      throw StopParsing{to_position(mark, 1), "this alias stands inside what it refers to"};
    }
    const Extent& extent = found->second.extent;
    grow(extent.weight, to_position(mark, 1));
    check_depth(extent.depth, to_position(mark, 1));
    add(found->second.node, YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    TreeNode node;
    node.kind = TreeKind::Scalar;
    node.quoted = tag != "?";
    node.text = value;
    node.position = to_position(mark, value.size() + (tag == "!" ? 2 : 0));
    grow(kNodeWeight + value.size(), node.position);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(TreeKind::Sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(TreeKind::Map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  // A sequence or map that is not closed yet.
  struct Frame {
    TreeNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;  // Of a map: the next node is the value of `key`.
    bool drop = false;     // The next value belongs to a key that was refused.
    bool merge = false;    // The next value is what `<<` names.
    std::string key;
    Position key_position;
    std::set<std::string> keys;
    std::vector<TreeNode> merged;
  };
  struct Anchored {
    TreeNode node;
    Extent extent;
  };

  void grow(std::size_t weight, const Position& position) {
    unfolded_ += weight;
    if (unfolded_ > kUnfoldedMax) {
      throw StopParsing{position, "the document unfolds to more than 128 MiB"};
    }
  }

  // Aliases could make the tree deeper than the text ever is.
  void check_depth(int below, const Position& position) const {
    if (static_cast<int>(frames_.size()) + below < kNestingMax) return;
    throw StopParsing{position, "nested more than " + std::to_string(kNestingMax) + " levels deep"};
  }

  void open(TreeKind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const Position position = to_position(mark, 1);
    check_depth(0, position);
    grow(kNodeWeight, position);
    Frame frame;
    frame.node.kind = kind;
    frame.node.position = position;
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    const std::vector<TreeNode> merged = std::move(frames_.back().merged);
    for (const TreeNode& source : merged) merge_into(frames_.back(), source);
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    add(std::move(frame.node), frame.anchor);
  }

  // Own keys win over merged ones, earlier merged ones over later (yaml.org/type/merge.html).
  void merge_into(Frame& frame, const TreeNode& source) {
    if (source.kind == TreeKind::Sequence) {
      for (const TreeNode& item : source.items) {
        if (item.kind == TreeKind::Map) {
          merge_into(frame, item);
        } else {
          report(item.position, "<<", "only maps can be merged", "");
        }
      }
      return;
    }
    if (source.kind != TreeKind::Map) {
      report(source.position, "<<", "only maps can be merged", "");
      return;
    }
    for (const TreeEntry& entry : source.entries) {
      if (frame.keys.insert(entry.key).second) frame.node.entries.push_back(entry);
    }
  }

  void add(TreeNode node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      const Extent extent = extent_of(node);
      grow(extent.weight, node.position);
      anchored_[anchor] = {node, extent};
    }
    if (frames_.empty()) {
      root_ = std::move(node);
    } else if (frames_.back().node.kind == TreeKind::Sequence) {
      frames_.back().node.items.push_back(std::move(node));
    } else if (!frames_.back().has_key) {
      take_key(frames_.back(), node);
    } else {
      take_value(frames_.back(), std::move(node));
    }
  }

  void take_key(Frame& frame, const TreeNode& node) {
    frame.has_key = true;
    frame.drop = false;
    frame.merge = node.kind == TreeKind::Scalar && !node.quoted && node.text == "<<";
    frame.key = node.text;
    frame.key_position = node.position;
    if (frame.merge) return;
    if (node.kind != TreeKind::Scalar) {
      report(node.position, "", "a key must be a single word", "");
      frame.drop = true;
    } else if (!frame.keys.insert(node.text).second) {
      const auto first = std::find_if(frame.node.entries.begin(), frame.node.entries.end(),
                                      [&](const TreeEntry& e) { return e.key == node.text; });
      report(node.position, node.text,
             "repeated key, first given on line " + std::to_string(first->position.line),
             "each key once");
      frame.drop = true;
    }
  }

  void take_value(Frame& frame, TreeNode node) {
    frame.has_key = false;
    if (frame.drop) return;
    if (frame.merge) {
      frame.merged.push_back(std::move(node));
    } else {
      frame.node.entries.push_back({std::move(frame.key), frame.key_position, std::move(node)});
    }
  }

  // Dotted path of the innermost open map, then `key`.
  std::string path_to(const std::string& key) const {
    std::string path;
    for (std::size_t i = 0; i + 1 < frames_.size(); ++i) {
      if (frames_[i].node.kind == TreeKind::Map) {
        path += (path.empty() ? "" : ".") + frames_[i].key;
      } else {
        path += "[" + std::to_string(frames_[i].node.items.size()) + "]";
      }
    }
    if (!key.empty()) path += (path.empty() ? "" : ".") + key;
    return path;
  }

  void report(const Position& position, const std::string& key, std::string message,
              std::string allowed) {
    if (diagnostics_.size() >= kDiagnosticsMax) return;
    diagnostics_.push_back(
        diagnostic_at(sources_, {position, path_to(key), std::move(message), std::move(allowed)}));
  }

  static constexpr std::size_t kDiagnosticsMax = 100;

  const std::vector<SourceText>& sources_;
  model::Diagnostics diagnostics_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Anchored> anchored_;
  TreeNode root_;
  std::size_t unfolded_ = 0;
};

// Runs yaml-cpp over the text. Diagnostics are complete; the tree is meaningful only without one.
model::Diagnostics build(const std::vector<SourceText>& sources, TreeNode& root) {
  TreeBuilder builder(sources);
  model::Diagnostics& diagnostics = builder.diagnostics();
  const auto stop = [&](const Position& position, std::string message) {
    diagnostics.push_back(diagnostic_at(sources, {position, "", std::move(message), ""}));
  };
  try {
    std::istringstream stream(sources.front().text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    root = builder.take_root();
    TreeBuilder second(sources);
    if (parser.HandleNextDocument(second)) {
      stop(second.take_root().position, "a second document begins here; one is expected");
    }
  } catch (const StopParsing& reason) {
    stop(reason.position, reason.message);
  } catch (const YAML::Exception& error) {
    stop(to_position(error.mark, 1), "not YAML: " + error.msg);
  } catch (const std::exception& error) {
    stop({}, std::string("not YAML: ") + error.what());
  }
  return std::move(diagnostics);
}

}  // namespace

model::Result<Document> parse_yaml(const std::string& file, std::string_view text) {
  model::Diagnostics problems = check_text(file, text);
  if (!problems.empty()) return model::fail(std::move(problems));
  Document document;
  document.sources.push_back({file, std::string(text)});
  problems = build(document.sources, document.root);
  if (!problems.empty()) return model::fail(std::move(problems));
  return document;
}

model::Result<TreeNode> parse_yaml_value(const std::string& file, std::string_view text) {
  model::Result<Document> document = parse_yaml(file, text);
  if (!document) {
    model::Diagnostics problems = std::move(document).error();
    for (model::Diagnostic& problem : problems) {
      problem.line = problem.column = problem.length = 0;
      problem.source_line.clear();
    }
    return model::fail(std::move(problems));
  }
  return std::move(document->root);
}

std::string yaml_section(std::string_view text, std::string_view key) {
  std::string result;
  bool inside = false;
  bool found = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const bool starts_block =
        !line.empty() && line.front() != ' ' && line.front() != '#' && line.front() != '\r';
    if (starts_block) {
      inside = line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':';
      found = found || inside;
    }
    if (inside) result.append(line) += '\n';
  }
  return found ? result : std::string();
}

}  // namespace megatwin::scenarios
