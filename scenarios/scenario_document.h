// The tree of a scenario file with the settings of the command line in it, before anything reads
// its keys, and where they stand.
#ifndef MEGATWIN_SCENARIOS_SCENARIO_DOCUMENT_H_
#define MEGATWIN_SCENARIOS_SCENARIO_DOCUMENT_H_

#include <map>
#include <string>
#include <string_view>

#include "model/result.h"
#include "scenarios/document.h"
#include "scenarios/scenario.h"

namespace megatwin::scenarios {

// With what the options set and imply; `sweep` is not looked at. Errors: not YAML; settings that
// cannot be applied, all at once.
model::Result<Document> scenario_document(const std::string& file, std::string_view text,
                                          const ScenarioOptions& options);

// "job.yaml:3" or "--set" for each key of a section at the top; none when it is absent or no map.
std::map<std::string, std::string> places_in(const Document& document, std::string_view section);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SCENARIO_DOCUMENT_H_
