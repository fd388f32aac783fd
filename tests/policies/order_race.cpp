#include "tests/policies/order_race.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include <gtest/gtest.h>

#include "model/program/memory_planner.h"
#include "model/program/program_builder.h"
#include "policies/adaptive_pipeline.h"
#include "policies/dynamic_pipeline.h"
#include "policies/equal_memory.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::tests {
namespace {

using model::Bytes;
using model::Instant;
using model::ProgramSpec;
using model::ScheduleKind;
using model::StageId;
using sim::Engine;
using sim::LinkDisturbance;
using sim::PipelineResult;
using sim::SimulationOptions;

constexpr int kMicroBatches = 16;

// Microseconds, so that halves are whole.
Instant us(double value) { return {std::llround(1000 * value)}; }

// MegaDPP's own sample, from its trace: 4 stages of 4 chunks, forward 3.5 ms and backward 6.9 ms,
// the chunk with the head 17.1 and 19.2 ms (data/megascan_traces of the issue).
ProgramSpec sample(Instant send) {
  ProgramSpec spec = uniform_spec({ScheduleKind::Interleaved, 4, 4, kMicroBatches});
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      chunk.forward = us(3500);
      chunk.backward = us(6900);
    }
  }
  spec.stages[3].chunks[3].forward = us(17100);
  spec.stages[3].chunks[3].backward = us(19200);
  spec.send_activation = spec.send_gradient = send;
  spec.overlap_p2p = true;
  return spec;
}

ProgramSpec even(int p, int v, Instant send) {
  ProgramSpec spec = uniform_spec({ScheduleKind::Interleaved, p, v, kMicroBatches});
  for (model::StageCost& stage : spec.stages) {
    for (model::ChunkCost& chunk : stage.chunks) {
      chunk.forward = us(4000);
      chunk.backward = us(8000);
    }
  }
  spec.send_activation = spec.send_gradient = send;
  spec.overlap_p2p = true;
  return spec;
}

struct Condition {
  std::string name;
  int micro_batches = kMicroBatches;
  std::vector<LinkDisturbance> links;
  Instant reduce;
};

std::vector<Condition> conditions(Instant half_step) {
  const LinkDisturbance slow{.one = {1}, .other = {2}, .factor = 2};
  LinkDisturbance later = slow;
  later.since = half_step;
  std::vector<Condition> all;
  all.push_back({.name = "16 micro-batches"});
  all.push_back({.name = "13 micro-batches", .micro_batches = 13});
  all.push_back({.name = "19 micro-batches", .micro_batches = 19});
  all.push_back({.name = "link 1–2 at half speed", .links = {slow}});
  all.push_back({.name = "… from the middle of the step", .links = {later}});
  all.push_back({.name = "gradients reduced, 20 ms a chunk", .reduce = us(20000)});
  return all;
}

double milliseconds(Instant time) { return 1e3 * model::to_seconds(time).value; }

// The time of one order; nothing when it is not legal, does not fit or waits for itself.
std::optional<Instant> fixed_order(const RaceCase& race, ScheduleKind schedule) {
  ProgramSpec spec = race.spec;
  spec.schedule = schedule;
  if (!policies::schedule_problems(spec).empty()) return std::nullopt;
  SimulationOptions options;
  options.links = race.links;
  options.executor.receive_slots = race.receive_slots;
  const PipelineResult result = simulate_pipeline(spec, Engine::Events, options);
  if (!result.stalled.empty() || peak_of(spec, result) > race.limit) return std::nullopt;
  return result.makespan;
}

std::optional<Instant> dynamic_order(const RaceCase& race, const policies::PolicyFactory& policy) {
  SimulationOptions options;
  options.links = race.links;
  options.executor.receive_slots = race.receive_slots;
  options.executor.memory_limit = race.limit;
  options.policy = policy;
  const PipelineResult result = simulate_pipeline(race.spec, Engine::Events, options);
  EXPECT_TRUE(result.stalled.empty()) << result.stalled.front();
  if (!result.stalled.empty()) return std::nullopt;
  EXPECT_LE(peak_of(race.spec, result), race.limit);
  return result.makespan;
}

void consider(Outcome& outcome, std::optional<Instant> candidate, const char* name) {
  if (candidate && (outcome.best_name.empty() || *candidate < outcome.best)) {
    outcome.best = *candidate;
    outcome.best_name = name;
  }
}

struct Pipeline {
  std::string name;
  ProgramSpec spec;
};

std::vector<Pipeline> pipelines() {
  return {{"MegaDPP's sample, 4 stages × 4 chunks, transfers 0.8 ms", sample(us(800))},
          {"the same, transfers 3.5 ms", sample(us(3500))},
          {"even, 4 × 4, forward 4 ms, backward 8 ms, transfers 0.4 ms", even(4, 4, us(400))},
          {"even, 4 × 4, transfers 3 ms", even(4, 4, us(3000))},
          {"even, 8 × 2, transfers 1 ms", even(8, 2, us(1000))}};
}

std::string cell(const Outcome& outcome) {
  const std::string mark = outcome.is_behind() ? "**" : "";
  return " | " + text(milliseconds(outcome.adaptive), 0) + ", " + mark +
         text(outcome.over_best_percent, 1, "+") + " %" + mark + " " + outcome.best_name;
}

