#include "sim/search/plan_list.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/balanced_layers.h"
#include "model/layer_split.h"
#include "model/plan_check.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::Plan;
using model::ScheduleKind;

bool runs_chunks(ScheduleKind schedule) {
  return schedule == ScheduleKind::Interleaved || schedule == ScheduleKind::ZeroBubbleV;
}

template <class List, class Body>
void for_each_index(PlanCode& code, SpaceKey key, const List& values, Body body) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    code[key] = static_cast<std::uint16_t>(i);
    body(values[i]);
  }
  code[key] = 0;
}

bool is_first(const PlanCode& code, SpaceKey key) { return code[key] == 0; }

// Whether the value at this index means the same as an earlier one of the list.
bool repeats_expert_tensor(const SearchSpace& space, const PlanCode& code, int tensor) {
  const auto effective = [&](int value) { return value > 0 ? value : tensor; };
  const std::size_t index = code[SpaceKey::ExpertTensor];
  for (std::size_t i = 0; i < index; ++i) {
    if (effective(space.expert_tensor[i]) == effective(space.expert_tensor[index])) return true;
  }
  return false;
}

// A rank order without what has one part only and lays nothing out.
std::string effective_order(const Plan& plan, std::string_view order) {
  const auto has_parts = [&](std::string_view dimension) {
    if (dimension == "tp") return plan.tensor > 1 || plan.effective_expert_tensor() > 1;
    if (dimension == "cp") return plan.context > 1;
    if (dimension == "ep") return plan.expert > 1;
    if (dimension == "pp") return plan.pipeline > 1;
    return plan.data > 1 || plan.expert > 1;  // Experts have replicas of their own.
  };
  std::string kept;
  for (std::size_t i = 0; i + 2 <= order.size(); i += 3) {
    if (has_parts(order.substr(i, 2))) kept += order.substr(i, 2);
  }
  return kept;
}

bool repeats_rank_order(const SearchSpace& space, const PlanCode& code, const Plan& plan) {
  const std::size_t index = code[SpaceKey::RankOrder];
  if (index == 0) return false;
  const std::string own = effective_order(plan, space.rank_order[index]);
  return std::any_of(space.rank_order.begin(),
                     space.rank_order.begin() + static_cast<std::ptrdiff_t>(index),
                     [&](const std::string& other) { return effective_order(plan, other) == own; });
}

bool can_have_replicas(const Job& job, const SearchSpace& space, const Plan& plan) {
  const std::int64_t gpus = job.cluster.num_gpus();
  const std::int64_t inner = std::int64_t{plan.tensor} * plan.context;
  return std::any_of(space.pipeline.begin(), space.pipeline.end(),
                     [&](int pipeline) { return gpus % (inner * pipeline) == 0; });
}

// Unequal chunks of interleaving, where some other number of chunks divides: dozens of plans that
// are hardly told apart. Where none does, as with a prime number of layers, they are all there is.
bool is_needless(const SearchSpace& space, const Job& job, const Plan& plan) {
  if (plan.schedule != ScheduleKind::Interleaved || plan.model_chunks == 1) return false;
  const auto divides = [&](int chunks) {
    const std::int64_t stages = std::int64_t{chunks} * plan.pipeline;
    const std::int64_t layers = job.transformer.num_layers;
    return chunks > 1 && (layers % stages == 0 || (layers + 2) % stages == 0);
  };
  return !plan.layers_per_virtual_stage.empty() && !divides(plan.model_chunks) &&
         std::any_of(space.model_chunks.begin(), space.model_chunks.end(), divides);
}

// Walks the keys inside a family.
class FamilyWalk {
 public:
  FamilyWalk(const Job& job, const SearchSpace& space, const PlanFamily& family,
             LayerSplits& splits, const std::function<void(const PlanCode&, const Plan&)>& visit)
      : job_(job),
        space_(space),
        splits_(splits),
        visit_(visit),
        code_(family.code),
        plan_(plan_of(job, space, family.code)) {}

