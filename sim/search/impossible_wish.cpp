#include "sim/search/impossible_wish.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model/nearest_plans.h"
#include "model/plan_check.h"
#include "sim/search/best_plan.h"
#include "sim/search/loser_reasons.h"
#include "sim/search/plan_list.h"
#include "sim/search/space_key.h"
#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Job;
using model::Plan;

Bytes limit_of(const Job& job, const SearchOptions& options) {
  return (1 - options.memory_margin) * job.cluster.groups.front().gpu.memory_usable;
}

// The best plan of a wider search; nothing when it finds none either.
std::optional<SimulationReport> best_of(const Job& job, const SearchSpace& space,
                                        const SearchOptions& options) {
  return best_plan(job, space,
                   {.num_threads = std::max(1, options.num_threads),
                    .memory_margin = options.memory_margin,
                    .progress = options.progress});
}

// In the order in which people would rather give way.
constexpr std::array<SpaceKey, 18> kKeysToFree = {
    SpaceKey::RankOrder, SpaceKey::Layers,       SpaceKey::OverlapP2p, SpaceKey::SequenceParallel,
    SpaceKey::Schedule,  SpaceKey::ModelChunks,  SpaceKey::MicroBatch, SpaceKey::Recompute,
    SpaceKey::Zero,      SpaceKey::Data,         SpaceKey::Pipeline,   SpaceKey::Tensor,
    SpaceKey::Context,   SpaceKey::ExpertTensor, SpaceKey::Expert,     SpaceKey::Dispatcher,
    SpaceKey::Precision, SpaceKey::GlobalBatch};

// These change what is trained: only when nothing else helps.
bool changes_training(SpaceKey key) {
  return key == SpaceKey::Precision || key == SpaceKey::GlobalBatch;
}

// What a key may take when its list is given up.
SearchSpace free_space(const Job& job) {
  SearchSpace space = whole_space(job);
  if (job.plan.precision != model::Precision::Bf16) {
    space.precision.push_back(model::Precision::Bf16);  // Every GPU that trains has it.
  }
  return space;
}

// The wish on another cluster or batch: lists that it names stay, the others are those of
// `changed`.
SearchSpace same_wish(const Job& job, const SearchSpace& space, const Job& changed) {
  const SearchSpace whole = whole_space(job);
  SearchSpace wished = whole_space(changed);
  for (int i = 0; i < kNumSpaceKeys; ++i) {
    const auto key = static_cast<SpaceKey>(i);
    if (!same_list(space, whole, key)) copy_list(space, key, wished);
  }
  return wished;
}

void relax_keys(const Job& job, const SearchSpace& space, const SearchOptions& options,
                ImpossibleWish& wish) {
  const SearchSpace free = free_space(job);
  const auto find = [&](SpaceKey key) {
    if (same_list(space, free, key)) return;
    SearchSpace wider = space;
    copy_list(free, key, wider);
    const auto found = best_of(job, wider, options);
    if (!found) return;
    const std::string name(name_of(key));
    wish.relaxations.push_back({"search." + name + ": allow " + value_text(found->plan, key),
                                found->plan, found->step_time});
  };
  for (const SpaceKey key : kKeysToFree) {
    if (!changes_training(key) || wish.relaxations.empty()) find(key);
  }
  std::stable_sort(wish.relaxations.begin(), wish.relaxations.end(),
                   [](const auto& a, const auto& b) { return *a.step_time < *b.step_time; });
}

// "cluster: 12 machines instead of 1 (96 GPUs)".
std::string machines_text(const Job& job, int count) {
  const model::NodeGroup& group = job.cluster.groups.front();
  return "cluster: " + std::to_string(count) + " machines instead of " +
         std::to_string(group.count) + " (" + std::to_string(count * group.node.num_gpus) +
         " GPUs)";
}

// The smallest number of machines, by doubling and halving the gap, on which some plan of the same
// wish fits. A smaller one that happens to divide better can be missed.
void relax_machines(const Job& job, const SearchSpace& space, const SearchOptions& options,
                    ImpossibleWish& wish) {
  constexpr int kDoublings = 6;
  const auto best_on = [&](int count) {
    Job larger = job;
    larger.cluster.groups.front().count = count;
    return best_of(larger, same_wish(job, space, larger), options);
  };
  int fails = std::max(1, job.cluster.groups.front().count);
  int fits = 2 * fails;
  auto found = best_on(fits);
  for (int i = 1; i < kDoublings && !found; ++i) {
    fails = fits;
    fits *= 2;
    found = best_on(fits);
  }
  if (!found) return;
  while (fits - fails > 1) {
    const int middle = fails + (fits - fails) / 2;
    auto fewer = best_on(middle);
    (fewer ? fits : fails) = middle;
    if (fewer) found = std::move(fewer);
  }
  wish.relaxations.push_back({machines_text(job, fits), found->plan, found->step_time});
}

