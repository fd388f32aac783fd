#include "cli/replay.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "cli/diagnostics.h"
#include "cli/policy_library.h"
#include "cli/report/format.h"
#include "cli/report/json_writer.h"
#include "exec/run_log.h"
#include "exec/training.h"
#include "policies/replay.h"
#include "scenarios/document.h"
#include "scenarios/scenario.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/pipeline_simulation.h"

namespace megatwin::cli {
namespace {

struct ReplayInput {
  exec::HostJob job;
  traces::RunLog log;
  policies::PolicyFactory policy;
};

model::Result<ReplayInput> read_input(const ReplayArguments& arguments) {
  MEGATWIN_TRY(const std::string text, scenarios::read_file(arguments.log));
  ReplayInput input;
  MEGATWIN_TRY(input.log, traces::parse_log(arguments.log, text));
  std::vector<std::string> settings = arguments.settings;
  if (const std::string setting = policy_setting_of_log(input.log.policy); !setting.empty()) {
    settings.push_back(setting);
  }
  MEGATWIN_TRY(
      const scenarios::Scenario scenario,
      scenarios::load_scenario_file(arguments.file, {.set = settings, .needs_cluster = false}));
  input.job.transformer = scenario.jobs.front().transformer;
  input.job.plan = scenario.jobs.front().plan;
  input.job.experts = exec::expert_settings(scenario.training);
  input.job.orders = input.job.plan.orders;
  input.job.decided = sim::decided_sides(scenario.jobs.front());
  if (input.log.policy != "list") {
    MEGATWIN_TRY(input.policy, policy_of(input.job.plan));
  }
  input.job.policy = input.policy;
  const std::vector<std::string> problems =
      exec::host_problems(input.job.transformer, input.job.plan);
  model::Diagnostics faults;
  for (const std::string& problem : problems)
    faults.push_back(option_problem(arguments.file, problem, ""));
  if (faults.empty() &&
      exec::program_hash(exec::host_program_specs(input.job)) != input.log.program_hash) {
    faults.push_back(
        option_problem(arguments.log, "is the log of another job",
                       "one of the same model, plan and schedule as " + arguments.file));
  }
  if (!faults.empty()) return model::fail(std::move(faults));
  return input;
}

// The tasks that one logged step picked or, of a list, finished; in order.
policies::Order executed(const model::ExecutorLog& log) {
  policies::Order order;
  for (const model::ExecutorEvent& event : log.events) {
    if (event.kind == model::ExecutorEventKind::TaskDone) order.push_back({event.id});
  }
  return order;
}

// Steps of which the simulator, with the logged picks forced on it, runs the same orders. The first
// rank of each stage stands for the others.
int steps_simulated_alike(const std::vector<model::ProgramSpec>& specs, const traces::RunLog& log) {
  std::map<int, std::map<int, const model::ExecutorLog*>> steps;  // Step, stage.
  for (const traces::LoggedStep& step : log.steps) {
    steps[step.step].emplace(step.stage.value, &step.log);
  }
  int alike = 0;
  for (const auto& [number, stages] : steps) {
    // A simulated rank is a stage, of a decoupled pipeline a stage of a side.
    const auto forced = [&stages = stages](const model::Program&, model::RankId rank) {
      return std::make_unique<policies::RecordedPicks>(stages.at(rank.value)->decisions);
    };
    sim::SimulationOptions options{.executor = exec::executor_options(log)};
    if (log.policy != "list") options.policy = forced;
    const sim::PipelineResult result = sim::simulate_sides(specs, options);
    const bool same = result.stalled.empty() &&
                      std::all_of(result.ranks.begin(), result.ranks.end(),
                                  [&stages = stages](const sim::RankResult& rank) {
                                    return rank.order == executed(*stages.at(rank.rank.value));
                                  });
    alike += same ? 1 : 0;
  }
  return alike;
}

struct ReplayAnswer {
  std::vector<exec::ReplayedStep> steps;
  int num_steps = 0;
  int simulated_alike = 0;
  std::int64_t events = 0, decisions = 0, different = 0;
};

void print(const ReplayAnswer& answer, const ReplayArguments& arguments, Console& console) {
  if (arguments.json) {
    JsonWriter json(JsonWriter::Layout::Indented);
    json.begin_object();
    json.member("events", answer.events);
    json.member("decisions", answer.decisions);
    json.member("different", answer.different);
    json.member("steps", answer.num_steps);
    json.member("steps_simulated_alike", answer.simulated_alike);
    json.end_object();
    console.out << json.finish();
    return;
  }
  console.out << format_count(answer.events) << " events, " << format_count(answer.decisions)
              << " decisions over " << format_count(answer.num_steps) << " steps: ";
  if (answer.different == 0) {
    console.out << "every pick and every hash comes out again\n";
  } else {
    console.out << format_count(answer.different) << " of " << answer.steps.size()
                << " logs differ\n";
  }
  for (const exec::ReplayedStep& step : answer.steps) {
    if (step.difference.empty()) continue;
    console.out << "  rank " << step.rank.value << ", step " << step.step + 1 << ": "
                << step.difference << "\n";
  }
  console.out << "the simulator, with the same picks, ran the same order in "
              << answer.simulated_alike << " of " << answer.num_steps << " steps\n";
}

}  // namespace

int replay_command(const ReplayArguments& arguments, Console& console) {
  const auto input = read_input(arguments);
  if (!input) {
    print_diagnostics(input.error(), arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  const std::vector<model::ProgramSpec> specs = exec::host_program_specs(input->job);
  ReplayAnswer answer{.steps = exec::replay_log(specs, input->log, input->policy)};
  std::map<int, int> numbers;
  for (const exec::ReplayedStep& step : answer.steps) {
    numbers[step.step] = 1;
    answer.events += static_cast<std::int64_t>(step.events);
    answer.decisions += static_cast<std::int64_t>(step.decisions);
    answer.different += step.difference.empty() ? 0 : 1;
  }
  answer.num_steps = static_cast<int>(numbers.size());
  answer.simulated_alike = steps_simulated_alike(specs, input->log);
  print(answer, arguments, console);
  return answer.different == 0 && answer.simulated_alike == answer.num_steps ? kExitAnswer
                                                                             : kExitRefused;
}

}  // namespace megatwin::cli
