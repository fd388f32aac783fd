#include "cli/train.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/policy_name.h"
#include "cli/report/format.h"
#include "cli/report/perfetto_trace.h"
#include "cli/report/training_report.h"
#include "exec/run_log.h"
#include "scenarios/document.h"
#include "scenarios/scenario.h"
#include "traces/executor_log.h"

namespace megatwin::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Set by the signal handler, which may touch nothing else.
std::atomic<bool>& stop_asked() {
  static std::atomic<bool> asked{false};
  return asked;
}

extern "C" void ask_to_stop(int signal) {
  stop_asked().store(true);
  std::signal(signal, SIG_DFL);  // The second one ends the process.
}

// While it lives, SIGINT and SIGTERM ask for the end of the run.
class StopSignals {
 public:
  StopSignals() {
    stop_asked().store(false);
    interrupt_ = std::signal(SIGINT, ask_to_stop);
    terminate_ = std::signal(SIGTERM, ask_to_stop);
  }
  ~StopSignals() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  using Handler = void (*)(int);
  Handler interrupt_ = SIG_DFL, terminate_ = SIG_DFL;
};

// Lines of a run: a table to `out`, and on a terminal one that says how far it is to `err`.
class TrainingLines {
 public:
  TrainingLines(Console& console, const exec::HostJob& job, bool table)
      : console_(console),
        table_(table),
        first_step_(job.first_step),
        num_steps_(job.steps),
        every_(std::max(1, (job.steps - job.first_step) / 20)),
        tokens_per_step_(static_cast<double>(job.plan.global_batch) *
                         static_cast<double>(job.transformer.sequence_length)) {}
  ~TrainingLines() { clear(); }
  TrainingLines(const TrainingLines&) = delete;
  TrainingLines& operator=(const TrainingLines&) = delete;

  void show(const exec::TrainingStep& step) {
    const std::chrono::duration<double> spent = Clock::now() - start_;
    const int done = step.step - first_step_;
    const double rate = tokens_per_step_ * done / spent.count();
    const bool last = step.step == num_steps_;
    if (table_ && (step.held_out_loss || !step.checkpoint.empty() || done % every_ == 0 || last ||
                   done == 1)) {
      clear();
      if (!titled_) console_.out << terminal_training_titles();
      titled_ = true;
      console_.out << terminal_training_step(step, rate) << std::flush;
    }
    if (!console_.err_is_terminal || last) return;
    const std::chrono::duration<double> since_shown = Clock::now() - shown_;
    if (since_shown.count() < 0.3) return;
    shown_ = Clock::now();
    visible_ = true;
    const model::Seconds left{spent.count() * (num_steps_ - step.step) / done};
    console_.err << "\r\x1b[Kstep " << format_count(step.step) << " of " << format_count(num_steps_)
                 << ", loss " << step.loss << ", " << format_tokens_per_second(rate) << ", "
                 << format_time(left) << " left" << std::flush;
  }

 private:
  void clear() {
    if (visible_) console_.err << "\r\x1b[K" << std::flush;
    visible_ = false;
  }

  Console& console_;
  bool table_;
  int first_step_, num_steps_, every_;
  double tokens_per_step_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool titled_ = false;
  bool visible_ = false;
};

model::Diagnostic fault(const std::string& option, const std::string& message,
                        const std::string& allowed) {
  return {.file = option, .message = message, .allowed = allowed};
}

// What the command line asks for, read in full.
struct TrainInput {
  exec::TrainingRequest request;
  std::string name;
  std::string policy_name = "list";
  std::optional<traces::RunLog> replay;
};

model::Result<std::optional<NamedPolicy>> chosen_policy(const TrainArguments& arguments) {
  if (arguments.policy.empty()) return std::optional<NamedPolicy>{};
  if (!arguments.order.empty() || !arguments.replay.empty()) {
    return model::fail(fault("--policy", "cannot go with an order or a log that is replayed",
                             "one of --policy, --order and --replay"));
  }
  auto policy = policy_named(arguments.policy);
  if (policy) return policy;
  std::string allowed;
  for (const std::string& name : policy_names()) allowed += (allowed.empty() ? "" : ", ") + name;
  return model::fail(fault("--policy", "unknown policy '" + arguments.policy + "'", allowed));
}

// The scenario with what the options add to it.
model::Result<scenarios::Scenario> load(const TrainArguments& arguments,
                                        const std::optional<NamedPolicy>& policy) {
  std::vector<std::string> settings = arguments.settings;
  if (!arguments.order.empty()) {
    settings.push_back("policy={schedule: order-file, order_file: '" + arguments.order + "'}");
  }
  if (policy && !policy->schedule.empty()) {
    settings.push_back("policy.schedule=" + policy->schedule);
  }
  return scenarios::load_scenario_file(arguments.file, {.set = settings, .needs_cluster = false});
}

