#include "sim/leave_out.h"

#include <algorithm>

#include "model/step_constants.h"

namespace megatwin::sim {
namespace {

const ValidatedGroup& group_of(const Validation& validation, const std::string& name) {
  return *std::find_if(validation.groups.begin(), validation.groups.end(),
                       [&](const ValidatedGroup& group) { return group.group == name; });
}

LeftOutGroup summary(const std::string& name, const Validation& validation) {
  LeftOutGroup result{.group = name};
  for (const model::StepConstant* constant : model::constants_read_from({name})) {
    result.constants.emplace_back(constant->name);
  }
  result.median_abs_error = group_of(validation, name).median_abs_error;
  result.mean_of_group_medians = validation.mean_of_group_medians;
  return result;
}

}  // namespace

void leave_each_out(const std::vector<scenarios::MeasuredRow>& rows,
                    const model::HardwareCatalogue& catalogue, const ValidateOptions& options,
                    Validation& baseline) {
  for (const ValidatedGroup& group : baseline.groups) {
    if (group.apart || group.scored == 0) continue;
    LeftOutGroup entry = summary(group.group, baseline);
    if (!entry.constants.empty()) {
      ValidateOptions without = options;
      without.leave_out.insert(group.group);
      entry = summary(group.group, validate_steps(rows, catalogue, without));
    }
    baseline.mean_of_left_out_medians += entry.median_abs_error;
    baseline.left_out.push_back(std::move(entry));
  }
  if (!baseline.left_out.empty()) {
    baseline.mean_of_left_out_medians /= static_cast<double>(baseline.left_out.size());
  }
}

}  // namespace megatwin::sim
