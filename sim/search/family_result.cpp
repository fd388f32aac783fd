#include "sim/search/family_result.h"

#include <tuple>

#include "sim/search/space_key.h"
#include "sim/search/step_bound.h"
#include "sim/search/step_energy.h"

namespace megatwin::sim {

using model::Bytes;
using model::Job;
using model::Plan;

std::vector<std::vector<ValueCount>> no_counts(const SearchSpace& space) {
  std::vector<std::vector<ValueCount>> counts(kNumSpaceKeys);
  for (int key = 0; key < kNumSpaceKeys; ++key) {
    // Replicas follow from the other sizes: all plans count for one value.
    const auto space_key = static_cast<SpaceKey>(key);
    const std::size_t size = space_key == SpaceKey::Data ? 1 : num_values(space, space_key);
    counts[static_cast<std::size_t>(key)].resize(size);
  }
  return counts;
}

bool is_leaner(const Candidate& a, const std::optional<Candidate>& b) {
  return !b || std::tuple(a.memory, a.code) < std::tuple(b->memory, b->code);
}

FamilyResult family_result(const Job& job, const SearchSpace& space, Bytes memory_limit,
                           const PlanFamily& family, SearchWorker& worker) {
  FamilyResult result;
  result.counts = no_counts(space);
  for_each_plan(job, space, family, worker.splits, [&](const PlanCode& code, const Plan& plan) {
    const PricedPlan& priced = worker.pricer.price(plan);
    if (is_endless(plan, priced)) return;
    Candidate candidate{.code = code};
    candidate.overhead = priced.step_overhead;
    candidate.batch = plan.global_batch;
    candidate.micro_batches = plan.num_micro_batches();
    candidate.memory = worker.memory(plan, priced);
    candidate.bound = step_lower_bound(plan, priced);
    candidate.energy_bound =
        energy_lower_bound(job, plan, priced, model::to_seconds(candidate.bound));
    const bool fits = candidate.memory <= memory_limit;
    ++result.num_legal;
    if (fits) result.fitting.push_back(candidate);
    if (is_leaner(candidate, result.leanest)) result.leanest = candidate;
    for (int key = 0; key < kNumSpaceKeys; ++key) {
      ValueCount& count =
          result.counts[static_cast<std::size_t>(key)][code.index[static_cast<std::size_t>(key)]];
      ++count.legal;
      count.fit += fits ? 1 : 0;
      if (is_leaner(candidate, count.leanest)) count.leanest = candidate;
    }
  });
  return result;
}

void write(const FamilyResult& result, ByteWriter& out) {
  out.put_list(result.fitting);
  out.put(result.counts.size());
  for (const auto& of_key : result.counts) out.put_list(of_key);
  out.put(result.leanest);
  out.put(result.num_legal);
}

FamilyResult read_family_result(ByteReader& in) {
  FamilyResult result;
  result.fitting = in.list<Candidate>();
  result.counts.resize(in.get<std::size_t>());
  for (auto& of_key : result.counts) of_key = in.list<ValueCount>();
  result.leanest = in.get<std::optional<Candidate>>();
  result.num_legal = in.get<std::int64_t>();
  return result;
}

}  // namespace megatwin::sim
