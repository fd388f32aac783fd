#include "sim/search/plan_pricer.h"

#include <algorithm>
#include <compare>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/collective_cost.h"
#include "model/program/data_parallel.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "model/program/task_price.h"

namespace megatwin::sim {
namespace {

using model::ChunkContent;
using model::ChunkCost;
using model::Job;
using model::Plan;
using model::PricedChunk;
using model::Seconds;
using model::StageCost;
using model::TaskPart;

// Beyond this many tables the oldest work is thrown away as a whole; what comes back is priced
// again to the same bits.
constexpr std::size_t kTablesMax = 96;

using ContentKey = std::tuple<int, int, int, bool, bool>;
// The sum of a stage's chunks; whether the first has experts; whether the last has the head.
using StageKey = std::tuple<ContentKey, bool, bool>;
ContentKey key_of(const ChunkContent& content) {
  return {content.dense_layers, content.moe_layers, content.mtp_layers, content.embedding,
          content.head};
}

// The tasks of one chunk before any data-parallel traffic.
struct ChunkTasks {
  model::TaskPrice forward, backward;
  Seconds backward_input;
  ChunkCost cost;  // Without what the traffic adds.
};

// What every stage of one content holds beside its chunks.
struct StageFixed {
  model::Instant optimizer;
  model::Bytes parameters, gradients, optimizer_state, buffers, overhead;
};

}  // namespace

// What the cost of a single task depends on.
struct PlanPricer::TaskKey {
  int tensor, context, expert, expert_tensor;
  std::int64_t micro_batch;
  bool sequence_parallel, overlap_tensor_parallel;
  model::RecomputeKind recompute;
  int recompute_layers;
  model::Precision precision;
  model::ExpertDispatcher dispatcher;
  int pipeline;  // 0 where it does not matter.
  friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

struct PlanPricer::LayoutKey {
  int pipeline, model_chunks;
  bool folds, embedding_as_layer, head_as_layer;
  std::vector<int> layers;
  friend auto operator<=>(const LayoutKey&, const LayoutKey&) = default;
};

// Prices of all chunks and stages of the plans that share a TaskKey.
class PlanPricer::TaskTable {
 public:
  TaskTable(const Job& job, const Plan& plan)
      : job_(with_plan(job, plan)), pricer_(job_, model::PricedEffects{}) {}

  void price(const Plan& plan, const ChunkLayout& layout, PricedPlan& priced) {
    Traffic& traffic = traffic_of(plan);
    std::vector<const ChunkCost*> costs;
    for (const ChunkContent& content : layout.contents) costs.push_back(&cost_of(traffic, content));
    priced.stages.resize(layout.first_of_kind.size());
    for (int kind = 0; kind < layout.num_kinds(); ++kind) {
      const int stage = layout.first_of_kind[static_cast<std::size_t>(kind)];
      StageCost& cost = priced.stages[static_cast<std::size_t>(kind)];
      std::vector<ChunkContent> contents;
      cost.chunks.clear();
      for (int chunk = 0; chunk < layout.model_chunks; ++chunk) {
        const auto id = static_cast<std::size_t>(layout.content(stage, chunk));
        contents.push_back(layout.contents[id]);
        cost.chunks.push_back(*costs[id]);
      }
      const StageFixed& fixed = fixed_of(traffic, contents);
      cost.optimizer = fixed.optimizer;
      cost.parameters = fixed.parameters;
      cost.gradients = fixed.gradients;
      cost.optimizer_state = fixed.optimizer_state;
      cost.buffers = fixed.buffers;
      cost.overhead = fixed.overhead;
    }
    priced.send = {};
    if (plan.pipeline > 1) priced.send = hop(traffic);
  }

 private:
  // All plans that also share what the data-parallel traffic depends on.
  struct Traffic {
    explicit Traffic(const Job& base, const Plan& plan)
        : job(with_plan(base, plan)), data_parallel(job, model::PricedEffects{}) {}
    Job job;
    model::DataParallelTraffic data_parallel;
    std::map<ContentKey, ChunkCost> chunks;
    std::map<StageKey, StageFixed> stages;
    std::optional<model::Instant> hop;
  };
  using TrafficKey = std::tuple<int, int, int, std::int64_t, bool, bool>;

