#include "cli/search.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/launched.h"
#include "cli/memory_margin.h"
#include "cli/plan_export.h"
#include "cli/report/search_report.h"
#include "cli/work_progress.h"
#include "model/assert.h"
#include "model/plan_check.h"
#include "scenarios/document.h"
#include "scenarios/scenario.h"
#include "sim/purchase/purchase_option.h"
#include "sim/purchase/unmet_wish.h"
#include "sim/search/helper.h"
#include "sim/search/result_store.h"
#include "sim/search/search.h"
#include "sim/search/what_if.h"

namespace megatwin::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kVersionLine = MEGATWIN_VERSION "\n";

// The job on the machines that the search may use.
model::Job searched_job(const scenarios::Scenario& scenario) {
  model::Job job = scenario.jobs.front();
  if (!scenario.search || !scenario.search->machines) return job;
  job.cluster.groups.resize(1);
  job.cluster.groups.front().count = *scenario.search->machines;
  job.plan.data = model::data_from_gpus(job.plan, job.cluster.num_gpus()).value_or(job.plan.data);
  return job;
}

// The wish on the machines that are searched.
model::Result<std::optional<model::TrainingWish>> wish_of(const scenarios::Scenario& scenario,
                                                          const model::Job& job) {
  std::optional<model::TrainingWish> wish = scenario.target;
  if (!wish) return wish;
  const model::NodeGroup& group = job.cluster.groups.front();
  wish->offers = {{.group = group, .profile = job.profile, .count_max = group.count}};
  if (wish->budget && group.node.price_per_hour.value <= 0) {
    return model::fail(model::Diagnostic{
        .file = job.name,
        .key = "target.budget",
        .message = "cannot be kept: the price of " + group.node.name + " is not known",
        .allowed = "give it as price_per_hour of the cluster's machines, such as 30 USD/h"});
  }
  return wish;
}

// The whole run with each of the best plans. Plans that miss a limit are taken off the list, unless
// all do; then the answer says what to relax.
std::optional<sim::UnmetWish> keep_limits(const model::Job& job, const model::TrainingWish& wish,
                                          sim::SearchResult& result,
                                          std::vector<sim::PurchaseOption>& runs) {
  std::vector<sim::FoundPlan> kept;
  std::vector<sim::PurchaseOption> kept_runs;
  for (const sim::FoundPlan& found : result.best) {
    runs.push_back(sim::purchase_option(job, wish, 0, found.report));
    if (!keeps_all(wish, runs.back())) continue;
    kept.push_back(found);
    kept_runs.push_back(runs.back());
  }
  if (kept.empty()) return sim::unmet_wish(wish, runs);
  result.best = std::move(kept);
  runs = std::move(kept_runs);
  return std::nullopt;
}

// Everything that the file and the command line say. Times depend on it, and on the program. Other
// files that the scenario names are not looked into.
std::string said(const SearchArguments& arguments) {
  std::string text = kVersionLine;
  text += scenarios::read_file(arguments.file).value_or("");
  for (const std::string& setting : arguments.settings) text += "\n--set " + setting;
  text +=
      "\n--memory-margin " + std::to_string(arguments.memory_margin);  // Only what fits is kept.
  return text;
}

// A store tries what it holds before it is believed.
std::unique_ptr<sim::ResultStore> open_store(const SearchArguments& arguments) {
  if (arguments.store.empty()) return nullptr;
  return std::make_unique<sim::ResultStore>(arguments.store, said(arguments));
}

// Everything that the file says, checked.
struct Task {
  model::Job job;
  scenarios::SearchRequest request;
  sim::SearchSpace space;
  std::optional<model::TrainingWish> wish;
  double memory_margin = 0;
};

model::Result<Task> read_task(const SearchArguments& arguments) {
  model::Diagnostics faults = memory_margin_faults(arguments.memory_margin);
  auto scenario = scenarios::load_scenario_file(arguments.file,
                                                {.set = arguments.settings, .plan_varies = true});
  if (!scenario) {
    faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
    return model::fail(std::move(faults));
  }
  Task task{.job = searched_job(*scenario),
            .request = scenario->search.value_or(scenarios::SearchRequest{}),
            .space = {},
            .wish = {},
            .memory_margin = arguments.memory_margin};
  if (task.memory_margin == 0) task.memory_margin = task.request.memory_margin.value_or(0);
  auto space = sim::search_space(task.job, task.request);
  if (!space) faults.insert(faults.end(), space.error().begin(), space.error().end());
  auto wish = wish_of(*scenario, task.job);
  if (!wish) faults.insert(faults.end(), wish.error().begin(), wish.error().end());
  if (!faults.empty()) return model::fail(std::move(faults));
  task.space = *std::move(space);
  task.wish = *std::move(wish);
  return task;
}