  void run() {
    for_each_index(code_, SpaceKey::Pipeline, space_.pipeline, [&](int pipeline) {
      plan_.pipeline = pipeline;
      const auto data = model::data_from_gpus(plan_, job_.cluster.num_gpus());
      if (!data) return;
      if (!space_.data.empty() &&
          std::find(space_.data.begin(), space_.data.end(), *data) == space_.data.end()) {
        return;
      }
      plan_.data = *data;
      for_each_index(code_, SpaceKey::RankOrder, space_.rank_order, [&](const std::string& order) {
        plan_.rank_order = order;
        if (!repeats_rank_order(space_, code_, plan_)) walk_batches();
      });
    });
  }

 private:
  void walk_batches() {
    for_each_index(code_, SpaceKey::GlobalBatch, space_.global_batch, [&](std::int64_t batch) {
      plan_.global_batch = batch;
      if (batch % (plan_.micro_batch * plan_.data) == 0) walk_states();
    });
  }

  void walk_states() {
    for_each_index(code_, SpaceKey::Zero, space_.zero, [&](int stage) {
      if (!bears_on(job_, plan_, SpaceKey::Zero) && !is_first(code_, SpaceKey::Zero)) return;
      plan_.zero_stage = stage;
      if (!can_shard()) return;
      for_each_index(code_, SpaceKey::OverlapGradReduce, space_.overlap_grad_reduce, [&](bool on) {
        const bool reduces = bears_on(job_, plan_, SpaceKey::OverlapGradReduce);
        if (!reduces && !is_first(code_, SpaceKey::OverlapGradReduce)) return;
        plan_.overlap_grad_reduce = on;
        for_each_index(code_, SpaceKey::OverlapParamGather, space_.overlap_param_gather,
                       [&](bool gather_on) {
                         const bool gathers = bears_on(job_, plan_, SpaceKey::OverlapParamGather);
                         if (!gathers && !is_first(code_, SpaceKey::OverlapParamGather)) return;
                         plan_.overlap_param_gather = gather_on;
                         walk_schedules();
                       });
      });
    });
  }

  void walk_schedules() {
    for_each_index(code_, SpaceKey::Schedule, space_.schedule, [&](ScheduleKind schedule) {
      if (!bears_on(job_, plan_, SpaceKey::Schedule) && !is_first(code_, SpaceKey::Schedule))
        return;
      plan_.schedule = plan_.pipeline == 1 ? ScheduleKind::OneForwardOneBackward : schedule;
      for_each_index(code_, SpaceKey::ModelChunks, space_.model_chunks, [&](int chunks) {
        if (runs_chunks(plan_.schedule) != (chunks > 1)) return;
        if (plan_.schedule == ScheduleKind::ZeroBubbleV && chunks != 2) return;
        if (std::int64_t{chunks} * plan_.pipeline > job_.transformer.num_layers + 2) return;
        plan_.model_chunks = chunks;
        if (chunks > 1 && !fills_rounds()) return;
        if (recomputes_less_than_all()) walk_splits();
      });
    });
  }

  void walk_splits() {
    for (const auto& [index, dealt] : splits_.of(job_, space_, plan_)) {
      code_[SpaceKey::Layers] = index;
      copy_value(dealt, SpaceKey::Layers, plan_);
      walk_sends();
    }
    code_[SpaceKey::Layers] = 0;
  }

  // check_plan() says the same in words; most refusals are of this kind, and words take time.
  bool fills_rounds() const {
    const std::int64_t m = plan_.num_micro_batches();
    return plan_.schedule != ScheduleKind::Interleaved || m % plan_.pipeline == 0;
  }

