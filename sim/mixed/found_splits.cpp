#include "sim/mixed/found_splits.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "model/heterogeneous.h"
#include "model/layer_split.h"
#include "model/plan_check.h"
#include "model/program/job_program.h"
#include "sim/mixed/mixed_report.h"
#include "sim/pipeline_simulation.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::Plan;
using model::Seconds;

// Moves of a layer tried in all; each costs about a millisecond.
constexpr int kMovesMax = 1500;

template <class Value>
std::string list_text(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "[" : ", ") + std::to_string(value);
  return text + "]";
}

bool is_legal(const Job& job) {
  return model::plan_problems(job.transformer, job.plan, job.cluster, job.software).empty();
}

// Plans that fit before plans that do not, then the shorter step, or the lesser want of memory.
struct Worth {
  bool unfit = true;
  double measure = 0;
  friend auto operator<=>(const Worth&, const Worth&) = default;
};

class LayerSearch {
 public:
  LayerSearch(const Job& job, const SimulateOptions& options) : job_(job), options_(options) {
    options_.cache = &cache_;
    options_.timeline = options_.explain = options_.sensitivities = false;
  }

  std::optional<std::vector<int>> run() {
    std::vector<int> layers = model::layers_of_virtual_stages(job_.transformer, job_.plan);
    const auto even = worth_of(layers);
    if (!even) return std::nullopt;
    Worth best = *even;
    const std::vector<int> start = proportional(layers);
    if (const auto worth = worth_of(start); worth && *worth < best) {
      best = *worth;
      layers = start;
    }
    while (improve(layers, best)) {
    }
    return layers;
  }

 private:
  std::optional<Worth> worth_of(const std::vector<int>& layers) {
    Job changed = job_;
    changed.plan.layers_per_virtual_stage = layers;
    if (!is_legal(changed)) return std::nullopt;
    const auto answer = simulate(changed, options_);
    if (const auto* report = std::get_if<SimulationReport>(&answer)) {
      return Worth{false, report->step_time.value};
    }
    const auto& report = std::get<PlanRefusal>(answer).report;
    if (!report) return std::nullopt;
    return Worth{true, ratio(report->memory_peak / report->memory_limit)};
  }

  // x_i = L f_i / Σ f of the stages' speeds in layers, in whole layers.
  std::vector<int> proportional(const std::vector<int>& even) const {
    Job changed = job_;
    changed.plan.layers_per_virtual_stage = even;
    const model::JobProgram program = model::build_job_program(changed, options_.effects);
    std::vector<double> speeds(even.size());
    for (std::size_t i = 0; i < even.size(); ++i) {
      const int stage = model::stage_of_virtual_stage(job_.plan, static_cast<int>(i));
      const auto& chunks = program.stages[static_cast<std::size_t>(stage)].chunks;
      const model::PricedChunk& chunk = chunks[i / static_cast<std::size_t>(job_.plan.pipeline)];
      const Seconds time = chunk.forward.duration + chunk.backward.duration;
      speeds[i] = std::max(1, even[i]) / time.value;
    }
    const std::vector<std::int64_t> split =
        model::min_max_split(job_.transformer.num_layers, speeds);
    return {split.begin(), split.end()};
  }

  // The best move of one layer from a stage to another, if any shortens the step.
  bool improve(std::vector<int>& layers, Worth& best) {
    std::vector<int> found;
    for (std::size_t from = 0; from < layers.size(); ++from) {
      if (layers[from] == 0) continue;
      for (std::size_t to = 0; to < layers.size(); ++to) {
        if (to == from) continue;
        if (++moves_ > kMovesMax) return false;
        std::vector<int> moved = layers;
        --moved[from];
        ++moved[to];
        const auto worth = worth_of(moved);
        if (!worth || !(*worth < best)) continue;
        best = *worth;
        found = std::move(moved);
      }
    }
    if (found.empty()) return false;
    layers = std::move(found);
    return true;
  }

  const Job& job_;
  SimulateOptions options_;
  PipelineCache cache_;
  int moves_ = 0;
};

