#include "sim/purchase/machine_mixes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "model/assert.h"
#include "model/layer_split.h"
#include "model/plan_check.h"
#include "sim/search/parallel_for.h"
#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::MachineOffer;
using model::Plan;
using model::TrainingWish;
using Parts = std::vector<MachineMix::Part>;

// Plans with even splits whose layers are then dealt by cost: a second or two each.
constexpr std::size_t kRefined = 3;

const MachineOffer& offer_of(const TrainingWish& wish, const MachineMix::Part& part) {
  return wish.offers[static_cast<std::size_t>(part.offer)];
}

std::vector<Parts> combinations(const TrainingWish& wish) {
  std::vector<Parts> all;
  const auto counts = [&](int offer) {
    const MachineOffer& machine = wish.offers[static_cast<std::size_t>(offer)];
    return std::set<int>{std::max({1, machine.count_min, machine.count_max / 2}),
                         machine.count_max};
  };
  const auto size = static_cast<int>(wish.offers.size());
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b) {
      const auto& first = wish.offers[static_cast<std::size_t>(a)].group.node;
      const auto& second = wish.offers[static_cast<std::size_t>(b)].group.node;
      if (first.num_gpus != second.num_gpus) continue;
      for (const int n : counts(a)) {
        for (const int m : counts(b)) all.push_back({{a, n}, {b, m}});
      }
    }
  }
  return all;
}

template <class Value>
bool holds(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool is_in(const SearchSpace& space, const Plan& plan) {
  return holds(space.tensor, plan.tensor) && holds(space.pipeline, plan.pipeline) &&
         holds(space.model_chunks, plan.model_chunks) &&
         holds(space.micro_batch, plan.micro_batch) && holds(space.schedule, plan.schedule) &&
         holds(space.recompute, RecomputeChoice{plan.recompute, plan.recompute_layers}) &&
         holds(space.zero, plan.zero_stage);
}

// With even splits; legal on the job's cluster.
std::vector<Plan> even_plans(const Job& job, const SearchSpace* space) {
  std::vector<Plan> plans;
  const int machine = job.cluster.groups.front().node.num_gpus;
  const auto add = [&](Plan plan) {
    if (space != nullptr && !is_in(*space, plan)) return;
    const auto data = model::data_from_gpus(plan, job.cluster.num_gpus());
    if (!data) return;
    plan.data = *data;
    if (!model::is_layer_split_legal(job.transformer, plan)) {
      plan.layers_per_virtual_stage = model::layers_of_virtual_stages(job.transformer, plan);
    }
    Plan checked = plan;  // Replicas that differ need no even batch.
    if (plan.micro_batches_by_cost) checked.global_batch = plan.micro_batch * plan.data;
    if (model::check_plan(job.transformer, checked, job.cluster, job.software).empty()) {
      plans.push_back(std::move(plan));
    }
  };
  for (int tensor = 1; tensor <= machine; tensor *= 2) {
    for (int pipeline = 1; pipeline <= 16; pipeline *= 2) {
      for (const std::int64_t micro_batch : {1, 2}) {
        for (const bool again : {false, true}) {
          Plan plan = job.plan;
          plan.tensor = tensor;
          plan.pipeline = pipeline;
          plan.model_chunks = 1;
          plan.schedule = model::ScheduleKind::OneForwardOneBackward;
          plan.micro_batch = micro_batch;
          plan.sequence_parallel = tensor > 1;
          plan.recompute = again ? model::RecomputeKind::Full : model::RecomputeKind::None;
          plan.recompute_layers = 0;
          plan.zero_stage = std::max(plan.zero_stage, 1);
          plan.layers_per_virtual_stage.clear();
          plan.embedding_as_layer = plan.head_as_layer = false;
          plan.rank_order = Plan{}.rank_order;  // Stages stand on kinds.
          if (pipeline > 1) add(plan);
          if (pipeline > 8) continue;
          plan.rank_order = "tp-cp-ep-pp-dp";  // Replicas do.
          plan.micro_batches_by_cost = true;
          add(plan);
        }
      }
    }
  }
  return plans;
}

std::optional<SimulationReport> fitting_report(const Job& job, const Plan& plan) {
  Job changed = job;
  changed.plan = plan;
  auto answer = simulate(changed, {.sensitivities = false});
  if (auto* report = std::get_if<SimulationReport>(&answer)) return std::move(*report);
  return std::nullopt;
}

void keep_faster(std::optional<SimulationReport>& best, std::optional<SimulationReport> other) {
  if (other && (!best || other->step_time < best->step_time)) best = std::move(other);
}

std::optional<SimulationReport> best_report(const Job& job, const SearchSpace* space) {
  std::vector<std::pair<model::Seconds, Plan>> staged;
  std::optional<SimulationReport> best;
  for (const Plan& plan : even_plans(job, space)) {
    auto report = fitting_report(job, plan);
    if (report && plan.rank_order == Plan{}.rank_order) {
      staged.emplace_back(report->step_time, plan);
    }
    keep_faster(best, std::move(report));
  }
  std::stable_sort(staged.begin(), staged.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < std::min(kRefined, staged.size()); ++i) {
    Plan plan = staged[i].second;
    plan.layers_per_virtual_stage.clear();
    plan.layers_by_cost = true;
    keep_faster(best, fitting_report(job, plan));
  }
  return best;
}

// A machine that costs and draws what the parts do in the mean.
model::NodeGroup mean_machine(const TrainingWish& wish, const Parts& parts) {
  model::NodeGroup mean = offer_of(wish, parts.front()).group;
  double count = 0, price = 0, rating = 0, limit = 0;
  bool priced = true;
  for (const MachineMix::Part& part : parts) {
    const model::NodeGroup& group = offer_of(wish, part).group;
    count += part.machines;
    price += part.machines * group.node.price_per_hour.value;
    rating += part.machines * group.node.power_max.value;
    limit += part.machines * group.gpu.power_max.value;
    priced = priced && group.node.price_per_hour.value > 0;
  }
  mean.count = static_cast<int>(count);
  mean.node.price_per_hour = {priced ? price / count : 0};
  mean.node.power_max = {rating / count};
  mean.gpu.power_max = {limit / count};
  return mean;
}

}  // namespace

