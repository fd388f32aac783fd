// A whole step of GPT-3 175B with contention: every message and every ring of all replicas over the
// links of their placement. Prints time and memory at the peak of the process.
#include <fstream>
#include <string>
#include <variant>

#include <benchmark/benchmark.h>

#include "scenarios/scenario.h"
#include "sim/simulate.h"

namespace megatwin {
namespace {

// Peak of the process in MB, from the kernel.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024 / 1e6;
  }
  return 0;
}

void gpt3_step(benchmark::State& state, const char* fabric) {
  const int gpus = static_cast<int>(state.range(0));
  const std::string yaml =
      "model: {name: gpt3-175b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: " +
      std::to_string(gpus / 8) + "}], fabric: " + fabric + "}\n" +
      "software: {framework: megatron-2021}\n"
      "plan: {tensor: 8, pipeline: 16, model_chunks: 3, data: auto, micro_batch: 1, "
      "global_batch: " +
      // Micro-batches of a replica have to fill the 16 stages evenly.
      std::to_string(gpus > 1024 ? 2048 : 1536) + ",\n" +
      "       recompute: full, precision: fp16}\n"
      "policy: {schedule: interleaved}\n"
      "network: maxmin\n";
  const auto scenario = scenarios::parse_scenario("bench.yaml", yaml, {});
  if (!scenario) {
    state.SkipWithError("the scenario does not load");
    return;
  }
  for ([[maybe_unused]] auto _ : state) {
    const auto answer = sim::simulate(scenario->jobs.front(), {.sensitivities = false});
    if (const auto* report = std::get_if<sim::SimulationReport>(&answer)) {
      state.counters["step_s"] = report->step_time.value;
      state.counters["flows"] = static_cast<double>(report->network_flows);
      state.counters["closed"] = static_cast<double>(report->network_closed_form);
    } else {
      state.SkipWithError(std::get<sim::PlanRefusal>(answer).message.c_str());
    }
  }
  state.counters["peak_MB"] = peak_memory();
}
BENCHMARK_CAPTURE(gpt3_step, rails, "{type: rail-optimized-fat-tree}")
    ->Arg(1024)
    ->Arg(16384)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(gpt3_step, narrow, "{type: fat-tree, oversubscription: 2}")
    ->Arg(1024)
    ->Arg(16384)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace megatwin