std::optional<model::NetworkKind> network_of(const std::string& check) {
  if (check.empty()) return std::nullopt;
  if (check == "maxmin") return model::NetworkKind::MaxMin;
  return check == "simgrid" ? model::NetworkKind::Simgrid : model::NetworkKind::Analytic;
}

sim::SearchOptions options_of(const Task& task, const SearchArguments& arguments,
                              model::Processes* processes) {
  return {
      .num_threads = arguments.num_threads > 0 ? arguments.num_threads : cores_of_this_process(),
      .memory_margin = task.memory_margin,
      .num_best = arguments.num_best,
      .num_losers = arguments.num_losers,
      .exhaustive = arguments.exhaustive,
      .check = network_of(arguments.check),
      .processes = processes};
}

sim::SearchResult search_for(const Task& task, const SearchArguments& arguments,
                             model::Processes* processes, Console& console) {
  try {
    const auto store = open_store(arguments);
    WorkProgressLine line(console);
    sim::SearchOptions options = options_of(task, arguments, processes);
    options.store = store.get();
    options.progress = [&](const sim::WorkProgress& p) { line.show(p); };
    return sim::search(task.job, task.space, options);
  } catch (const sim::StoreError& error) {
    throw IoError(error.what());
  } catch (const sim::HelperError& error) {
    throw IoError(error.what());
  }
}

std::vector<sim::WhatIf> changes_of(const Task& task, const SearchArguments& arguments) {
  return sim::what_if(sim::plain_job(task.job),
                      [&](const model::Job& changed) {
                        auto read = sim::search_space(changed, task.request);
                        MEGATWIN_ASSERT(read.has_value(),
                                        to_text(read.error()));  // It was read before.
                        return *std::move(read);
                      },
                      {.num_threads = arguments.num_threads, .memory_margin = task.memory_margin});
}

int answer(const Task& task, const SearchArguments& arguments, model::Processes* processes,
           Clock::time_point start, Console& console) {
  sim::SearchResult result = search_for(task, arguments, processes, console);
  std::vector<sim::WhatIf> changes;
  if (arguments.what_if && !result.impossible) changes = changes_of(task, arguments);
  std::vector<sim::PurchaseOption> runs;
  std::optional<sim::UnmetWish> unmet;
  if (task.wish && !result.best.empty()) {
    unmet = keep_limits(task.job, *task.wish, result, runs);
  }
  const SearchSummary summary{
      .job = task.job,
      .space = task.space,
      .result = result,
      .what_if = changes,
      .runs = runs,
      .unmet = unmet,
      .elapsed = {std::chrono::duration<double>(Clock::now() - start).count()}};
  console.out << (arguments.json ? json_search(summary) : terminal_search(summary));
  if (!arguments.export_folder.empty() && !result.best.empty()) {
    export_plan({.file = arguments.file,
                 .settings = arguments.settings,
                 .disturbances = task.job.disturbances},
                task.job, result.best.front().report.plan, arguments.export_folder);
  }
  return result.impossible || unmet ? kExitRefused : kExitAnswer;
}

model::Diagnostics told_by(const Agreement& agreement, const SearchArguments& arguments) {
  const std::string who = "process " + std::to_string(agreement.dissenter);
  const bool reads = agreement.saying.rfind(kVersionLine, 0) == 0;
  return {{.file = arguments.file,
           .message = reads ? who + " reads something else here than process 0"
                            : who + " finds: " + agreement.saying,
           .allowed = "the same files and options in every process"}};
}

// The part of one process. Faults of the input are told once, and alike in all processes.
int search_together(const SearchArguments& arguments, model::Processes& processes,
                    Clock::time_point start, Console& console) {
  const auto task = read_task(arguments);
  const Agreement agreement =
      agree(processes, task ? said(arguments) : model::to_text(task.error()));
  const bool is_first = processes.rank() == 0;
  if (task && !agreement.reached && is_first) {
    print_diagnostics(told_by(agreement, arguments), arguments.json_diagnostics, console);
  }
  if (!task && is_first) print_diagnostics(task.error(), arguments.json_diagnostics, console);
  if (!task || !agreement.reached) return kExitBadInput;
  if (is_first) return answer(*task, arguments, &processes, start, console);
  help_search(task->job, task->space, options_of(*task, arguments, &processes));
  return kExitAnswer;
}

}  // namespace

int search_command(const SearchArguments& arguments, Console& console) {
  const Clock::time_point start = Clock::now();
  if (arguments.mpi || is_launched_with_others()) {
    return run_together(console, [&](model::Processes& processes) {
      return search_together(arguments, processes, start, console);
    });
  }
  const auto task = read_task(arguments);
  if (!task) {
    print_diagnostics(task.error(), arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  return answer(*task, arguments, nullptr, start, console);
}

}  // namespace megatwin::cli
