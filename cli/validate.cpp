#include "cli/validate.h"

#include "cli/diagnostics.h"
#include "cli/report/validation_report.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "sim/simulate.h"
#include "sim/validate.h"

namespace megatwin::cli {

int validate_command(const ValidateArguments& arguments, Console& console) {
  const auto effects = sim::effects_without({arguments.without.begin(), arguments.without.end()});
  model::Diagnostics faults;
  if (!effects) {
    std::string allowed;
    for (const std::string& name : sim::effect_names()) {
      allowed += (allowed.empty() ? "" : ", ") + name;
    }
    faults = {{.file = "--without", .message = "unknown effect", .allowed = allowed}};
  }
  const auto rows = scenarios::read_measured_rows(arguments.file);
  if (!rows) faults.insert(faults.end(), rows.error().begin(), rows.error().end());
  if (!faults.empty()) {
    print_diagnostics(faults, arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  const sim::Validation validation = sim::validate_steps(
      *rows, scenarios::load_hardware_catalogue(),
      {.apart = {arguments.apart.begin(), arguments.apart.end()}, .effects = *effects});
  console.out << (arguments.json ? json_validation(validation)
                                 : terminal_validation(validation, arguments.all));
  return kExitAnswer;
}

}  // namespace megatwin::cli
