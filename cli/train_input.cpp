#include "cli/train_input.h"

#include <string>
#include <string_view>
#include <vector>

#include "cli/policy_library.h"
#include "exec/run_log.h"
#include "policies/policy_choice.h"
#include "scenarios/document.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_document.h"
#include "sim/decoupled/decoupled_job.h"

namespace megatwin::cli {
namespace {

// What the options add to the scenario.
scenarios::ScenarioOptions options_of(const TrainArguments& arguments,
                                      const std::optional<traces::RunLog>& replay) {
  scenarios::ScenarioOptions options{.set = arguments.settings, .needs_cluster = false};
  if (!arguments.order.empty()) {
    options.implied.emplace_back(
        "--order", "policy={schedule: order-file, order_file: '" + arguments.order + "'}");
  }
  if (replay) {
    const std::string setting = policy_setting_of_log(replay->policy);
    if (!setting.empty()) options.implied.emplace_back("--replay", setting);
  }
  return options;
}

// Where the file and the options say what they say of the model.
model::Result<exec::ModelPlaces> places_of_model(const std::string& file, std::string_view text,
                                                 const scenarios::ScenarioOptions& options) {
  MEGATWIN_TRY(const auto document, scenarios::scenario_document(file, text, options));
  return scenarios::places_in(document, "model");
}

model::Result<std::optional<traces::RunLog>> read_log(const std::string& path) {
  if (path.empty()) return std::optional<traces::RunLog>{};
  MEGATWIN_TRY(const std::string text, scenarios::read_file(path));
  MEGATWIN_TRY(traces::RunLog log, traces::parse_log(path, text));
  return std::optional<traces::RunLog>(std::move(log));
}

}  // namespace

model::Result<TrainInput> read_train_input(const TrainArguments& arguments) {
  TrainInput input;
  MEGATWIN_TRY(input.replay, read_log(arguments.replay));
  const scenarios::ScenarioOptions options = options_of(arguments, input.replay);
  // Once: what comes through a pipe is gone afterwards.
  MEGATWIN_TRY(const std::string text, scenarios::read_file(arguments.file));
  MEGATWIN_TRY(const scenarios::Scenario scenario,
               scenarios::parse_scenario(arguments.file, text, options));
  const model::Job& job = scenario.jobs.front();
  input.name = job.name;
  input.request = {.transformer = job.transformer,
                   .plan = job.plan,
                   .data = scenario.data,
                   .settings = scenario.training,
                   .decided = sim::decided_sides(job),
                   .executor = policies::executor_options_of(job.plan),
                   .log = !arguments.log.empty(),
                   .timeline_steps = arguments.trace.empty() ? 0 : arguments.trace_steps,
                   .resume = arguments.resume,
                   .weights_from = arguments.weights_from};
  MEGATWIN_TRY(input.request.model_places, places_of_model(arguments.file, text, options));
  MEGATWIN_TRY(input.request.policy, policy_of(job.plan));
  input.policy_name = input.request.policy ? name_of(job.plan.schedule) : "list";
  if (input.replay) {
    input.request.executor = exec::executor_options(*input.replay);
  }
  return input;
}

}  // namespace megatwin::cli