ProgramSpec under(const Condition& condition, ProgramSpec spec) {
  spec.micro_batches = condition.micro_batches;
  if (condition.reduce.ns > 0) {
    spec.overlap_grad_reduce = true;
    for (model::StageCost& stage : spec.stages) {
      for (model::ChunkCost& chunk : stage.chunks) chunk.gradient_reduce = condition.reduce;
    }
  }
  return spec;
}

// One pipeline with a number of slots under every condition: a line each, every case noted.
std::vector<std::string> lines_of(const Pipeline& pipeline, int receive_slots, OrderRace& race) {
  const PipelineResult interleaved = simulate_pipeline(pipeline.spec, Engine::Events);
  const Bytes peak = peak_of(pipeline.spec, interleaved);
  std::vector<std::string> lines;
  for (const Condition& condition : conditions({interleaved.makespan.ns / 2})) {
    std::string line;
    for (const double fraction : {0.6, 0.8, 1.0, 1e9}) {
      const Outcome outcome = race_one({.spec = under(condition, pipeline.spec),
                                        .links = condition.links,
                                        .limit = fraction * peak,
                                        .receive_slots = receive_slots});
      ++race.num_cases;
      if (outcome.is_behind()) {
        race.misses.push_back({pipeline.name + ", " + condition.name + ", memory " +
                                   (fraction > 2 ? "unlimited" : text(100 * fraction, 0) + " %") +
                                   ", slots " + std::to_string(receive_slots),
                               outcome.over_best_percent});
      }
      line += cell(outcome);
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

Bytes peak_of(const ProgramSpec& spec, const PipelineResult& result) {
  Bytes peak{0};
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    peak = std::max(
        peak,
        model::plan_memory({result.shape, spec.stages[rank], result.ranks[rank].order}).total());
  }
  return peak;
}

Outcome race_one(const RaceCase& race) {
  const std::vector<model::Program> programs = build_programs(race.spec);
  const policies::EqualMemory memory =
      policies::equal_memory_of(programs, std::vector<Bytes>(programs.size(), race.limit));
  const std::optional<Instant> adaptive =
      dynamic_order(race, policies::adaptive_pipeline_factory({.equal_memory = memory}));
  Outcome outcome;
  EXPECT_TRUE(adaptive) << "it waits for itself";
  if (!adaptive) return outcome;
  outcome.adaptive = *adaptive;
  consider(outcome, fixed_order(race, ScheduleKind::OneForwardOneBackward), "1");
  consider(outcome, fixed_order(race, ScheduleKind::Interleaved), "I");
  consider(outcome, fixed_order(race, ScheduleKind::GPipe), "G");
  const int whole = memory.micro_batches * race.spec.model_chunks;
  for (const auto traversal :
       {policies::Traversal::DepthFirst, policies::Traversal::BreadthFirst}) {
    consider(outcome,
             dynamic_order(race, policies::dynamic_pipeline_factory(
                                     {.traversal = traversal,
                                      .live_activations_max = race.receive_slots > 0 ? whole : 0})),
             traversal == policies::Traversal::DepthFirst ? "D" : "B");
  }
  const double ratio =
      static_cast<double>(outcome.adaptive.ns) / static_cast<double>(outcome.best.ns);
  outcome.over_best_percent = 100 * (ratio - 1);
  return outcome;
}

std::string text(double value, int digits, const char* sign) {
  char buffer[64];
  const std::string format = std::string("%") + sign + "." + std::to_string(digits) + "f";
  std::snprintf(buffer, sizeof(buffer), format.c_str(), value);
  return buffer;
}

OrderRace race_orders() {
  OrderRace race;
  race.markdown =
      "| ms a step, and against the best fixed order | memory 60 % | 80 % | 100 % | unlimited |\n"
      "|---|---|---|---|---|\n";
  for (const Pipeline& pipeline : pipelines()) {
    race.markdown += "| **" + pipeline.name + "** | | | | |\n";
    const std::vector<std::string> lines = lines_of(pipeline, 0, race);
    const std::vector<Condition> all = conditions({});
    for (std::size_t i = 0; i < lines.size(); ++i) {
      race.markdown += "| " + all[i].name + lines[i] + " |\n";
    }
  }
  return race;
}

OrderRace race_slots() {
  OrderRace race;
  race.markdown =
      "| 16 micro-batches; receive slots | memory 60 % | 80 % | 100 % | unlimited | behind, of 24 "
      "|\n"
      "|---|---|---|---|---|---|\n";
  for (const Pipeline& pipeline : pipelines()) {
    race.markdown += "| **" + pipeline.name + "** | | | | | |\n";
    for (const int slots : {1, 2, 0}) {
      const std::size_t before = race.misses.size();
      const std::vector<std::string> lines = lines_of(pipeline, slots, race);
      std::string behind;
      for (std::size_t i = before; i < race.misses.size(); ++i) {
        behind +=
            (behind.empty() ? "" : ", ") + text(race.misses[i].over_best_percent, 1, "+") + " %";
      }
      race.markdown += "| " + (slots == 0 ? "none" : std::to_string(slots)) + lines.front() +
                       " | " + (behind.empty() ? "0" : behind) + " |\n";
    }
  }
  return race;
}

}  // namespace megatwin::tests