  // Whether the stack can shard what this stage shards, under a pipeline of this size.
  bool can_shard() {
    if (plan_.zero_stage < 2) return true;
    Plan plain = plan_;
    plain.schedule = ScheduleKind::OneForwardOneBackward;
    plain.model_chunks = 1;
    deal_layers(job_, job_.plan, LayerSplit::Even, plain);
    const auto problems = model::check_plan(job_.transformer, plain, job_.cluster, job_.software);
    return std::none_of(problems.begin(), problems.end(), [](const model::PlanProblem& problem) {
      return std::find(problem.keys.begin(), problem.keys.end(), model::PlanKey::Zero) !=
             problem.keys.end();
    });
  }

  // The first n layers of a chunk that has no more are all of them, which is another entry.
  bool recomputes_less_than_all() const {
    if (plan_.recompute_layers == 0) return true;
    return std::int64_t{plan_.recompute_layers} * plan_.pipeline * plan_.model_chunks <
           job_.transformer.num_layers;
  }

  void walk_sends() {
    for_each_index(code_, SpaceKey::OverlapP2p, space_.overlap_p2p, [&](bool on) {
      if (!bears_on(job_, plan_, SpaceKey::OverlapP2p) && !is_first(code_, SpaceKey::OverlapP2p)) {
        return;
      }
      plan_.overlap_p2p = on;
      const bool legal =
          model::check_plan(job_.transformer, plan_, job_.cluster, job_.software).empty();
      if (legal) visit_(code_, plan_);
    });
  }

  const Job& job_;
  const SearchSpace& space_;
  LayerSplits& splits_;
  const std::function<void(const PlanCode&, const Plan&)>& visit_;
  PlanCode code_;
  Plan plan_;
};

// By work; what comes out even stays as it was dealt.
void balance_layers(const Job& job, Plan& plan) {
  std::vector<int> layers = model::balanced_layers(job.transformer, plan);
  const bool is_even = model::is_layer_split_legal(job.transformer, plan) &&
                       layers == model::layers_of_virtual_stages(job.transformer, plan);
  if (layers.empty() || is_even) return;
  plan.embedding_as_layer = plan.head_as_layer = false;
  plan.layers_per_virtual_stage = std::move(layers);
}

void count_ends_as_layers(const Job& job, Plan& plan) {
  Plan ends = plan;
  ends.layers_per_virtual_stage.clear();
  ends.embedding_as_layer = ends.head_as_layer = true;
  const auto layers = [&](const Plan& dealt) {
    return model::layers_of_virtual_stages(job.transformer, dealt);
  };
  if (model::is_layer_split_legal(job.transformer, ends) && layers(ends) != layers(plan)) {
    copy_value(ends, SpaceKey::Layers, plan);
  }
}

// As LayerSplit::Even says.
void deal_evenly(const Job& job, const Plan& origin, Plan& plan) {
  plan.layers_per_virtual_stage.clear();
  plan.embedding_as_layer = origin.embedding_as_layer;
  plan.head_as_layer = origin.head_as_layer;
  const bool same_shape = plan.pipeline == origin.pipeline &&
                          plan.model_chunks == origin.model_chunks &&
                          plan.schedule == origin.schedule;
  if (same_shape && !origin.layers_per_virtual_stage.empty()) {
    plan.layers_per_virtual_stage = origin.layers_per_virtual_stage;
    return;
  }
  if (model::is_layer_split_legal(job.transformer, plan)) return;
  for (const bool ends_are_layers : {false, true}) {
    plan.embedding_as_layer = plan.head_as_layer = ends_are_layers;
    if (model::is_layer_split_legal(job.transformer, plan)) return;
  }
  plan.embedding_as_layer = plan.head_as_layer = false;
  if (plan.model_chunks > 1) return;  // Refused; an uneven split of chunks gains nothing.
  const std::vector<int> split = model::layers_of_virtual_stages(job.transformer, plan);
  const bool all_have_layers = std::all_of(split.begin(), split.end(), [](int n) { return n > 0; });
  if (all_have_layers) plan.layers_per_virtual_stage = split;
}

}  // namespace

