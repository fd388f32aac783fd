// XML text to a tree of elements that remember their place, by pugixml. Nothing here knows what the
// elements mean. Comments, processing instructions and DOCTYPE are left out. Never throws.
#ifndef MEGATWIN_SCENARIOS_XML_READER_H_
#define MEGATWIN_SCENARIOS_XML_READER_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

struct XmlElement {
  std::string name;
  int line = 0, column = 0;  // Of its name, from 1.
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  // The attribute's text, or nothing.
  std::optional<std::string> attribute(std::string_view key) const;
  std::string attribute_or(std::string_view key, std::string_view other) const;
};

// The root element. Errors: not text; not XML (with line and column); more than 256 levels.
model::Result<XmlElement> parse_xml(const std::string& file, std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_XML_READER_H_
