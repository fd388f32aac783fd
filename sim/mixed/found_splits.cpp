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
#include "sim/disturbed_job.h"
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

// Virtual stages whose numbers of layers change together: each alone, but for zb-v, which needs two
// equal chunks a stage.
std::vector<std::vector<std::size_t>> shares_of(const Plan& plan) {
  const bool in_pairs = plan.schedule == model::ScheduleKind::ZeroBubbleV;
  const int num_shares = in_pairs ? plan.pipeline : plan.pipeline * plan.model_chunks;
  std::vector<std::vector<std::size_t>> shares(static_cast<std::size_t>(num_shares));
  for (int i = 0; i < plan.pipeline * plan.model_chunks; ++i) {
    const int share = in_pairs ? model::stage_of_virtual_stage(plan, i) : i;
    shares[static_cast<std::size_t>(share)].push_back(static_cast<std::size_t>(i));
  }
  return shares;
}

// As even as the schedule has it.
std::vector<int> even_layers(const Job& job) {
  std::vector<int> layers = model::layers_of_virtual_stages(job.transformer, job.plan);
  if (job.plan.schedule != model::ScheduleKind::ZeroBubbleV) return layers;
  const auto p = static_cast<std::size_t>(job.plan.pipeline);
  if (layers.size() != 2 * p) return layers;
  const std::int64_t each = job.transformer.num_layers / 2 / job.plan.pipeline;
  const std::int64_t rest = job.transformer.num_layers / 2 % job.plan.pipeline;
  for (std::size_t stage = 0; stage < p; ++stage) {
    // The last stages turn round: neither embedding nor head is there.
    const bool has_more = std::cmp_greater_equal(stage, job.plan.pipeline - rest);
    layers[stage] = layers[2 * p - 1 - stage] = static_cast<int>(each + (has_more ? 1 : 0));
  }
  return layers;
}

class LayerSearch {
 public:
  // Starts at the layers of the job's plan.
  LayerSearch(const Job& job, const SimulateOptions& options)
      : job_(job), options_(options), shares_(shares_of(job.plan)) {
    options_.cache = &cache_;
    options_.timeline = options_.explain = options_.sensitivities = false;
  }

  std::optional<std::vector<int>> run() {
    std::vector<int> layers = job_.plan.layers_per_virtual_stage;
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

  // x_i = L f_i / Σ f of the shares' speeds in layers, in whole layers.
  std::vector<int> proportional(const std::vector<int>& even) const {
    const model::JobProgram program = model::build_job_program(job_, options_.effects);
    std::vector<double> speeds(shares_.size());
    for (std::size_t share = 0; share < shares_.size(); ++share) {
      Seconds time;
      for (const std::size_t i : shares_[share]) {
        const int stage = model::stage_of_virtual_stage(job_.plan, static_cast<int>(i));
        const auto& chunks = program.stages[static_cast<std::size_t>(stage)].chunks;
        const model::PricedChunk& chunk = chunks[i / static_cast<std::size_t>(job_.plan.pipeline)];
        time += chunk.forward.duration + chunk.backward.duration;
      }
      const int layers = even[shares_[share].front()];
      speeds[share] = std::max(1, layers) / time.value;  // Shares are of one size.
    }
    const std::int64_t rounds = job_.transformer.num_layers / std::ssize(shares_.front());
    const std::vector<std::int64_t> split = model::min_max_split(rounds, speeds);
    std::vector<int> layers(even.size());
    for (std::size_t share = 0; share < shares_.size(); ++share) {
      for (const std::size_t i : shares_[share]) layers[i] = static_cast<int>(split[share]);
    }
    return layers;
  }

  // The best move of a layer from a share to another, if any shortens the step.
  bool improve(std::vector<int>& layers, Worth& best) {
    std::vector<int> found;
    for (const auto& from : shares_) {
      if (layers[from.front()] == 0) continue;
      for (const auto& to : shares_) {
        if (&to == &from) continue;
        if (++moves_ > kMovesMax) return false;
        std::vector<int> moved = layers;
        for (const std::size_t i : from) --moved[i];
        for (const std::size_t i : to) ++moved[i];
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
  std::vector<std::vector<std::size_t>> shares_;
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
  counts.reserve(static_cast<std::size_t>(plan.data));
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
  if (layers) {
    Job even = found;
    even.plan.layers_per_virtual_stage = even_layers(found);
    if (!is_legal(even)) return found;
    plan.layers_per_virtual_stage = even.plan.layers_per_virtual_stage;
    // Flows, disturbances of the cluster and failures are laid over the split that is best without
    // them.
    even = on_sound_cluster(std::move(even));
    even.network = model::NetworkKind::Analytic;
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
