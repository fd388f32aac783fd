// pugixml's quirks: it accepts text before the root and several roots; it unfolds no entities of a
// DOCTYPE; its parser keeps no stack, but walking its tree does, hence the limit on levels.
#include "scenarios/xml_reader.h"

#include <algorithm>

#include <pugixml.hpp>

#include "scenarios/document.h"

namespace megatwin::scenarios {
namespace {

constexpr int kLevelsMax = 256;

class LineCounter {
 public:
  explicit LineCounter(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') ends_.push_back(static_cast<std::ptrdiff_t>(i));
    }
  }
  struct Place {
    int line, column;
  };
  Place place_of(std::ptrdiff_t offset) const {
    const auto next = std::lower_bound(ends_.begin(), ends_.end(), offset);
    const std::ptrdiff_t before = next == ends_.begin() ? -1 : *(next - 1);
    return {.line = 1 + static_cast<int>(next - ends_.begin()),
            .column = static_cast<int>(offset - before)};
  }

 private:
  std::vector<std::ptrdiff_t> ends_;
};

bool convert(const pugi::xml_node& from, const LineCounter& lines, int level, XmlElement& to) {
  if (level > kLevelsMax) return false;
  to.name = from.name();
  const auto [line, column] = lines.place_of(from.offset_debug());
  to.line = line;
  to.column = column;
  for (const pugi::xml_attribute& a : from.attributes())
    to.attributes.emplace_back(a.name(), a.value());
  for (const pugi::xml_node& child : from.children()) {
    if (child.type() != pugi::node_element) continue;
    if (!convert(child, lines, level + 1, to.children.emplace_back())) return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> XmlElement::attribute(std::string_view key) const {
  for (const auto& [own, value] : attributes) {
    if (own == key) return value;
  }
  return std::nullopt;
}

std::string XmlElement::attribute_or(std::string_view key, std::string_view other) const {
  return attribute(key).value_or(std::string(other));
}

model::Result<XmlElement> parse_xml(const std::string& file, std::string_view text) {
  if (model::Diagnostics faults = check_text(file, text); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  const LineCounter lines(text);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    const auto [line, column] = lines.place_of(parsed.offset);
    return model::fail({.file = file,
                        .line = line,
                        .column = column,
                        .message = std::string("is no XML: ") + parsed.description()});
  }
  XmlElement root;
  if (!document.document_element()) {
    return model::fail({.file = file, .message = "holds no XML element"});
  }
  if (!convert(document.document_element(), lines, 1, root)) {
    return model::fail({.file = file,
                        .message = "its elements are nested too deeply",
                        .allowed = std::to_string(kLevelsMax) + " levels"});
  }
  return root;
}

}  // namespace megatwin::scenarios