bool bears_on(const Job& job, const Plan& plan, SpaceKey key) {
  const int replicas = plan.data * plan.context;
  switch (key) {
    case SpaceKey::SequenceParallel:
      return plan.tensor > 1;
    case SpaceKey::OverlapTensorParallel:
      return plan.tensor > 1 && plan.sequence_parallel;
    case SpaceKey::Schedule:
    case SpaceKey::ModelChunks:
    case SpaceKey::OverlapP2p:
    case SpaceKey::Layers:
      return plan.pipeline > 1;
    case SpaceKey::Zero:
    case SpaceKey::OverlapGradReduce:
      return replicas > 1;
    case SpaceKey::OverlapParamGather:
      return replicas > 1 && plan.zero_stage > 0;
    case SpaceKey::Expert:
    case SpaceKey::ExpertTensor:
    case SpaceKey::Dispatcher:
      return job.transformer.experts.has_value();
    default:
      return true;
  }
}

void deal_layers(const Job& job, const Plan& origin, LayerSplit split, Plan& plan) {
  deal_evenly(job, origin, plan);
  switch (split) {
    case LayerSplit::Even:
      return;
    case LayerSplit::Ends:
      return count_ends_as_layers(job, plan);
    case LayerSplit::Auto:
      return balance_layers(job, plan);
  }
}

namespace {

// plan_of() without the layers.
Plan sizes_of(const Job& job, const SearchSpace& space, const PlanCode& code) {
  Plan plan = job.plan;
  plan.tensor = space.tensor[code[SpaceKey::Tensor]];
  plan.pipeline = space.pipeline[code[SpaceKey::Pipeline]];
  plan.model_chunks = space.model_chunks[code[SpaceKey::ModelChunks]];
  plan.context = space.context[code[SpaceKey::Context]];
  plan.expert = space.expert[code[SpaceKey::Expert]];
  plan.expert_tensor = space.expert_tensor[code[SpaceKey::ExpertTensor]];
  plan.micro_batch = space.micro_batch[code[SpaceKey::MicroBatch]];
  plan.global_batch = space.global_batch[code[SpaceKey::GlobalBatch]];
  plan.sequence_parallel = space.sequence_parallel[code[SpaceKey::SequenceParallel]];
  plan.zero_stage = space.zero[code[SpaceKey::Zero]];
  const RecomputeChoice& recompute = space.recompute[code[SpaceKey::Recompute]];
  plan.recompute = recompute.kind;
  plan.recompute_layers = recompute.layers;
  plan.precision = space.precision[code[SpaceKey::Precision]];
  plan.dispatcher = space.dispatcher[code[SpaceKey::Dispatcher]];
  plan.schedule = plan.pipeline == 1 ? ScheduleKind::OneForwardOneBackward
                                     : space.schedule[code[SpaceKey::Schedule]];
  plan.overlap_grad_reduce = space.overlap_grad_reduce[code[SpaceKey::OverlapGradReduce]];
  plan.overlap_param_gather = space.overlap_param_gather[code[SpaceKey::OverlapParamGather]];
  plan.overlap_tensor_parallel =
      space.overlap_tensor_parallel[code[SpaceKey::OverlapTensorParallel]];
  plan.overlap_p2p = space.overlap_p2p[code[SpaceKey::OverlapP2p]];
  plan.rank_order = space.rank_order[code[SpaceKey::RankOrder]];
  plan.data = model::data_from_gpus(plan, job.cluster.num_gpus()).value_or(0);
  return plan;
}

}  // namespace

Plan plan_of(const Job& job, const SearchSpace& space, const PlanCode& code) {
  Plan plan = sizes_of(job, space, code);
  deal_layers(job, job.plan, space.layers[code[SpaceKey::Layers]], plan);
  return plan;
}

