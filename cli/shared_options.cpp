#include "cli/shared_options.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "cli/policy_library.h"
#include "scenarios/document.h"
#include "scenarios/map_reader.h"
#include "scenarios/policy_reader.h"
#include "scenarios/quantity.h"

namespace megatwin::cli {
namespace {

CLI::Validator names_policy() {
  const auto fault_of = [](const std::string& name) -> std::string {
    const std::vector<std::string> names = scenarios::schedule_names();
    if (name.ends_with(".so") || std::find(names.begin(), names.end(), name) != names.end()) {
      return {};
    }
    const std::string fault =
        name.empty() ? "has an empty value" : "unknown schedule " + scenarios::quoted(name);
    return fault + "; allowed: a library, my_policy.so, or " +
           scenarios::allowed_names(name, names);
  };
  return {fault_of, ""};
}

}  // namespace

void add_settings(CLI::App& command, std::vector<std::string>& settings, const char* help) {
  command.add_option("--set", settings, help)->take_all()->allow_extra_args(false);
}

CLI::Option* add_policy(CLI::App& command, std::vector<std::string>& settings) {
  return command
      .add_option_function<std::string>(
          "--policy",
          [&settings](const std::string& name) { settings.push_back(policy_setting(name)); },
          "As policy.schedule: 1f1b, dpp, ...; or a library, my_policy.so")
      ->check(names_policy())
      ->type_name("NAME");
}

void add_memory_margin(CLI::App& command, double& margin) {
  const auto plain = [](std::string& share) {
    const auto fraction = scenarios::parse_fraction(share);
    if (!fraction) {
      return fmt::format(
          "'{}' is no share of the memory; allowed: from 0 up to, and without, 1, or 5 %", share);
    }
    share = fmt::format("{}", *fraction);  // "5 %" becomes 0.05.
    return std::string();
  };
  command
      .add_option("--memory-margin", margin, "Share of a GPU's memory to keep free: 0.05 or 5 %")
      ->transform(CLI::Validator(plain, ""))
      ->type_name("SHARE");
}

void add_threads(CLI::App& command, int& num_threads) {
  command.add_option("--threads", num_threads, "0: as many as there are cores")
      ->check(CLI::Range(0, 4096))
      ->type_name("N");
}

void add_diagnostics(CLI::App& command, bool& as_json) {
  command
      .add_option_function<std::string>(
          "--diagnostics", [&as_json](const std::string& format) { as_json = format == "json"; },
          "text or json: how faults of the input are told")
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");
}

CLI::Validator has_name() {
  const auto fault_of = [](const std::string& name) {
    return std::string(name.empty() ? "has an empty value; allowed: a name" : "");
  };
  return {fault_of, ""};
}

}  // namespace megatwin::cli
