#include "cli/settings.h"

namespace megatwin::cli {
namespace {

model::Diagnostic fault(const std::string& option, const std::string& text,
                        const std::string& allowed) {
  return {.file = option, .message = "'" + text + "' cannot be read", .allowed = allowed};
}

// At commas that are outside of [], {} and quotes.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

}  // namespace

model::Result<Setting> parse_setting(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    return model::fail(fault("--set", text, "key=value, such as plan.tensor=4"));
  }
  return Setting{text.substr(0, at), text.substr(at + 1)};
}

model::Result<Sweep> parse_sweep(const std::string& text) {
  const std::string allowed = "key=a,b,c, such as plan.tensor=2,4,8";
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) return model::fail(fault("--sweep", text, allowed));
  Sweep sweep{text.substr(0, at), split_values(text.substr(at + 1))};
  for (const std::string& value : sweep.values) {
    if (value.empty()) return model::fail(fault("--sweep", text, allowed));
  }
  return sweep;
}

std::vector<std::vector<Setting>> sweep_points(const std::vector<Sweep>& sweeps) {
  std::vector<std::vector<Setting>> points(1);
  for (const Sweep& sweep : sweeps) {
    std::vector<std::vector<Setting>> longer;
    for (const std::vector<Setting>& point : points) {
      for (const std::string& value : sweep.values) {
        longer.push_back(point);
        longer.back().push_back({sweep.key, value});
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::string point_name(const std::vector<Setting>& point) {
  std::string name;
  for (const Setting& setting : point) {
    name += (name.empty() ? "" : " ") + setting.key + "=" + setting.value;
  }
  return name;
}

}  // namespace megatwin::cli
