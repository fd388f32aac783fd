// The published claims on dynamic pipeline planning and forward-backward decoupling, each with the
// scenario that comes nearest: docs/claims.md holds what the simulator says of it, and fails here
// when it says something else.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "model/assert.h"
#include "scenarios/scenario.h"
#include "tests/policies/generated_table.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin {
namespace {

using model::EventKind;
using model::EventRecord;
using sim::SideShare;
using sim::SimulationReport;

// A file of scenarios/claims with some keys set as `--set` would.
SimulationReport run(const std::string& file, const std::vector<std::string>& set = {}) {
  const std::string path = "scenarios/claims/" + file + ".yaml";
  auto scenario = scenarios::load_scenario_file(path, {.set = set, .sweep = {}});
  MEGATWIN_ASSERT(scenario.has_value(), to_text(scenario.error()));
  return tests::report_of(scenario->jobs.front(), {.timeline = true, .sensitivities = false});
}

std::string number(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
  return buffer;
}
std::string percent(double share) { return number(100 * share, 0) + " %"; }

// Compute of one step by what it is: when it started and ended.
struct Span {
  double start = 0, end = 0;
};
struct Windows {
  double sending = 0;    // Slack of messages: consumer's start less producer's end, over the step.
  double reduction = 0;  // From a chunk's last gradient to the end of the step, over the step.
};

// As profiling/ of MegaDPP has them: of every ordered pair of neighbours the slacks of its messages
// are summed and divided by the step; the mean over the pairs. MegaDPP's own script takes the time
// after the whole step's compute for reductions; ours is the window of each chunk.
Windows windows_of(const SimulationReport& report, int stages, int chunks) {
  std::map<std::tuple<bool, int, int>, Span> at;  // Forward, virtual stage, micro-batch.
  std::map<std::pair<int, int>, double> last_gradient;
  double end = 0;
  for (const EventRecord& event : report.timeline) {
    const Span span{static_cast<double>(event.start.ns), static_cast<double>(event.end.ns)};
    end = std::max(end, span.end);
    const int stage = event.rank.value;
    const int virtual_stage = event.chunk.value * stages + stage;
    if (event.kind == EventKind::Forward || event.kind == EventKind::Backward) {
      at[{event.kind == EventKind::Forward, virtual_stage, event.micro_batch.value}] = span;
    }
    if (event.kind == EventKind::Backward) {
      double& last = last_gradient[{stage, event.chunk.value}];
      last = std::max(last, span.end);
    }
  }
  Windows windows;
  for (const auto& [key, consumer] : at) {
    const auto [forward, virtual_stage, micro_batch] = key;
    const auto producer = at.find({forward, virtual_stage + (forward ? -1 : 1), micro_batch});
    if (producer != at.end()) windows.sending += (consumer.start - producer->second.end) / end;
  }
  windows.sending /= 2 * stages;
  for (const auto& [key, last] : last_gradient) windows.reduction += (end - last) / end;
  windows.reduction /= stages * chunks;
  return windows;
}

TEST(Claims, DecouplingOverUnlikeMachines) {
  struct Case {
    const char* name;
    std::vector<std::string> set;
  };
  std::string table =
      "| what backward ranks are fed | step | V100 busy | A100 busy |\n|---|---|---|---|\n";
  std::map<std::string, SimulationReport> reports;
  for (const auto& [name, set] : std::vector<Case>{
           {"the stage's input (as MegaFBD)", {}},
           {"the stage's input, 8 micro-batches instead of 64", {"plan.global_batch=8"}},
           {"the stage's input, two pipelines of A100 to one of V100",
            {"plan.tensor=1", "policy.forward.tensor=2", "policy.backward.instances=2"}},
           {"activations", {"policy.feed=activations"}},
           {"activations, weight gradients split",
            {"policy.feed=activations", "policy.weight_gradients_on_forward=auto"}}}) {
    const SimulationReport report = run("fbd-a100-v100", set);
    ASSERT_EQ(report.sides.size(), 2u);
    table += std::string("| ") + name + " | " + number(report.step_time.value, 2) + " s | " +
             percent(report.sides[0].busy) + " | " + percent(report.sides[1].busy) + " |\n";
    reports[name] = report;
  }
  tests::expect_generated("docs/claims.md", "fbd-a100-v100", table);
}

TEST(Claims, DecouplingOnEqualMachines) {
  std::string table = "| sixteen A100 | step | TFLOP/s a GPU |\n|---|---|---|\n";
  const auto row = [&](const char* name, const SimulationReport& report) {
    table += std::string("| ") + name + " | " + number(report.step_time.value, 2) + " s | " +
             number(report.model_flops_per_gpu.value / 1e12, 1) + " |\n";
    return report.model_flops_per_gpu.value;
  };
  const double coupled = row("two pipelines, 1F1B, full recomputation", run("coupled-a100"));
  row("two pipelines, 1F1B, no recomputation", run("coupled-a100", {"plan.recompute=none"}));
  row("decoupled, stage's input",
      run("fbd-a100", {"policy.feed=stage-input", "policy.weight_gradients_on_forward=0"}));
  row("decoupled, activations", run("fbd-a100", {"policy.weight_gradients_on_forward=0"}));
  const double balanced = row("decoupled, activations, weight gradients split", run("fbd-a100"));
  tests::expect_generated("docs/claims.md", "fbd-a100", table);
  EXPECT_GT(balanced, coupled);
}

TEST(Claims, WindowsOfDynamicPlanning) {
  std::string table =
      "| job | order | step | sending window | reduction window |\n|---|---|---|---|---|\n";
  for (const auto& [file, stages, chunks] :
       std::vector<std::tuple<std::string, int, int>>{{"dpp-gpt3", 8, 4}, {"dpp-llama3", 4, 4}}) {
    std::map<std::string, Windows> windows;
    std::map<std::string, double> steps;
    for (const std::string schedule : {"interleaved", "dpp-breadth", "dpp"}) {
      const SimulationReport report = run(file, {"policy.schedule=" + schedule});
      windows[schedule] = windows_of(report, stages, chunks);
      steps[schedule] = report.step_time.value;
      table += "| `" + file + "` | " + schedule + " | " + number(report.step_time.value, 2) +
               " s | " + number(windows[schedule].sending, 2) + " | " +
               number(windows[schedule].reduction, 2) + " |\n";
    }
    EXPECT_GT(windows["dpp-breadth"].sending, windows["interleaved"].sending) << file;
    EXPECT_GT(windows["dpp-breadth"].reduction, windows["interleaved"].reduction) << file;
    EXPECT_LT(steps["dpp"], 1.01 * steps["interleaved"]) << file;
  }
  tests::expect_generated("docs/claims.md", "dpp-windows", table);
}

// Tokens a second with a fifth fewer and more micro-batches, against the planned number.
TEST(Claims, ThroughputWithOtherBatches) {
  std::string table = "| job | order | 26 micro-batches | 32 | 38 |\n|---|---|---|---|---|\n";
  for (const std::string schedule : {"interleaved", "dpp"}) {
    table += "| `dpp-gpt3` | " + schedule;
    double planned = 0;
    std::vector<std::string> cells;
    for (const int micro_batches : {32, 26, 38}) {
      const std::vector<std::string> set = {
          "policy.schedule=" + schedule, "plan.global_batch=" + std::to_string(2 * micro_batches)};
      const std::string path = "scenarios/claims/dpp-gpt3.yaml";
      auto scenario = scenarios::load_scenario_file(path, {.set = set, .sweep = {}});
      ASSERT_TRUE(scenario.has_value());
      const auto answer = sim::simulate(scenario->jobs.front(), {.sensitivities = false});
      const auto* report = std::get_if<SimulationReport>(&answer);
      if (micro_batches == 32) {
        ASSERT_NE(report, nullptr);
        planned = report->tokens_per_s;
      }
      cells.push_back(report == nullptr ? "not legal"
                                        : number(100 * report->tokens_per_s / planned, 1) + " %");
      if (schedule == "dpp") {
        ASSERT_NE(report, nullptr);
        EXPECT_NEAR(report->tokens_per_s / planned, 1, 0.05);
      }
    }
    table += " | " + cells[1] + " | " + cells[0] + " | " + cells[2] + " |\n";
  }
  tests::expect_generated("docs/claims.md", "dpp-batches", table);
}

}  // namespace
}  // namespace megatwin
