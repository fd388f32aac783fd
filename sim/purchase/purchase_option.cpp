#include "sim/purchase/purchase_option.h"

#include <algorithm>
#include <utility>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::TrainingWish;

template <class Value, class Keep>
void keep_if(std::vector<Value>& values, Keep keep) {
  std::vector<Value> kept;
  for (const Value& value : values) {
    if (keep(value)) kept.push_back(value);
  }
  if (!kept.empty()) values = std::move(kept);
}

// Both ways → on.
void turn_on(std::vector<bool>& values) {
  if (values.size() > 1) values = {true};
}

}  // namespace

std::string_view name_of(Limit limit) {
  switch (limit) {
    case Limit::Deadline:
      return "deadline";
    case Limit::Budget:
      return "budget";
    case Limit::Power:
      return "power";
  }
  return "deadline";
}

std::optional<double> allowed(const TrainingWish& wish, Limit limit) {
  switch (limit) {
    case Limit::Deadline:
      return wish.deadline ? std::optional(wish.deadline->value) : std::nullopt;
    case Limit::Budget:
      return wish.budget ? std::optional(wish.budget->value) : std::nullopt;
    case Limit::Power:
      return wish.power ? std::optional(wish.power->value) : std::nullopt;
  }
  return std::nullopt;
}

double taken(const PurchaseOption& option, Limit limit) {
  switch (limit) {
    case Limit::Deadline:
      return option.run.duration.value;
    case Limit::Budget:
      return option.run.cost ? option.run.cost->value : 0;
    case Limit::Power:
      return option.run.power.value;
  }
  return 0;
}

bool keeps(const TrainingWish& wish, const PurchaseOption& option, Limit limit) {
  const std::optional<double> most = allowed(wish, limit);
  return !most || taken(option, limit) <= *most;
}

bool keeps_all(const TrainingWish& wish, const PurchaseOption& option) {
  return std::all_of(std::begin(kLimits), std::end(kLimits),
                     [&](Limit limit) { return keeps(wish, option, limit); });
}

model::Job job_on(const model::Job& job, const model::MachineOffer& offer, int machines) {
  model::Job changed = job;
  changed.cluster.groups.assign(1, offer.group);
  changed.cluster.groups.front().count = machines;
  changed.profile = offer.profile;
  return changed;
}

SearchSpace short_space(const model::Job& job) {
  constexpr int kChunksMax = 8;
  constexpr std::int64_t kMicroBatchMax = 8;
  constexpr std::int64_t kShortSequence = 16384;
  SearchSpace space = whole_space(job);
  keep_if(space.model_chunks, [](int chunks) { return chunks <= kChunksMax; });
  keep_if(space.micro_batch, [](std::int64_t size) { return size <= kMicroBatchMax; });
  keep_if(space.schedule, [](model::ScheduleKind kind) {
    return kind == model::ScheduleKind::OneForwardOneBackward ||
           kind == model::ScheduleKind::Interleaved;
  });
  keep_if(space.zero, [](int stage) { return stage != 2; });
  keep_if(space.recompute, [](const RecomputeChoice& choice) { return choice.layers == 0; });
  space.layers = {LayerSplit::Even};
  space.rank_order = {job.plan.rank_order};
  turn_on(space.sequence_parallel);
  turn_on(space.overlap_grad_reduce);
  turn_on(space.overlap_param_gather);
  turn_on(space.overlap_tensor_parallel);
  turn_on(space.overlap_p2p);
  if (job.transformer.sequence_length < kShortSequence) space.context = {job.plan.context};
  return space;
}

PurchaseOption run_option(const model::Job& job, const TrainingWish& wish,
                          const model::NodeGroup& machine, SimulationReport report) {
  PurchaseOption option{.machines = machine.count, .report = std::move(report), .run = {}};
  const double tokens_per_step = static_cast<double>(option.report.plan.global_batch) *
                                 static_cast<double>(job.transformer.sequence_length);
  option.run = training_run({.tokens = wish.tokens,
                             .tokens_per_step = tokens_per_step,
                             .step_time = option.report.step_time,
                             .power_per_gpu = option.report.power_per_gpu,
                             .machines = option.machines,
                             .machine = machine,
                             .operations = wish.operations});
  return option;
}

PurchaseOption purchase_option(const model::Job& job, const TrainingWish& wish, int offer,
                               SimulationReport report) {
  model::NodeGroup machine = wish.offers[static_cast<std::size_t>(offer)].group;
  machine.count = job.cluster.groups.front().count;
  PurchaseOption option = run_option(job, wish, machine, std::move(report));
  option.offer = offer;
  return option;
}

}  // namespace megatwin::sim
