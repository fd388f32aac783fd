// YAML text to a Document with positions. Nothing here knows what the keys mean. Never throws,
// whatever the bytes are.
#ifndef MEGATWIN_SCENARIOS_YAML_READER_H_
#define MEGATWIN_SCENARIOS_YAML_READER_H_

#include <string>
#include <string_view>

#include "model/result.h"
#include "scenarios/document.h"

namespace megatwin::scenarios {

constexpr int kNestingMax = 64;

// Reads one YAML document; anchors, aliases and merge keys (`<<`) are resolved.
// Errors: not text, not YAML, a key twice in one map, more than kNestingMax levels, a second
// document, aliases that unfold to more than a machine should hold.
model::Result<Document> parse_yaml(const std::string& file, std::string_view text);

// The value of one `--set` or `--sweep`, such as `4`, `[1, 2]` or `{name: gpt2}`. Messages name
// `file` ("--set") and no line; the caller gives the nodes their positions.
model::Result<TreeNode> parse_yaml_value(const std::string& file, std::string_view text);

// The block of one unindented key and nothing else of `text`, so that a large embedded file costs
// only the part that is asked for; its lines are counted from the block's own first one. Empty when
// there is no such key.
std::string yaml_section(std::string_view text, std::string_view key);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_YAML_READER_H_
