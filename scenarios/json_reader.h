// JSON text to a Document with positions, by RapidJSON's iterative parser: nesting costs no stack.
// Numbers stay the text that they were. Never throws.
#ifndef MEGATWIN_SCENARIOS_JSON_READER_H_
#define MEGATWIN_SCENARIOS_JSON_READER_H_

#include <string>
#include <string_view>

#include "model/result.h"
#include "scenarios/document.h"

namespace megatwin::scenarios {

// Errors: not text; not JSON (with line and column); a key twice in one object; more levels than
// yaml_reader.h allows. `null` is a node of kind Null.
model::Result<Document> parse_json(const std::string& file, std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_JSON_READER_H_