Plan LayerSplits::plan_of(const Job& job, const SearchSpace& space, const PlanCode& code) {
  Plan plan = sizes_of(job, space, code);
  const std::vector<Dealt>& all = of(job, space, plan);
  const auto dealt = std::find_if(all.begin(), all.end(), [&](const Dealt& one) {
    return one.index == code[SpaceKey::Layers];
  });
  MEGATWIN_ASSERT(dealt != all.end(), "no such split of layers: ", code[SpaceKey::Layers]);
  copy_value(dealt->plan, SpaceKey::Layers, plan);
  return plan;
}

std::vector<PlanFamily> plan_families(const Job& job, const SearchSpace& space) {
  std::vector<PlanFamily> families;
  PlanCode code;
  Plan plan = job.plan;
  const auto add_switches = [&] {
    for_each_index(code, SpaceKey::SequenceParallel, space.sequence_parallel, [&](bool on) {
      if (plan.tensor == 1 && !is_first(code, SpaceKey::SequenceParallel)) return;
      for_each_index(code, SpaceKey::OverlapTensorParallel, space.overlap_tensor_parallel,
                     [&](bool /*overlapped*/) {
                       const bool can = plan.tensor > 1 && on;
                       if (!can && !is_first(code, SpaceKey::OverlapTensorParallel)) return;
                       families.push_back({code});
                     });
    });
  };
  const auto add_work = [&] {
    for_each_index(code, SpaceKey::MicroBatch, space.micro_batch, [&](std::int64_t) {
      for_each_index(code, SpaceKey::Recompute, space.recompute, [&](const RecomputeChoice&) {
        for_each_index(code, SpaceKey::Precision, space.precision, [&](model::Precision) {
          for_each_index(code, SpaceKey::Dispatcher, space.dispatcher,
                         [&](model::ExpertDispatcher) { add_switches(); });
        });
      });
    });
  };
  for_each_index(code, SpaceKey::Tensor, space.tensor, [&](int tensor) {
    plan.tensor = tensor;
    for_each_index(code, SpaceKey::Context, space.context, [&](int context) {
      plan.context = context;
      if (!can_have_replicas(job, space, plan)) return;
      for_each_index(code, SpaceKey::Expert, space.expert, [&](int) {
        for_each_index(code, SpaceKey::ExpertTensor, space.expert_tensor, [&](int) {
          if (!repeats_expert_tensor(space, code, tensor)) add_work();
        });
      });
    });
  });
  return families;
}

const std::vector<LayerSplits::Dealt>& LayerSplits::of(const Job& job, const SearchSpace& space,
                                                       const Plan& plan) {
  // What the head weighs against a layer: see model::end_in_layers().
  const bool runs_again =
      plan.recompute == model::RecomputeKind::Full && plan.recompute_layers == 0;
  const auto [place, is_new] =
      dealt_.try_emplace({plan.pipeline, plan.model_chunks, plan.schedule, runs_again});
  if (!is_new) return place->second;
  std::vector<std::vector<int>> seen;
  for (std::size_t i = 0; i < space.layers.size(); ++i) {
    Plan dealt = plan;
    deal_layers(job, job.plan, space.layers[i], dealt);
    if (!model::is_layer_split_legal(job.transformer, dealt)) continue;
    if (space.layers[i] == LayerSplit::Auto && is_needless(space, job, dealt)) continue;
    auto layers = model::layers_of_virtual_stages(job.transformer, dealt);
    if (std::find(seen.begin(), seen.end(), layers) != seen.end()) continue;
    seen.push_back(std::move(layers));
    place->second.push_back({static_cast<std::uint16_t>(i), std::move(dealt)});
  }
  return place->second;
}

void for_each_plan(const Job& job, const SearchSpace& space, const PlanFamily& family,
                   LayerSplits& splits,
                   const std::function<void(const PlanCode&, const Plan&)>& visit) {
  FamilyWalk(job, space, family, splits, visit).run();
}

}  // namespace megatwin::sim