  static Job with_plan(const Job& job, const Plan& plan) {
    Job changed = job;
    changed.plan = plan;
    return changed;
  }

  Traffic& traffic_of(const Plan& plan) {
    const TrafficKey key{plan.pipeline,
                         plan.data,
                         plan.zero_stage,
                         plan.global_batch,
                         plan.overlap_grad_reduce,
                         plan.overlap_param_gather};
    auto& traffic = traffic_[key];
    if (!traffic) traffic = std::make_unique<Traffic>(job_, plan);
    return *traffic;
  }

  const ChunkTasks& tasks_of(const ChunkContent& content) {
    const auto [place, is_new] = tasks_.try_emplace(key_of(content));
    if (!is_new) return place->second;
    const model::LoweringInput input{job_.transformer, job_.plan, job_.software};
    const model::TaskOps ops = model::lower_chunk(input, content);
    ChunkTasks& tasks = place->second;
    tasks.forward = pricer_.price(ops.forward);
    tasks.backward = pricer_.price(ops.backward);
    tasks.backward_input = pricer_.price(ops.backward, TaskPart::WithoutWeightGradient).duration;
    const Seconds weight = pricer_.price(ops.backward, TaskPart::WeightGradientOnly).duration;
    tasks.cost.backward_weight = model::round_to_instant(weight);
    const model::SavedActivations saved = model::saved_activations(input, content);
    tasks.cost.activation = saved.chunk;
    tasks.cost.weight_gradient_input = saved.weight_gradient_inputs;
    tasks.cost.forward_transient = saved.forward_transient;
    tasks.cost.backward_transient = saved.backward_transient;
    return tasks;
  }

  const ChunkCost& cost_of(Traffic& traffic, const ChunkContent& content) {
    const auto [place, is_new] = traffic.chunks.try_emplace(key_of(content));
    if (!is_new) return place->second;
    const ChunkTasks& tasks = tasks_of(content);
    PricedChunk chunk;
    chunk.content = content;
    chunk.forward = tasks.forward;
    chunk.backward = tasks.backward;
    traffic.data_parallel.price(content, chunk);
    ChunkCost& cost = place->second;
    cost = tasks.cost;
    cost.forward = model::round_to_instant(chunk.forward.duration + chunk.sharded_forward);
    cost.backward = model::round_to_instant(chunk.backward.duration + chunk.sharded_backward);
    cost.backward_input = model::round_to_instant(tasks.backward_input + chunk.sharded_backward);
    cost.gradient_reduce = model::round_to_instant(chunk.reduce_exposed);
    cost.parameter_gather = model::round_to_instant(chunk.gather_exposed);
    return cost;
  }

  // Chunks of a stage add up: how its layers are cut into chunks does not matter here.
  const StageFixed& fixed_of(Traffic& traffic, const std::vector<ChunkContent>& contents) {
    ChunkContent sum;
    for (const ChunkContent& content : contents) {
      sum.dense_layers += content.dense_layers;
      sum.moe_layers += content.moe_layers;
      sum.mtp_layers += content.mtp_layers;
      sum.embedding = sum.embedding || content.embedding;
      sum.head = sum.head || content.head;
    }
    const auto [place, is_new] = traffic.stages.try_emplace(
        {key_of(sum), contents.front().moe_layers > 0, contents.back().head});
    if (!is_new) return place->second;
    const model::LoweringInput input{traffic.job.transformer, traffic.job.plan,
                                     traffic.job.software};
    model::PricedStage stage;
    stage.parameters = traffic.data_parallel.stage_parameters(contents);
    traffic.data_parallel.price_optimizer(input, pricer_, stage);
    StageCost cost;
    traffic.data_parallel.fill_memory(stage.parameters, contents, cost);
    place->second = {
        .optimizer = model::round_to_instant(stage.optimizer + stage.optimizer_exposed),
        .parameters = cost.parameters,
        .gradients = cost.gradients,
        .optimizer_state = cost.optimizer_state,
        .buffers = cost.buffers,
        .overhead = cost.overhead};
    return place->second;
  }

