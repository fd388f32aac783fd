// How fast the engines are. Counters are in the words of the domain: task events (forwards and
// backwards) or all events a second.
#include <benchmark/benchmark.h>

#include "sim/compiled_pipeline.h"
#include "sim/dataflow.h"
#include "sim/pipeline_simulation.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::sim {
namespace {

using model::ScheduleKind;

model::ProgramSpec job(ScheduleKind schedule, int p, int v, int m, bool overlap_p2p) {
  model::ProgramSpec spec =
      tests::uniform_spec({schedule, p, v, m, 3'000'000, 3'500'000, 2'500'000});
  for (model::StageCost& stage : spec.stages) {
    stage.optimizer = {9'000'000};
    for (model::ChunkCost& chunk : stage.chunks) chunk.gradient_reduce = {4'000'000};
  }
  spec.send_activation = spec.send_gradient = {120'000};
  spec.overlap_p2p = overlap_p2p;
  return spec;
}

void tasks_per_second(benchmark::State& state, std::int64_t tasks) {
  state.counters["tasks/s"] =
      benchmark::Counter(static_cast<double>(tasks), benchmark::Counter::kIsIterationInvariantRate);
}

void evaluate_again(benchmark::State& state, const model::ProgramSpec& spec) {
  const CompiledPipeline compiled = compile_pipeline(spec);
  PipelineCosts costs = pipeline_costs(spec);
  DataflowEvaluator evaluator;
  for ([[maybe_unused]] auto _ : state) {
    costs.task[0] ^= 1;
    benchmark::DoNotOptimize(evaluator.makespan(compiled, costs));
  }
  tasks_per_second(state, compiled.num_tasks);
}

void BM_dataflow_1f1b(benchmark::State& state) {
  evaluate_again(state, job(ScheduleKind::OneForwardOneBackward, 8, 1, 128, false));
}
BENCHMARK(BM_dataflow_1f1b);

void BM_dataflow_interleaved_overlap(benchmark::State& state) {
  evaluate_again(state, job(ScheduleKind::Interleaved, 16, 4, 128, true));
}
BENCHMARK(BM_dataflow_interleaved_overlap);

void BM_dataflow_zb_v(benchmark::State& state) {
  evaluate_again(state, job(ScheduleKind::ZeroBubbleV, 8, 2, 64, true));
}
BENCHMARK(BM_dataflow_zb_v);

// With the waits and shares of every rank, costs made anew and the compiled program from the cache:
// what a search pays for a candidate.
void BM_dataflow_whole_candidate(benchmark::State& state) {
  const model::ProgramSpec spec = job(ScheduleKind::Interleaved, 8, 2, 64, true);
  PipelineCache cache;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(simulate_pipeline(spec, Engine::Dataflow, {.cache = &cache}));
  }
  tasks_per_second(state, cache.get(spec)->num_tasks);
}
BENCHMARK(BM_dataflow_whole_candidate);

void BM_dataflow_compile(benchmark::State& state) {
  const model::ProgramSpec spec = job(ScheduleKind::Interleaved, 8, 2, 64, true);
  std::int64_t tasks = 0;
  for ([[maybe_unused]] auto _ : state) tasks = compile_pipeline(spec).num_tasks;
  tasks_per_second(state, tasks);
}
BENCHMARK(BM_dataflow_compile);

void events_per_second(benchmark::State& state, std::int64_t events) {
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events),
                                                  benchmark::Counter::kIsIterationInvariantRate);
}

void BM_events_folded(benchmark::State& state) {
  const model::ProgramSpec spec = job(ScheduleKind::Interleaved, 8, 4, 256, true);
  std::int64_t events = 0;
  for ([[maybe_unused]] auto _ : state) events = simulate_pipeline(spec, Engine::Events).events;
  events_per_second(state, events);
}
BENCHMARK(BM_events_folded)->Unit(benchmark::kMillisecond);

// 1,024 replicas of 16 stages, none folded.
void BM_events_16384_ranks(benchmark::State& state) {
  const model::ProgramSpec spec = job(ScheduleKind::OneForwardOneBackward, 16, 1, 64, true);
  std::int64_t events = 0;
  for ([[maybe_unused]] auto _ : state) {
    events = simulate_replicas(spec, {.count = 1024, .fold = false}, Engine::Events).events;
  }
  events_per_second(state, events);
}
BENCHMARK(BM_events_16384_ranks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace megatwin::sim
