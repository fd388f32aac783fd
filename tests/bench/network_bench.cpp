// How long the network takes to answer: ring all-reduces of 64 MB with routes, all rails, by the
// max-min solver; and how long its graph takes to build.
#include <benchmark/benchmark.h>

#include "sim/flow/collective_flows.h"
#include "sim/flow/flow_net.h"
#include "tests/network/clusters.h"

namespace megatwin::sim {
namespace {

model::Topology rails(int gpus) {
  const model::Cluster cluster =
      model::hopper_cluster({.machines = gpus / 8}, model::FabricKind::RailOptimizedFatTree);
  model::FabricShape shape = fabric_shape(cluster);
  shape.machines_per_leaf = 32;
  return *build_topology(cluster, shape);
}

void build(benchmark::State& state) {
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(rails(static_cast<int>(state.range(0))));
}
BENCHMARK(build)->Arg(1024)->Arg(8192)->Unit(benchmark::kMillisecond);

void ring_all_reduce(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  const model::Topology topology = rails(gpus);
  CommunicatorRanks group;
  for (int i = 0; i < gpus; ++i) group.ranks.push_back(model::RankId{i});
  double time = 0;
  for ([[maybe_unused]] auto _ : state) {
    model::Router router(topology);
    FlowSet flows(topology);
    if (!CollectiveFlows(router, flows).ring_all_reduce(group, model::Bytes{64e6})) return;
    time = last_of(*make_max_min_net()->finish_times(flows)).value;
    state.counters["flows"] = static_cast<double>(flows.size());
  }
  state.counters["simulated_s"] = time;
}
BENCHMARK(ring_all_reduce)->Arg(1024)->Arg(8192)->Unit(benchmark::kMillisecond);

void all_to_all(benchmark::State& state) {
  const model::Topology topology = rails(64);
  CommunicatorRanks group;
  for (int i = 0; i < 64; ++i) group.ranks.push_back(model::RankId{i});
  for ([[maybe_unused]] auto _ : state) {
    model::Router router(topology);
    FlowSet flows(topology);
    if (!CollectiveFlows(router, flows).all_to_all(group, model::Bytes{64e6}, {})) return;
    benchmark::DoNotOptimize(make_max_min_net()->finish_times(flows));
  }
}
BENCHMARK(all_to_all)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace megatwin::sim
