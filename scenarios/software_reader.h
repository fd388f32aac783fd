// The `software:` section of a scenario: a framework by name, and every switch of its stack that
// is set apart.
#ifndef MEGATWIN_SCENARIOS_SOFTWARE_READER_H_
#define MEGATWIN_SCENARIOS_SOFTWARE_READER_H_

#include "model/software_stack.h"
#include "scenarios/map_reader.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {

// What a scenario without `software:` runs on.
constexpr model::Framework kDefaultFramework = model::Framework::MegatronCore;

// `scenario` is the whole file: `software` may also be just the framework's name, or be absent.
model::SoftwareStack read_software(MapReader& scenario, Remarks& remarks);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SOFTWARE_READER_H_
