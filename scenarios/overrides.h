// `--set a.b=c` and `--sweep key=a,b,c` of the command line, applied to a scenario's tree before
// anything reads it, so that a changed key is checked like a written one.
#ifndef MEGATWIN_SCENARIOS_OVERRIDES_H_
#define MEGATWIN_SCENARIOS_OVERRIDES_H_

#include <string>
#include <vector>

#include "model/result.h"
#include "scenarios/document.h"

namespace megatwin::scenarios {

// One key and the text of its value.
struct Setting {
  std::string path;   // plan.tensor, cluster.nodes[1].count, …
  std::string value;  // As in the file: 4, [1, 2], {name: gpt2}.
};

// "path=value". Errors: no '=', an empty path.
model::Result<Setting> parse_setting(const std::string& option, const std::string& text);

// "path=a,b,c" → one setting each. Commas inside brackets, braces or quotes belong to the value.
model::Result<std::vector<Setting>> parse_sweep(const std::string& text);

// Sets the key, creating maps on the way; the value null takes the key away. `option` ("--set") is
// the file that messages name. Errors: the path leads through something that is no map, or to an
// item that is not there; a key to take away is not there; the value is not YAML.
model::Diagnostics apply_setting(Document& document, const std::string& option,
                                 const Setting& setting);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_OVERRIDES_H_
