#include "cli/train.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/launched.h"
#include "cli/report/perfetto_trace.h"
#include "cli/report/training_report.h"
#include "cli/train_input.h"
#include "cli/training_launch.h"
#include "cli/training_lines.h"
#include "exec/run_log.h"
#include "model/processes.h"
#include "traces/executor_log.h"

namespace megatwin::cli {
namespace {

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
  const exec::HostLayout layout(job.plan);
  write_file(arguments.trace, perfetto_trace({.name = input.name,
                                              .world = "run on the host",
                                              .plan = job.plan,
                                              .timeline = timeline,
                                              .layout = &layout}));
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

// A run that can start, or the exit code with which it cannot and why, told on `console`.
struct Prepared {
  std::unique_ptr<exec::Training> training;
  int code = kExitAnswer;
};
// What would be written after the last step and cannot be, while nothing is lost yet.
model::Diagnostics output_faults(const TrainArguments& arguments) {
  model::Diagnostics faults;
  for (const auto& [option, path] :
       {std::pair{"--log", arguments.log}, std::pair{"--trace", arguments.trace}}) {
    if (path.empty()) continue;
    if (const auto problem = write_problem(path)) {
      faults.push_back(
          option_problem(option, "cannot be written: " + *problem, "a file that can be written"));
    }
  }
  return faults;
}

Prepared prepare(TrainInput& input, const TrainArguments& arguments, Console& console) {
  if (input.replay && input.replay->policy != "list") {
    input.request.policy = exec::recorded_policy(*input.replay);
  }
  auto training = exec::Training::prepare(input.request);
  model::Diagnostics faults;
  if (!training) faults = training.error();
  const model::Processes* processes = input.request.processes;
  if (processes == nullptr || processes->rank() == 0) {
    const model::Diagnostics outputs = output_faults(arguments);
    faults.insert(faults.end(), outputs.begin(), outputs.end());
  }
  if (!faults.empty()) return {nullptr, complain(faults, arguments, console)};
  const exec::HostJob& job = (*training)->job();
  const std::vector<std::string> reasons = exec::host_job_problems(job);
  if (!reasons.empty()) return {nullptr, refuse(arguments, reasons, console)};
  if (input.replay &&
      input.replay->program_hash != exec::program_hash(exec::host_program_specs(job))) {
    return {nullptr, complain({option_problem(arguments.replay, "is the log of another job",
                                              "one of the same model, plan and schedule")},
                              arguments, console)};
  }
  if (processes != nullptr) {
    const int ranks = exec::HostLayout(job.plan).num_ranks();
    if (ranks % processes->size() != 0) {
      return {nullptr,
              complain({option_problem("mpirun -n " + std::to_string(processes->size()),
                                       "the plan has " + std::to_string(ranks) +
                                           " ranks, which so many processes cannot share equally",
                                       "-n " + std::to_string(ranks) + ", or a divisor of it")},
                       arguments, console)};
    }
  }
  return {*std::move(training)};
}

void tell_fault(const exec::TrainingResult& result, Console& console) {
  exec::Fault fault = *result.host.fault;
  ++fault.step;  // From 1, as in the table.
  console.err << "megatwin: error: " << exec::to_text(fault) << "\n";
  if (!result.last_checkpoint.empty()) {
    console.err << "  the last checkpoint is " << result.last_checkpoint
                << "; go on with --resume\n";
  }
  console.err << std::flush;
}

// After a fault other processes may hang or be gone, and cannot be waited for. One process tells;
// the others do so too where it has not ended the run by then, as it may itself be held up inside
// of MPI.
void tell_and_end_all(const exec::TrainingResult& result, model::Processes& processes,
                      Console& console) {
  constexpr std::chrono::seconds kTimeToTell{3};
  constexpr std::chrono::milliseconds kTimeToPassOn{500};  // For mpirun, which drops what is late.
  if (!result.host.tells) std::this_thread::sleep_for(kTimeToTell);
  tell_fault(result, console);
  std::this_thread::sleep_for(kTimeToPassOn);
  processes.abort(kExitMachine);
}

// Trains, and says what came of it.
int train(std::unique_ptr<exec::Training> training, const TrainInput& input,
          const TrainArguments& arguments, Console& console) {
  if (!arguments.json) {
    console.out << terminal_training_head(input.name, training->job(), training->warnings());
  }
  exec::TrainingResult result;
  {
    TrainingLines lines(console, training->job(), !arguments.json);
    result = training->run([&](const exec::TrainingStep& step) { lines.show(step); });
  }
  model::Processes* processes = input.request.processes;
  const bool is_first = processes == nullptr || processes->rank() == 0;
  if (is_first) {
    const TrainingSummary summary{
        .name = input.name,
        .job = training->job(),
        .result = result,
        .is_text = input.request.data.kind == model::TrainingDataKind::Text,
        .warnings = training->warnings()};
    console.out << (arguments.json ? json_training(summary) : terminal_training_summary(summary))
                << std::flush;
  }
  if (result.host.fault) {
    if (processes != nullptr) tell_and_end_all(result, *processes, console);
    tell_fault(result, console);
    // A thread that hangs may still look at the run; it ends with the process.
    if (result.host.abandoned) static_cast<void>(training.release());
    return kExitMachine;
  }
  if (is_first) write_records(arguments, input, training->job(), result);
  return kExitAnswer;
}

// Reads and prepares. Nothing in `input` when it cannot.
int read_all(const TrainArguments& arguments, model::Processes* processes, Console& console,
             std::optional<TrainInput>& input, Prepared& prepared) {
  auto read = read_train_input(arguments);
  if (!read) return complain(read.error(), arguments, console);
  input = *std::move(read);
  input->request.stop = &stop_asked();
  input->request.processes = processes;
  prepared = prepare(*input, arguments, console);
  return prepared.code;
}

// What all processes must find alike.
std::string what_is_trained(const TrainInput& input, const exec::Training& training) {
  return "trains " + input.name + " from step " + std::to_string(training.first_step()) + " to " +
         std::to_string(training.job().steps) + " by program " +
         std::to_string(exec::program_hash(exec::host_program_specs(training.job())));
}

int train_together(const TrainArguments& arguments, model::Processes& processes, Console& console) {
  std::ostringstream told;
  Console own{.out = told, .err = told};
  std::optional<TrainInput> input;
  Prepared prepared;
  const bool is_first = processes.rank() == 0;
  const int code = read_all(arguments, &processes, is_first ? console : own, input, prepared);
  const Agreement agreement =
      agree(processes, code != kExitAnswer && !is_first ? told.str()
                       : prepared.training ? what_is_trained(*input, *prepared.training)
                                           : "");
  if (code != kExitAnswer) return code;
  if (!agreement.reached) {
    if (is_first) {
      console.err << "megatwin: error: process " << agreement.dissenter
                  << " of this run finds otherwise than process 0:\n"
                  << agreement.saying << "\n";
    }
    return kExitBadInput;
  }
  std::ostream nowhere(nullptr);
  Console silent{.out = nowhere, .err = console.err};
  return train(std::move(prepared.training), *input, arguments, is_first ? console : silent);
}

int print_launch(const TrainArguments& arguments, Console& console) {
  const auto input = read_train_input(arguments);
  if (!input) return complain(input.error(), arguments, console);
  const auto reasons = exec::host_problems(input->request.transformer, input->request.plan);
  if (!reasons.empty()) return refuse(arguments, reasons, console);
  console.out << training_launch_line(arguments, exec::HostLayout(input->request.plan).num_ranks());
  return kExitAnswer;
}

}  // namespace

int train_command(const TrainArguments& arguments, Console& console) {
  if (arguments.print_launch) return print_launch(arguments, console);
  const StopSignals signals;
  if (is_launched_with_others()) {
    return run_together(console, [&](model::Processes& processes) {
      return train_together(arguments, processes, console);
    });
  }
  std::optional<TrainInput> input;
  Prepared prepared;
  const int code = read_all(arguments, nullptr, console, input, prepared);
  if (code != kExitAnswer) return code;
  return train(std::move(prepared.training), *input, arguments, console);
}

}  // namespace megatwin::cli