model::Result<traces::RunLog> read_log(const std::string& path) {
  MEGATWIN_TRY(const std::string text, scenarios::read_file(path));
  return traces::parse_log(path, text);
}

model::Result<TrainInput> read_input(const TrainArguments& arguments) {
  MEGATWIN_TRY(const std::optional<NamedPolicy> policy, chosen_policy(arguments));
  MEGATWIN_TRY(const scenarios::Scenario scenario, load(arguments, policy));
  const model::Job& job = scenario.jobs.front();
  TrainInput input{.name = job.name};
  input.request = {.transformer = job.transformer,
                   .plan = job.plan,
                   .data = scenario.data,
                   .settings = scenario.training,
                   .executor = {.issue_depth = job.plan.issue_depth},
                   .log = !arguments.log.empty(),
                   .timeline_steps = arguments.trace.empty() ? 0 : arguments.trace_steps,
                   .resume = arguments.resume,
                   .weights_from = arguments.weights_from,
                   .stop = &stop_asked()};
  if (policy && policy->factory) {
    input.request.policy = policy->factory;
    input.policy_name = arguments.policy;
  }
  if (!arguments.replay.empty()) {
    MEGATWIN_TRY(input.replay, read_log(arguments.replay));
    input.request.executor = exec::executor_options(*input.replay);
  }
  return input;
}

void write_records(const TrainArguments& arguments, const TrainInput& input,
                   const exec::HostJob& job, const exec::TrainingResult& result) {
  if (!arguments.log.empty()) {
    write_file(arguments.log, traces::log_text(exec::run_log(job, input.policy_name, result.host)));
  }
  if (arguments.trace.empty()) return;
  std::vector<model::EventRecord> timeline;
  for (const exec::HostRankReport& rank : result.host.ranks) {
    timeline.insert(timeline.end(), rank.timeline.begin(), rank.timeline.end());
  }
  write_file(
      arguments.trace,
      perfetto_trace({.name = input.name,
                      .world = "run on the host",
                      .plan = job.plan,
                      .timeline = timeline,
                      .ranks_per_stage = job.plan.tensor * job.plan.context * job.plan.data}));
}

int refuse(const TrainArguments& arguments, const std::vector<std::string>& reasons,
           Console& console) {
  if (arguments.json) {
    console.out << json_training_refusal(reasons);
    return kExitRefused;
  }
  console.out << arguments.file << ": the host cannot train this\n";
  for (const std::string& reason : reasons) console.out << "  - " << reason << "\n";
  return kExitRefused;
}

int complain(const model::Diagnostics& faults, const TrainArguments& arguments, Console& console) {
  print_diagnostics(faults, arguments.json_diagnostics, console);
  return kExitBadInput;
}

}  // namespace

int train_command(const TrainArguments& arguments, Console& console) {
  const StopSignals signals;
  auto input = read_input(arguments);
  if (!input) return complain(input.error(), arguments, console);
  if (input->replay && input->replay->policy != "list") {
    input->request.policy = exec::recorded_policy(*input->replay);
  }
  auto prepared = exec::Training::prepare(input->request);
  if (!prepared) return complain(prepared.error(), arguments, console);
  exec::Training& training = **prepared;
  const std::vector<std::string> reasons = exec::host_job_problems(training.job());
  if (!reasons.empty()) return refuse(arguments, reasons, console);
  if (input->replay &&
      input->replay->program_hash != exec::program_hash(exec::host_program_spec(training.job()))) {
    return complain({fault(arguments.replay, "is the log of another job",
                           "one of the same model, plan and schedule")},
                    arguments, console);
  }
  if (!arguments.json) {
    console.out << terminal_training_head(input->name, training.job(), training.warnings());
  }
  exec::TrainingResult result;
  {
    TrainingLines lines(console, training.job(), !arguments.json);
    result = training.run([&](const exec::TrainingStep& step) { lines.show(step); });
  }
  const TrainingSummary summary{
      .name = input->name,
      .job = training.job(),
      .result = result,
      .is_text = input->request.data.kind == model::TrainingDataKind::Text,
      .warnings = training.warnings()};
  console.out << (arguments.json ? json_training(summary) : terminal_training_summary(summary));
  if (result.host.fault) {
    console.err << "megatwin: error: step " << result.host.fault->step + 1 << ": "
                << exec::to_text(*result.host.fault) << "\n";
    if (!result.last_checkpoint.empty()) {
      console.err << "  the last checkpoint is " << result.last_checkpoint
                  << "; go on with --resume\n";
    }
    // A thread that hangs may still look at the run; it ends with the process.
    if (result.host.abandoned) static_cast<void>(prepared->release());
    return kExitMachine;
  }
  write_records(arguments, *input, training.job(), result);
  return kExitAnswer;
}

}  // namespace megatwin::cli