// Micro-batches that a replica takes at a time.
std::int64_t unit_of(const Plan& plan) {
  const bool in_rounds = plan.schedule == model::ScheduleKind::Interleaved && plan.model_chunks > 1;
  return in_rounds ? plan.pipeline : 1;
}

// As even as they go: one unit more on the first replicas.
std::vector<std::int64_t> even_micro_batches(const Plan& plan) {
  const std::int64_t unit = unit_of(plan);
  const std::int64_t units = plan.global_batch / plan.micro_batch / unit;
  std::vector<std::int64_t> counts;
  for (int replica = 0; replica < plan.data; ++replica) {
    counts.push_back(unit * (units / plan.data + (replica < units % plan.data ? 1 : 0)));
  }
  return counts;
}

// What a replica takes for m micro-batches is nearly a + b·m; both from two lengths of its
// pipeline.
std::vector<std::int64_t> found_micro_batches(const Job& job, const SimulateOptions& options) {
  const Plan& plan = job.plan;
  const std::int64_t unit = unit_of(plan);
  const std::vector<model::JobProgram> programs = model::build_job_programs(job, options.effects);
  std::vector<double> fixed(static_cast<std::size_t>(plan.data)), per_unit(fixed.size());
  for (const model::JobProgram& program : programs) {
    model::ProgramSpec spec = program.spec;
    const auto time = [&](std::int64_t units) {
      spec.micro_batches = static_cast<int>(units * unit);
      return model::to_seconds(simulate_pipeline(spec, Engine::Dataflow).makespan).value;
    };
    const std::int64_t few = std::max<std::int64_t>(1, plan.num_micro_batches() / unit);
    const double once = time(few), twice = time(2 * few);
    for (const int replica : program.replicas) {
      const auto index = static_cast<std::size_t>(replica);
      per_unit[index] = (twice - once) / static_cast<double>(few);
      fixed[index] = once - per_unit[index] * static_cast<double>(few);
    }
  }
  const std::int64_t units = plan.global_batch / plan.micro_batch / unit;
  std::vector<std::int64_t> counts = model::earliest_finish_split(units, fixed, per_unit);
  for (std::int64_t& count : counts) count *= unit;
  return counts;
}

}  // namespace

bool wants_found_splits(const Job& job) {
  return job.plan.layers_by_cost || job.plan.micro_batches_by_cost;
}

Job with_found_splits(const Job& job, const SimulateOptions& options) {
  Job found = job;
  Plan& plan = found.plan;
  const bool layers = std::exchange(plan.layers_by_cost, false);
  const bool micro_batches = std::exchange(plan.micro_batches_by_cost, false);
  if (layers && plan.schedule == model::ScheduleKind::ZeroBubbleV) {
    found.warnings.emplace_back(
        "plan.layers_per_stage auto: policy.schedule zb-v needs two equal chunks a stage; the "
        "layers "
        "stay even");
  } else if (layers) {
    Job even = found;
    even.plan.layers_per_virtual_stage =
        model::layers_of_virtual_stages(found.transformer, found.plan);
    if (!is_legal(even)) return found;
    plan.layers_per_virtual_stage = even.plan.layers_per_virtual_stage;
    // Flows, disturbances and failures are laid over the split that is best without them.
    even.network = model::NetworkKind::Analytic;
    even.disturbances.clear();
    even.failures.reset();
    if (const auto split = LayerSearch(even, options).run()) {
      plan.layers_per_virtual_stage = *split;
      found.assumptions.push_back("plan.layers_per_stage auto: " + list_text(*split) +
                                  " is taken, found by cost; even is " +
                                  list_text(even.plan.layers_per_virtual_stage) + ".");
    }
  }
  if (micro_batches && plan.data > 0) {
    const std::vector<std::int64_t> even = even_micro_batches(plan);
    plan.micro_batches_per_replica = even;
    if (!is_legal(found)) return found;
    plan.micro_batches_per_replica = found_micro_batches(found, options);
    found.assumptions.push_back(
        "plan.micro_batches_per_replica auto: " + list_text(plan.micro_batches_per_replica) +
        " is taken, found by cost; even is " + list_text(even) + ".");
  }
  return found;
}

}  // namespace megatwin::sim
