#include "cli/plan.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/memory_margin.h"
#include "cli/report/purchase_html.h"
#include "cli/report/purchase_report.h"
#include "cli/report/shared_report.h"
#include "cli/work_progress.h"
#include "model/assert.h"
#include "scenarios/scenario.h"
#include "sim/purchase/purchase.h"
#include "sim/purchase/shared_cluster.h"

namespace megatwin::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The scenario with its wish, or every fault.
model::Result<scenarios::Scenario> load(const PlanArguments& arguments, const std::string& file) {
  model::Diagnostics faults = memory_margin_faults(arguments.memory_margin);
  auto scenario =
      scenarios::load_scenario_file(file, {.set = arguments.settings, .plan_varies = true});
  if (!scenario) {
    faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
    return model::fail(std::move(faults));
  }
  if (!scenario->target) {
    faults.push_back({.file = file,
                      .key = "target",
                      .message = "is missing: what is to be trained, and within what limits",
                      .allowed = "such as target: {tokens: 300e9, deadline: 30 d}"});
  }
  const model::Plan& plan = scenario->jobs.front().plan;
  if (scenario->search || plan.receive_slots > 0 || plan.live_activations > 0) {
    const auto space = sim::search_space(scenario->jobs.front(),
                                         scenario->search.value_or(scenarios::SearchRequest{}));
    if (!space) faults.insert(faults.end(), space.error().begin(), space.error().end());
  }
  if (!faults.empty()) return model::fail(std::move(faults));
  return scenario;
}

// `scenario` must live as long as the request.
sim::PurchaseRequest request_of(const PlanArguments& arguments,
                                const scenarios::Scenario& scenario) {
  sim::PurchaseRequest request{.num_threads = arguments.num_threads,
                               .memory_margin = arguments.memory_margin,
                               .space = {},
                               .mixes = arguments.mixes,
                               .progress = {}};
  if (!scenario.search) return request;
  if (request.memory_margin == 0) {
    request.memory_margin = scenario.search->memory_margin.value_or(0);
  }
  // What the section lists was read before; no other cluster changes that.
  request.space = [&](const model::Job& changed) {
    auto space = sim::search_space(changed, *scenario.search);
    MEGATWIN_ASSERT(space.has_value(), to_text(space.error()));
    return *std::move(space);
  };
  return request;
}

// The answer, with a line that says how far the work is.
sim::PurchaseAnswer planned(const PlanArguments& arguments, const scenarios::Scenario& scenario,
                            const model::TrainingWish& wish, Console& console) {
  WorkProgressLine line(console);
  sim::PurchaseRequest request = request_of(arguments, scenario);
  request.progress = [&](const sim::WorkProgress& progress) { line.show(progress); };
  return sim::plan_purchase(scenario.jobs.front(), wish, request);
}

int plan_one(const PlanArguments& arguments, const scenarios::Scenario& scenario,
             Console& console) {
  const Clock::time_point start = Clock::now();
  const model::Job& job = scenario.jobs.front();
  const sim::PurchaseAnswer answer = planned(arguments, scenario, *scenario.target, console);
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  const PurchaseSummary summary{
      .job = job, .wish = *scenario.target, .answer = answer, .elapsed = {elapsed.count()}};
  if (!arguments.html.empty()) write_file(arguments.html, html_purchase(summary));
  console.out << (arguments.json ? json_purchase(summary) : terminal_purchase(summary));
  return answer.unmet && !answer.best_mix ? kExitRefused : kExitAnswer;
}

// Several runs on the cluster of the first file.
int plan_shared(const PlanArguments& arguments, const std::vector<scenarios::Scenario>& scenarios,
                Console& console) {
  const model::Job& first = scenarios.front().jobs.front();
  const model::NodeGroup& group = first.cluster.groups.front();
  std::vector<sim::SharedJob> jobs;
  std::vector<std::vector<sim::PurchaseOption>> options;
  for (const scenarios::Scenario& scenario : scenarios) {
    model::TrainingWish wish = *scenario.target;
    wish.offers = {{.group = group, .profile = first.profile, .count_max = group.count}};
    const auto deadline = std::exchange(wish.deadline, std::nullopt);
    wish.budget.reset();
    wish.power.reset();
    sim::PurchaseAnswer answer = planned(arguments, scenario, wish, console);
    for (const std::string& sentence : answer.not_counted) {
      console.err << scenario.jobs.front().name << ": " << sentence << "\n";
    }
    if (answer.options.empty()) {
      console.err << scenario.jobs.front().name << ": " << answer.unmet->message << "\n";
      for (const std::string& reason : answer.unmet->reasons) console.err << "  " << reason << "\n";
      return kExitRefused;
    }
    sim::SharedJob job{.name = scenario.jobs.front().name, .points = {}, .deadline = deadline};
    for (const sim::PurchaseOption& option : answer.options) {
      job.points.push_back({option.machines, option.run.duration});
    }
    jobs.push_back(std::move(job));
    options.push_back(std::move(answer.options));
  }
  const auto ways = sim::share_cluster(jobs, group.count);
  const SharedSummary summary{group, jobs, options, ways};
  console.out << (arguments.json ? json_shared(summary) : terminal_shared(summary));
  return ways.front().late_max.value > 0 ? kExitRefused : kExitAnswer;
}

}  // namespace

int plan_command(const PlanArguments& arguments, Console& console) {
  model::Diagnostics faults;
  std::vector<scenarios::Scenario> scenarios;
  for (const std::string& file : arguments.files) {
    auto scenario = load(arguments, file);
    if (scenario) {
      scenarios.push_back(*std::move(scenario));
    } else {
      faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
    }
  }
  if (arguments.files.size() > 1 && !arguments.html.empty()) {
    faults.push_back({.file = "--html",
                      .message = "several runs that share a cluster have no page",
                      .allowed = "one file"});
  }
  if (arguments.files.size() > 1 && arguments.mixes) {
    faults.push_back({.file = "--mixes",
                      .message = "several runs that share a cluster are each on one kind",
                      .allowed = "one file"});
  }
  if (!faults.empty()) {
    print_diagnostics(faults, arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  if (scenarios.size() > 1) return plan_shared(arguments, scenarios, console);
  return plan_one(arguments, scenarios.front(), console);
}

}  // namespace megatwin::cli