// The largest number of machines, by halving, that some plan of the same wish can use.
void take_fewer_machines(const Job& job, const SearchSpace& space, const SearchOptions& options,
                         ImpossibleWish& wish) {
  Job smaller = job;
  const int before = job.cluster.groups.front().count;
  for (int count = before / 2; count >= 1; count /= 2) {
    smaller.cluster.groups.front().count = count;
    const auto found = best_of(smaller, same_wish(job, space, smaller), options);
    if (!found) continue;
    wish.relaxations.push_back({machines_text(job, count), found->plan, found->step_time});
    return;
  }
}

void relax_batch(const Job& job, const SearchSpace& space, const SearchOptions& options,
                 ImpossibleWish& wish) {
  for (const model::NearestPlan& near : model::nearest_legal_plans(
           job.transformer, job.plan, job.cluster, job.software, {.max_plans = 3})) {
    if (near.plan.global_batch == job.plan.global_batch) continue;
    Job changed = job;
    changed.plan = near.plan;
    SearchSpace wished = same_wish(job, space, changed);
    wished.global_batch = {near.plan.global_batch};
    const auto found = best_of(changed, wished, options);
    if (!found) continue;
    wish.relaxations.push_back({"plan.global_batch: " + std::to_string(near.plan.global_batch) +
                                    " instead of " + std::to_string(job.plan.global_batch),
                                found->plan, found->step_time});
  }
}

// Problems of keys for each of whose listed values something is wrong, whatever the others are.
std::vector<std::string> hopeless_keys(const Job& job, const SearchSpace& space) {
  constexpr std::array<std::pair<SpaceKey, model::PlanKey>, 7> kKeys = {{
      {SpaceKey::Tensor, model::PlanKey::Tensor},
      {SpaceKey::Pipeline, model::PlanKey::Pipeline},
      {SpaceKey::Context, model::PlanKey::Context},
      {SpaceKey::Expert, model::PlanKey::Expert},
      {SpaceKey::ExpertTensor, model::PlanKey::ExpertTensor},
      {SpaceKey::Precision, model::PlanKey::Precision},
      {SpaceKey::Zero, model::PlanKey::Zero},
  }};
  std::vector<std::string> reasons;
  for (const auto& [key, of_plan] : kKeys) {
    std::string first;
    bool hopeless = num_values(space, key) > 0;
    for (std::size_t i = 0; i < num_values(space, key) && hopeless; ++i) {
      PlanCode code;
      code[key] = static_cast<std::uint16_t>(i);
      hopeless = false;
      for (model::PlanProblem& problem : model::check_plan(
               job.transformer, plan_of(job, space, code), job.cluster, job.software)) {
        if (problem.keys != std::vector{of_plan}) continue;
        hopeless = true;
        if (first.empty()) first = std::move(problem.text);
        break;
      }
    }
    if (hopeless) {
      reasons.push_back("no value of search." + std::string(name_of(key)) +
                        " is possible: " + first);
    }
  }
  return reasons;
}

}  // namespace

ImpossibleWish impossible_wish(const Job& job, const SearchSpace& space,
                               const Candidates& candidates, const SearchOptions& options) {
  ImpossibleWish wish;
  if (candidates.num_legal() == 0) {
    wish.message = "no plan of the search space is legal for this model and cluster";
    wish.reasons = model::plan_problems(job.transformer, job.plan, job.cluster, job.software);
    const auto own = simulate(job, {.sensitivities = false});
    const auto* refusal = std::get_if<PlanRefusal>(&own);
    if (wish.reasons.empty() && refusal != nullptr && !refusal->report) {
      wish.reasons = refusal->reasons;
    }
    if (wish.reasons.empty()) {  // The file's own plan is none of the space: name one that is.
      wish.reasons =
          model::plan_problems(job.transformer, plan_of(job, space, {}), job.cluster, job.software);
    }
    const std::vector<std::string> hopeless = hopeless_keys(job, space);
    wish.reasons.insert(wish.reasons.begin(), hopeless.begin(), hopeless.end());
  } else {
    const Plan leanest = candidates.plan(*candidates.leanest());
    const Loser miss = large_loser(job, leanest, limit_of(job, options));
    wish.message = "none of " + std::to_string(candidates.num_legal()) +
                   " legal plans fits into the memory of a GPU";
    wish.reasons = {"the leanest plan " + miss.reason};
    SimulationReport nearest = report_of_plan(job, leanest, {.sensitivities = false});
    const model::Seconds time = nearest.step_time;
    wish.nearest = FoundPlan{std::move(nearest), "dataflow", time};
  }
  relax_keys(job, space, options, wish);
  if (wish.relaxations.empty()) relax_batch(job, space, options, wish);
  if (candidates.num_legal() == 0) take_fewer_machines(job, space, options, wish);
  if (wish.relaxations.empty()) relax_machines(job, space, options, wish);
  return wish;
}

ImpossibleWish impossible_wish_of(const Job& job, const SearchSpace& space,
                                  const SearchOptions& options) {
  Candidates candidates(job, space, limit_of(job, options), std::max(1, options.num_threads));
  candidates.enumerate({});
  return impossible_wish(job, space, candidates, options);
}

}  // namespace megatwin::sim
