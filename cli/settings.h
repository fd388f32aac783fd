// `--set key=value` and `--sweep key=a,b,c`: from text to settings, and the points of a sweep.
#ifndef MEGATWIN_CLI_SETTINGS_H_
#define MEGATWIN_CLI_SETTINGS_H_

#include <string>
#include <vector>

#include "cli/world.h"
#include "model/result.h"

namespace megatwin::cli {

struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

// Errors: no '=', an empty key.
model::Result<Setting> parse_setting(const std::string& text);

// Commas inside brackets, braces or quotes belong to the value.
// Errors: as above, an empty value.
model::Result<Sweep> parse_sweep(const std::string& text);

// Every combination, the last sweep varying fastest; one empty point when there is no sweep.
std::vector<std::vector<Setting>> sweep_points(const std::vector<Sweep>& sweeps);

// "plan.tensor=4 plan.pipeline=2": how a point is named in reports.
std::string point_name(const std::vector<Setting>& point);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_SETTINGS_H_
