#include "cli/simulate.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/progress.h"
#include "cli/report/html_report.h"
#include "cli/report/json_report.h"
#include "cli/report/perfetto_trace.h"
#include "cli/report/terminal_report.h"

namespace megatwin::cli {
namespace {

void append(model::Diagnostics& all, const model::Diagnostics& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void check_effects(const SimulateArguments& arguments, const World& world,
                   model::Diagnostics& faults) {
  const std::vector<std::string> known = world.effect_names();
  std::string allowed;
  for (const std::string& name : known) allowed += (allowed.empty() ? "" : ", ") + name;
  for (const std::string& name : arguments.without) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string hint = allowed;
    const std::string near = model::nearest_word(name, known);
    if (!near.empty()) hint += "; did you mean '" + near + "'?";
    faults.push_back(option_problem("--without", "unknown effect '" + name + "'", hint));
  }
}

// An output must not overwrite an input or another output.
void check_outputs(const SimulateArguments& arguments, model::Diagnostics& faults) {
  std::vector<std::pair<std::string, std::string>> taken;
  const auto resolved = [](const std::string& path) {
    std::error_code ignored;
    const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
    return std::filesystem::weakly_canonical(whole, ignored).string();
  };
  for (const std::string& file : arguments.files) taken.emplace_back(file, resolved(file));
  for (const auto& [option, path] :
       {std::pair{"--html", arguments.html}, std::pair{"--trace", arguments.trace}}) {
    if (path.empty()) continue;
    for (const auto& [name, place] : taken) {
      if (place != resolved(path)) continue;
      faults.push_back(
          option_problem(option, "'" + path + "' would overwrite " + name, "a file of its own"));
      break;
    }
    taken.emplace_back("the file of " + std::string(option), resolved(path));
  }
}

// The jobs of every file, or every fault of all of them.
model::Result<std::vector<LoadedPoint>> load_all(const SimulateArguments& arguments,
                                                 const World& world) {
  model::Diagnostics faults;
  check_effects(arguments, world, faults);
  check_outputs(arguments, faults);
  std::vector<LoadedPoint> all;
  for (const std::string& file : arguments.files) {
    auto jobs = world.load_points(file, {.set = arguments.settings, .sweep = arguments.sweeps});
    if (!jobs) {
      append(faults, jobs.error());
      continue;
    }
    for (LoadedPoint& point : *jobs) all.push_back(std::move(point));
  }
  if (model::has_error(faults)) return model::fail(std::move(faults));
  return all;
}

std::vector<NamedAnswer> simulate_all(const std::vector<LoadedPoint>& points, const World& world,
                                      const SimulateRequest& request, Console& console) {
  std::vector<NamedAnswer> answers;
  Progress progress(console, "simulating", static_cast<std::int64_t>(points.size()));
  for (const LoadedPoint& point : points) {
    if (const auto* job = std::get_if<model::Job>(&point)) {
      answers.push_back({job->name, world.simulate(*job, request)});
    } else {
      answers.push_back(std::get<NamedAnswer>(point));
    }
    progress.advance();
  }
  return answers;
}

void print(const std::vector<NamedAnswer>& answers, const SimulateArguments& arguments,
           Console& console) {
  if (arguments.json) {
    console.out << json_answers(answers);
    return;
  }
  const TerminalStyle style{.colour = console.out_is_terminal, .explain = arguments.explain};
  std::vector<sim::SimulationReport> reports;
  for (const NamedAnswer& named : answers) {
    if (const auto* report = std::get_if<sim::SimulationReport>(&named.answer)) {
      reports.push_back(*report);
    } else {
      console.out << named.name << ": "
                  << terminal_refusal(std::get<sim::PlanRefusal>(named.answer), style);
      if (answers.size() > 1) console.out << "\n";
    }
  }
  if (answers.size() == 1 && !reports.empty()) {
    console.out << terminal_report(reports.front(), style);
  } else {
    console.out << terminal_comparison(reports, style);
  }
}

}  // namespace

int simulate_command(const SimulateArguments& arguments, const World& world, Console& console) {
  auto jobs = load_all(arguments, world);
  model::Diagnostics faults;
  if (!jobs) {
    faults = jobs.error();
  } else if (!arguments.trace.empty() && jobs->size() != 1) {
    faults = {option_problem("--trace",
                             std::to_string(jobs->size()) + " runs have no common timeline",
                             "one file without --sweep")};
  }
  if (!faults.empty()) {
    print_diagnostics(faults, arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  const SimulateRequest request{.engine = arguments.engine,
                                .without = {arguments.without.begin(), arguments.without.end()},
                                .explain = arguments.explain,
                                .timeline = !arguments.html.empty() || !arguments.trace.empty()};
  const std::vector<NamedAnswer> answers = simulate_all(*jobs, world, request, console);
  if (!arguments.html.empty()) write_file(arguments.html, html_report(answers));
  const auto* first = std::get_if<sim::SimulationReport>(&answers.front().answer);
  if (!arguments.trace.empty() && first != nullptr) {
    write_file(arguments.trace, perfetto_trace(*first));
  } else if (!arguments.trace.empty()) {
    console.err << "--trace: not written, for the plan was refused and has no timeline\n";
  }
  print(answers, arguments, console);
  const bool any = std::any_of(answers.begin(), answers.end(), [](const NamedAnswer& named) {
    return std::holds_alternative<sim::SimulationReport>(named.answer);
  });
  return any ? kExitAnswer : kExitRefused;
}

}  // namespace megatwin::cli
