#include "tests/policies/random_race.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "model/program/program_builder.h"
#include "policies/equal_memory.h"
#include "tests/sim/every_plan.h"
#include "tests/sim/seeds.h"

namespace megatwin::tests {
namespace {

using model::Bytes;
using model::Instant;
using model::ProgramSpec;
using model::ScheduleKind;

constexpr double kForwardNs = 4e6;

Instant scaled(double ns, double factor) { return {std::llround(ns * factor)}; }

double percent(Random& random, int low, int high) {
  return 0.01 * static_cast<double>(random.in(low, high));
}

ProgramSpec random_pipeline(Random& random, int p, int v) {
  ProgramSpec spec = uniform_spec(
      {v == 1 ? ScheduleKind::OneForwardOneBackward : ScheduleKind::Interleaved, p, v, p});
  const double backward = percent(random, 100, 250);
  const bool uneven = random.coin();
  const double head = random.coin() ? percent(random, 110, 500) : 1;
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      const bool is_last = &chunk == &spec.stages.back().chunks.back();
      const double factor = (uneven ? percent(random, 70, 130) : 1) * (is_last ? head : 1);
      chunk.forward = scaled(kForwardNs, factor);
      chunk.backward = scaled(kForwardNs, factor * backward);
    }
  }
  if (random.in(1, 4) == 1) {
    for (model::StageCost& stage : spec.stages) {
      for (model::ChunkCost& chunk : stage.chunks) {
        chunk.activation = uneven ? Bytes{static_cast<double>(random.in(70, 130))} : Bytes{100};
      }
    }
    spec.stages.back().chunks.back().activation = Bytes{std::round(100 * head)};
  }
  spec.send_activation = spec.send_gradient = scaled(kForwardNs, percent(random, 0, 100));
  spec.overlap_p2p = true;
  return spec;
}

// Every rank can hold a micro-batch.
Bytes least_memory(const ProgramSpec& spec) {
  Bytes least{0};
  for (const model::Program& program : build_programs(spec)) {
    Bytes need = program.fixed_memory;
    for (const model::ChunkMemory& memory : program.chunk_memory) {
      need += policies::size_of_chunk(memory);
    }
    least = std::max(least, need);
  }
  return least;
}

}  // namespace

RandomRace random_race(std::uint64_t seed) {
  Random random(seed);
  const auto p = static_cast<int>(random.in(2, 8));
  const auto v = static_cast<int>(random.in(1, 4));
  ProgramSpec spec = random_pipeline(random, p, v);
  const auto planned = static_cast<int>(random.in(p, std::int64_t{4} * p));
  spec.micro_batches = (planned + p / 2) / p * p;  // So that interleaved 1F1B has an order.
  const sim::PipelineResult reference = simulate_pipeline(spec, sim::Engine::Events);
  RandomRace result;
  constexpr int kMemory[] = {60, 80, 100, 0};
  result.memory_percent = kMemory[random.in(0, 3)];
  const double share = result.memory_percent == 0 ? 1e9 : 0.01 * result.memory_percent;
  result.race.limit = std::max(share * peak_of(spec, reference), least_memory(spec));
  constexpr double kBatch[] = {1, 0.8, 1.2};
  if (random.in(0, 2) > 0) {
    spec.micro_batches =
        std::max(1, static_cast<int>(std::lround(kBatch[random.in(0, 2)] * planned)));
  }
  std::string link = "all links alike";
  if (random.coin()) {
    const auto one = static_cast<int>(random.in(0, p - 1));
    sim::LinkDisturbance slow{.one = {one}, .other = {(one + 1) % p}, .factor = 2};
    link = "link from " + std::to_string(one) + " at half speed";
    if (random.coin()) {
      slow.since = scaled(static_cast<double>(reference.makespan.ns), percent(random, 10, 80));
      link += " later";
    }
    result.race.links.push_back(slow);
  }
  result.race.receive_slots = static_cast<int>(random.in(0, 2));
  result.race.spec = std::move(spec);
  result.description = describe(result.race.spec) + ", " + link + ", memory " +
                       std::to_string(result.memory_percent) + " %, slots " +
                       std::to_string(result.race.receive_slots);
  return result;
}

double Lags::share_within(double percent) const {
  return static_cast<double>(std::upper_bound(sorted.begin(), sorted.end(), percent) -
                             sorted.begin()) /
         static_cast<double>(sorted.size());
}

double Lags::mean() const {
  return std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
}

double Lags::quantile(double share) const {
  const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

RandomRaces race_at_random(int count) {
  RandomRaces races;
  // Slots as 1, 2, none; memory as 60, 80, 100 %, unlimited.
  std::map<std::pair<int, int>, Lags> groups;
  for (const std::uint64_t seed : seeds(count)) {
    const RandomRace random = random_race(seed);
    SCOPED_TRACE(rerun_line("policies_race_test", seed) + " " + random.description);
    const double lag = race_one(random.race).over_best_percent;
    const int slots = random.race.receive_slots;
    groups[{slots == 0 ? 3 : slots, random.memory_percent == 0 ? 1000 : random.memory_percent}]
        .sorted.push_back(lag);
    races.all.sorted.push_back(lag);
  }
  std::sort(races.all.sorted.begin(), races.all.sorted.end());
  races.markdown =
      "| receive slots | memory | cases | within 1 % | mean | 95 % are below | 99 % | worst |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Lags& lags) {
    races.markdown += "| " + name + " | " + std::to_string(lags.sorted.size()) + " | " +
                      text(100 * lags.share_within(1), 1) + " %";
    for (const double value :
         {lags.mean(), lags.quantile(0.95), lags.quantile(0.99), lags.sorted.back()}) {
      races.markdown += " | " + text(value, 1, "+") + " %";
    }
    races.markdown += " |\n";
  };
  for (auto& [key, lags] : groups) {
    std::sort(lags.sorted.begin(), lags.sorted.end());
    line((key.first == 3 ? "none" : std::to_string(key.first)) + " | " +
             (key.second == 1000 ? "unlimited" : std::to_string(key.second) + " %"),
         lags);
  }
  line("**all** | ", races.all);
  return races;
}

}  // namespace megatwin::tests
