#include "sim/search/memory_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/program/job_program.h"
#include "policies/schedule.h"
#include "sim/memory_report.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Plan;
using model::ScheduleKind;
using model::StageCost;
using model::TaskKind;

enum Buffer { kActivation, kWeightGradientInput, kForwardTransient, kBackwardTransient };
constexpr int kNumBuffers = 4;

// From here on more micro-batches repeat what is live, but for GPipe, which holds them all.
std::int64_t micro_batches_that_matter(const Plan& plan) {
  const std::int64_t m = plan.num_micro_batches();
  switch (plan.schedule) {
    case ScheduleKind::GPipe:
    case ScheduleKind::OrderFile:
    case ScheduleKind::DynamicAdaptive:
    case ScheduleKind::DynamicDepthFirst:
    case ScheduleKind::DynamicBreadthFirst:
    case ScheduleKind::UserPolicy:
    case ScheduleKind::Decoupled:
      return m;
    case ScheduleKind::OneForwardOneBackward:
    case ScheduleKind::ZeroBubbleH1:
      return std::min(m, std::int64_t{2} * plan.pipeline);
    case ScheduleKind::Interleaved:
    case ScheduleKind::ZeroBubbleV:
      return std::min(m, std::int64_t{4} * plan.pipeline);
  }
  return m;
}

// In whole bytes, as the planner counts.
double whole(Bytes size) { return std::ceil(size.value); }

double size_of(const model::ChunkCost& cost, int buffer) {
  switch (buffer) {
    case kActivation:
      return whole(cost.activation);
    case kWeightGradientInput:
      return whole(cost.weight_gradient_input);
    case kForwardTransient:
      return whole(cost.forward_transient);
    default:
      return whole(cost.backward_transient);
  }
}

bool covers(const std::vector<std::int32_t>& more, const std::vector<std::int32_t>& less) {
  return std::equal(more.begin(), more.end(), less.begin(),
                    [](std::int32_t a, std::int32_t b) { return a >= b; });
}

}  // namespace

MemoryProfile::MemoryProfile(const Plan& plan, const ChunkLayout& layout) {
  model::ProgramSpec spec = program_shape(plan);
  spec.micro_batches = static_cast<int>(micro_batches_that_matter(plan));
  const std::vector<policies::Order> orders = policies::schedule_orders(spec);
  const model::PipelineShape shape = model::pipeline_shape(spec);
  kinds_.resize(layout.first_of_kind.size());
  for (int kind = 0; kind < layout.num_kinds(); ++kind) {
    std::vector<int>& chunks = kinds_[static_cast<std::size_t>(kind)].chunk_of_content;
    chunks.assign(layout.contents.size(), -1);
    for (int chunk = 0; chunk < layout.model_chunks; ++chunk) {
      const int stage = layout.first_of_kind[static_cast<std::size_t>(kind)];
      chunks[static_cast<std::size_t>(layout.content(stage, chunk))] = chunk;
    }
  }
  for (int stage = 0; stage < layout.pipeline; ++stage) {
    add_stage(layout, stage, orders, shape);
  }
}

void MemoryProfile::add_stage(const ChunkLayout& layout, int stage,
                              const std::vector<std::vector<model::TaskId>>& orders,
                              const model::PipelineShape& shape) {
  const std::size_t num_contents = layout.contents.size();
  Counts live(kNumBuffers * num_contents, 0);
  std::vector<Counts>& peaks =
      kinds_[static_cast<std::size_t>(layout.kind_of_stage[static_cast<std::size_t>(stage)])].peaks;
  // At once: in the steady phase a peak seen before covers what is live, and nothing is kept.
  const auto note_live = [&] {
    const auto covered = [&](const Counts& other) { return covers(other, live); };
    if (std::any_of(peaks.begin(), peaks.end(), covered)) return;
    std::erase_if(peaks, [&](const Counts& other) { return covers(live, other); });
    peaks.push_back(live);
  };
  for (const model::TaskId id : orders[static_cast<std::size_t>(stage)]) {
    const model::Task task = shape.task(id);
    const auto content = static_cast<std::size_t>(layout.content(stage, task.chunk.value));
    const auto at = [&](Buffer buffer) -> std::int32_t& {
      return live[static_cast<std::size_t>(buffer) * num_contents + content];
    };
    switch (task.kind) {
      case TaskKind::Forward:
        ++at(kActivation);
        ++at(kForwardTransient);
        note_live();
        --at(kForwardTransient);
        break;
      case TaskKind::Backward:
      case TaskKind::BackwardInput:
        ++at(kBackwardTransient);
        note_live();
        --at(kBackwardTransient);
        --at(kActivation);
        if (task.kind == TaskKind::BackwardInput) {
          ++at(kWeightGradientInput);
          note_live();
        }
        break;
      case TaskKind::BackwardWeight:
        --at(kWeightGradientInput);
        break;
      case TaskKind::Recompute:
        break;
    }
  }
}

Bytes MemoryProfile::peak_buffers(int kind, const StageCost& cost) const {
  const Kind& profile = kinds_[static_cast<std::size_t>(kind)];
  const std::size_t num_contents = profile.chunk_of_content.size();
  std::vector<double> sizes(kNumBuffers * num_contents, 0);
  for (std::size_t content = 0; content < num_contents; ++content) {
    const int chunk = profile.chunk_of_content[content];
    if (chunk < 0) continue;
    for (int buffer = 0; buffer < kNumBuffers; ++buffer) {
      sizes[static_cast<std::size_t>(buffer) * num_contents + content] =
          size_of(cost.chunks[static_cast<std::size_t>(chunk)], buffer);
    }
  }
  double peak = 0;
  for (const Counts& counts : profile.peaks) {
    double live = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) live += counts[i] * sizes[i];
    peak = std::max(peak, live);
  }
  return {peak};
}

const MemoryProfile& MemoryProfiles::get(const Plan& plan, const ChunkLayout& layout) {
  const Key key{&layout, plan.schedule, micro_batches_that_matter(plan)};
  const auto found = profiles_.find(key);
  if (found != profiles_.end()) return found->second;
  return profiles_.emplace(key, MemoryProfile(plan, layout)).first->second;
}

Bytes memory_peak(const model::Job& job, const PricedPlan& priced, const MemoryProfile& profile) {
  Bytes most{0};
  double fullest = 0;  // As fill_memory() chooses, to the last bit.
  for (std::size_t kind = 0; kind < priced.stages.size(); ++kind) {
    const StageCost& cost = priced.stages[kind];
    const Bytes held = profile.peak_buffers(static_cast<int>(kind), cost);
    const Bytes peak = rank_memory_peak(job, cost, held);
    const double full = ratio(peak / job.cluster.groups.front().gpu.memory_usable);
    if (full <= fullest) continue;
    fullest = full;
    most = peak;
  }
  return most;
}

}  // namespace megatwin::sim