Job job_on(const Job& job, const TrainingWish& wish, const Parts& parts) {
  Job changed = job;
  changed.cluster.groups.clear();
  changed.group_profiles.clear();
  for (const MachineMix::Part& part : parts) {
    const MachineOffer& offer = offer_of(wish, part);
    changed.cluster.groups.push_back(offer.group);
    changed.cluster.groups.back().count = part.machines;
    changed.group_profiles.push_back(offer.profile);
  }
  changed.profile = changed.group_profiles.front();
  return changed;
}

std::vector<MachineMix> machine_mixes(const Job& job, const TrainingWish& wish,
                                      const MixRequest& request) {
  const std::vector<Parts> all = combinations(wish);
  std::vector<std::optional<SimulationReport>> reports(all.size());
  std::mutex progress_mutex;
  std::int64_t done = 0;
  parallel_for(all.size(), request.num_threads, [&](std::size_t i, int /*thread*/) {
    Job mixed = job_on(job, wish, all[i]);
    for (model::NodeGroup& group : mixed.cluster.groups) {
      group.gpu.memory_usable = (1 - request.memory_margin) * group.gpu.memory_usable;
    }
    reports[i] = best_report(mixed, request.space);
    const std::lock_guard lock(progress_mutex);
    ++done;
    if (request.progress) {
      request.progress({"mixing machines", done, static_cast<std::int64_t>(all.size())});
    }
  });
  std::vector<MachineMix> mixes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!reports[i]) continue;
    const model::NodeGroup mean = mean_machine(wish, all[i]);
    PurchaseOption option = run_option(job, wish, mean, *std::move(reports[i]));
    option.offer = all[i].front().offer;
    mixes.push_back({all[i], std::move(option)});
  }
  return mixes;
}

}  // namespace megatwin::sim