  static model::Instant hop(Traffic& traffic) {
    if (!traffic.hop) {
      const Job& job = traffic.job;
      const model::LoweringInput input{job.transformer, job.plan, job.software};
      traffic.hop = model::round_to_instant(
          model::collective_time(model::CollectiveKind::SendReceive, model::pipeline_message(input),
                                 model::group_topology(job, model::GroupKind::Pipeline))
              .time);
    }
    return *traffic.hop;
  }

  Job job_;
  model::TaskPricer pricer_;
  std::map<ContentKey, ChunkTasks> tasks_;
  std::map<TrafficKey, std::unique_ptr<Traffic>> traffic_;
};

PlanPricer::PlanPricer(const Job& job) : job_(job) {
  job_.assumptions.clear();
  job_.warnings.clear();
  // With replicas or stages laid out before the inner groups, the spread of those depends on them.
  const std::string_view order = job.plan.rank_order;
  const std::size_t outer = std::min(order.find("dp"), order.find("pp"));
  for (const char* inner : {"tp", "cp", "ep"}) {
    const std::size_t place = order.find(inner);
    sizes_shape_groups_ = sizes_shape_groups_ || place > outer;
  }
}

PlanPricer::~PlanPricer() = default;

const ChunkLayout& PlanPricer::layout_of(const Plan& plan) {
  LayoutKey key{plan.pipeline,
                plan.model_chunks,
                plan.schedule == model::ScheduleKind::ZeroBubbleV,
                plan.embedding_as_layer,
                plan.head_as_layer,
                plan.layers_per_virtual_stage};
  const auto found = layouts_.find(key);
  if (found != layouts_.end()) return found->second;
  return layouts_.emplace(std::move(key), chunk_layout(job_.transformer, plan)).first->second;
}

PlanPricer::TaskTable& PlanPricer::table_of(const Plan& plan) {
  const TaskKey key{plan.tensor,
                    plan.context,
                    plan.expert,
                    plan.effective_expert_tensor(),
                    plan.micro_batch,
                    plan.sequence_parallel,
                    plan.overlap_tensor_parallel,
                    plan.recompute,
                    plan.recompute_layers,
                    plan.precision,
                    plan.dispatcher,
                    sizes_shape_groups_ ? plan.pipeline : 0};
  const auto found = tables_.find(key);
  if (found != tables_.end()) return *found->second;
  if (tables_.size() >= kTablesMax) tables_.clear();
  return *tables_.emplace(key, std::make_unique<TaskTable>(job_, plan)).first->second;
}

const PricedPlan& PlanPricer::price(const Plan& plan) {
  MEGATWIN_ASSERT(plan.schedule != model::ScheduleKind::OrderFile, plan.order_file);
  priced_.layout = &layout_of(plan);
  table_of(plan).price(plan, *priced_.layout, priced_);
  return priced_;
}

model::ProgramSpec program_shape(const Plan& plan) {
  model::ProgramSpec spec;
  spec.pipeline = plan.pipeline;
  spec.model_chunks = plan.model_chunks;
  spec.micro_batches = static_cast<int>(plan.num_micro_batches());
  spec.schedule = plan.schedule;
  spec.overlap_p2p = plan.overlap_p2p;
  spec.overlap_grad_reduce = plan.overlap_grad_reduce;
  spec.overlap_param_gather = plan.overlap_param_gather;
  return spec;
}

model::ProgramSpec program_spec(const Plan& plan, const PricedPlan& priced) {
  model::ProgramSpec spec = program_shape(plan);
  for (int stage = 0; stage < plan.pipeline; ++stage) spec.stages.push_back(priced.stage(stage));
  spec.send_activation = spec.send_gradient = priced.send;
  return spec;
}

}  // namespace megatwin::sim
