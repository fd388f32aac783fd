#include "cli/search.h"

#include <chrono>
#include <mutex>
#include <optional>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/plan_export.h"
#include "cli/report/format.h"
#include "cli/report/search_report.h"
#include "scenarios/scenario.h"
#include "sim/search/search.h"

namespace megatwin::cli {
namespace {

using Clock = std::chrono::steady_clock;

model::Seconds since(Clock::time_point start) {
  const std::chrono::duration<double> spent = Clock::now() - start;
  return {spent.count()};
}

// One line for every phase in turn, with the time left where the phase knows how long it is.
// Called from any thread.
class SearchProgressLine {
 public:
  explicit SearchProgressLine(Console& console) : console_(console) {}
  ~SearchProgressLine() {
    if (visible_) console_.err << "\r\x1b[K" << std::flush;
  }
  SearchProgressLine(const SearchProgressLine&) = delete;
  SearchProgressLine& operator=(const SearchProgressLine&) = delete;

  void show(const sim::WorkProgress& progress) {
    if (!console_.err_is_terminal) return;
    const std::lock_guard lock(mutex_);
    if (progress.phase != phase_) {
      phase_ = progress.phase;
      phase_start_ = Clock::now();
    }
    if (since(shown_) < model::Seconds{0.3}) return;
    shown_ = Clock::now();
    visible_ = true;
    console_.err << "\r\x1b[K" << phase_ << " " << format_count(progress.done);
    if (progress.total > 0 && progress.done > 0) {
      const double left =
          static_cast<double>(progress.total - progress.done) / static_cast<double>(progress.done);
      console_.err << " of " << format_count(progress.total) << ", "
                   << format_time(left * since(phase_start_)) << " left at most";
    }
    console_.err << std::flush;
  }

 private:
  Console& console_;
  std::mutex mutex_;
  std::string phase_;
  Clock::time_point phase_start_ = Clock::now();
  Clock::time_point shown_ = phase_start_;
  bool visible_ = false;
};

model::Diagnostics faults_of(const SearchArguments& arguments) {
  model::Diagnostics faults;
  if (!(arguments.memory_margin >= 0 && arguments.memory_margin < 1)) {
    faults.push_back({.file = "--memory-margin",
                      .message = "is no share of the memory",
                      .allowed = "from 0 up to, and without, 1: 0.05 keeps 5 % free"});
  }
  return faults;
}

}  // namespace

int search_command(const SearchArguments& arguments, Console& console) {
  const Clock::time_point start = Clock::now();
  model::Diagnostics faults = faults_of(arguments);
  auto scenario = scenarios::load_scenario_file(arguments.file, {.set = arguments.settings});
  if (!scenario) faults.insert(faults.end(), scenario.error().begin(), scenario.error().end());
  std::optional<sim::SearchSpace> space;
  if (faults.empty()) {
    const scenarios::SearchRequest request = scenario->search.value_or(scenarios::SearchRequest{});
    auto read = sim::search_space(scenario->jobs.front(), request);
    if (read) {
      space = *std::move(read);
    } else {
      faults = read.error();
    }
  }
  if (!faults.empty()) {
    print_diagnostics(faults, arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  const model::Job& job = scenario->jobs.front();
  sim::SearchResult result;
  {
    SearchProgressLine line(console);
    result = sim::search(job, *space,
                         {.num_threads = arguments.num_threads,
                          .memory_margin = arguments.memory_margin,
                          .num_best = arguments.num_best,
                          .num_losers = arguments.num_losers,
                          .exhaustive = arguments.exhaustive,
                          .progress = [&](const sim::WorkProgress& p) { line.show(p); }});
  }
  const SearchSummary summary{.job = job, .result = result, .elapsed = since(start)};
  console.out << (arguments.json ? json_search(summary) : terminal_search(summary));
  if (!arguments.export_folder.empty() && !result.best.empty()) {
    export_plan({.file = arguments.file, .settings = arguments.settings}, job,
                result.best.front().report.plan, arguments.export_folder);
  }
  return result.impossible ? kExitRefused : kExitAnswer;
}

}  // namespace megatwin::cli
