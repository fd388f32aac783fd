#include "sim/search/plan_pricer.h"

#include <algorithm>
#include <compare>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "model/assert.h"
#include "model/program/data_parallel.h"
#include "model/program/job_program.h"
#include "model/program/task_price.h"
#include "sim/disturbed_job.h"
#include "sim/power.h"

namespace megatwin::sim {
namespace {

using model::ChunkContent;
using model::ChunkCost;
using model::Job;
using model::Plan;
using model::PricedChunk;
using model::Seconds;
using model::StageCost;

// Beyond this many tables the oldest work is thrown away as a whole; what comes back is priced
// again to the same bits.
constexpr std::size_t kTablesMax = 96;

// What the groups of tasks depend on of the order of ranks: all of it when replicas or stages are
// laid out before some of them, else what comes before both.
bool sizes_shape_groups(std::string_view order) {
  const std::size_t outer = std::min(order.find("dp"), order.find("pp"));
  return order.find("tp") > outer || order.find("cp") > outer || order.find("ep") > outer;
}
std::string_view order_of_tasks(std::string_view order) {
  return sizes_shape_groups(order) ? order
                                   : order.substr(0, std::min(order.find("dp"), order.find("pp")));
}

// The sum of a stage's chunks; whether the first has experts; whether the last has the head.
using StageKey = std::tuple<ChunkContent, bool, bool>;

struct ChunkContentCost {
  ChunkCost cost;
  Seconds draw;  // Of a micro-batch, beyond an idle GPU.
};

// What every stage of one content holds beside its chunks.
struct StageFixed {
  model::Instant optimizer;
  model::Bytes parameters, gradients, optimizer_state, buffers, overhead, step_end;
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
  int pipeline;            // 0 where it does not matter.
  std::string rank_order;  // What matters of it.
  friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

struct PlanPricer::LayoutKey {
  int pipeline, model_chunks;
  bool folds, embedding_as_layer, head_as_layer;
  std::vector<int> layers;
  friend auto operator<=>(const LayoutKey&, const LayoutKey&) = default;
};

// Prices of all chunks and stages of the plans that share a TaskKey. `job` has the plan that is
// priced in every call.
class PlanPricer::TaskTable {
 public:
  explicit TaskTable(const Job& job) : job_(job), pricer_(job_, model::PricedEffects{}) {}

  // All plans that also share what the data-parallel traffic depends on.
  struct Traffic {
    Traffic(const Job& job, const model::StateLinks& links)
        : data_parallel(job, model::PricedEffects{}, links) {}
    model::DataParallelTraffic data_parallel;
    std::map<ChunkContent, ChunkContentCost> chunks;
    std::map<StageKey, StageFixed> stages;
    const std::vector<model::PipelineHop>* hops = nullptr;
  };

  Traffic& traffic() {
    const Plan& plan = job_.plan;
    const TrafficKey key{{plan.pipeline, plan.data, plan.rank_order},
                         plan.zero_stage,
                         plan.global_batch,
                         plan.overlap_grad_reduce,
                         plan.overlap_param_gather,
                         // Whether the token table's two users are on one rank.
                         plan.schedule == model::ScheduleKind::ZeroBubbleV};
    auto& traffic = traffic_[key];
    if (!traffic) {
      const Places& places = places_of(std::get<0>(key));
      traffic = std::make_unique<Traffic>(job_, places.links);
      traffic->hops = &places.hops;
    }
    return *traffic;
  }

  void price(Traffic& traffic, const ChunkLayout& layout, PricedPlan& priced) {
    std::vector<const ChunkContentCost*> costs;
    for (const ChunkContent& content : layout.contents) costs.push_back(&cost_of(traffic, content));
    priced.stages.resize(layout.first_of_kind.size());
    priced.draw.assign(layout.first_of_kind.size(), model::Seconds{});
    std::vector<ChunkContent> contents;
    for (int kind = 0; kind < layout.num_kinds(); ++kind) {
      const int stage = layout.first_of_kind[static_cast<std::size_t>(kind)];
      StageCost& cost = priced.stages[static_cast<std::size_t>(kind)];
      contents.clear();
      for (int chunk = 0; chunk < layout.model_chunks; ++chunk) {
        const auto id = static_cast<std::size_t>(layout.content(stage, chunk));
        contents.push_back(layout.contents[id]);
        cost.chunks.push_back(costs[id]->cost);
        priced.draw[static_cast<std::size_t>(kind)] += costs[id]->draw;
      }
      const StageFixed& fixed = fixed_of(traffic, contents);
      cost.optimizer = fixed.optimizer;
      cost.parameters = fixed.parameters;
      cost.gradients = fixed.gradients;
      cost.optimizer_state = fixed.optimizer_state;
      cost.buffers = fixed.buffers;
      cost.step_end = fixed.step_end;
      cost.overhead = fixed.overhead;
    }
    priced.hops = *traffic.hops;
  }

 private:
  // Where replicas and stages stand.
  using PlacesKey = std::tuple<int, int, std::string>;
  struct Places {
    model::StateLinks links;
    std::vector<model::PipelineHop> hops;
  };
  using TrafficKey = std::tuple<PlacesKey, int, std::int64_t, bool, bool, bool>;

  const Places& places_of(const PlacesKey& key) {
    const auto [place, is_new] = places_.try_emplace(key);
    if (is_new) place->second = {model::state_links(job_), model::pipeline_hops(job_)};
    return place->second;
  }

  const model::ChunkTasks& tasks_of(const ChunkContent& content) {
    const auto [place, is_new] = tasks_.try_emplace(content);
    if (is_new) {
      const model::LoweringInput input = model::lowering_input(job_);
      place->second = model::price_chunk(input, content, pricer_);
      place->second.ops.reset();  // Nobody asks a searched plan for its operations.
    }
    return place->second;
  }

  const ChunkContentCost& cost_of(Traffic& traffic, const ChunkContent& content) {
    const auto [place, is_new] = traffic.chunks.try_emplace(content);
    if (!is_new) return place->second;
    const model::ChunkTasks& tasks = tasks_of(content);
    PricedChunk chunk;
    chunk.content = content;
    chunk.forward = tasks.forward;
    chunk.backward = tasks.backward;
    traffic.data_parallel.price(content, chunk);
    place->second = {model::chunk_cost(chunk, tasks),
                     draw_beyond_idle(chunk.forward) + draw_beyond_idle(chunk.backward)};
    return place->second;
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
    const auto [place, is_new] =
        traffic.stages.try_emplace({sum, contents.front().moe_layers > 0, contents.back().head});
    if (!is_new) return place->second;
    const model::LoweringInput input = model::lowering_input(job_);
    model::PricedStage stage;
    stage.parameters = traffic.data_parallel.stage_parameters(contents);
    traffic.data_parallel.price_optimizer(input, pricer_, contents, stage);
    StageCost cost;
    traffic.data_parallel.fill_memory(stage.parameters, contents, cost);
    place->second = {
        .optimizer = model::round_to_instant(stage.optimizer + stage.optimizer_exposed),
        .parameters = cost.parameters,
        .gradients = cost.gradients,
        .optimizer_state = cost.optimizer_state,
        .buffers = cost.buffers,
        .overhead = cost.overhead,
        .step_end = cost.step_end};
    return place->second;
  }

  const Job& job_;
  model::TaskPricer pricer_;
  std::map<ChunkContent, model::ChunkTasks> tasks_;
  std::map<PlacesKey, Places> places_;
  std::map<TrafficKey, std::unique_ptr<Traffic>> traffic_;
};

PlanPricer::PlanPricer(const Job& job) : job_(job) {
  job_.assumptions.clear();
  job_.warnings.clear();
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
  // Logits that a pipeline keeps as outputs are not saved a second time.
  const int keeps_outputs = job_.software.keeps_pipeline_outputs ? std::min(plan.pipeline, 2) : 0;
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
                    sizes_shape_groups(plan.rank_order) ? plan.pipeline : keeps_outputs,
                    std::string(order_of_tasks(plan.rank_order))};
  const auto found = tables_.find(key);
  if (found != tables_.end()) return *found->second;
  if (tables_.size() >= kTablesMax) {
    tables_.clear();
    traffic_ = nullptr;
  }
  return *tables_.emplace(key, std::make_unique<TaskTable>(job_)).first->second;
}

const PricedPlan& PlanPricer::price(const Plan& plan) {
  MEGATWIN_ASSERT(plan.schedule != model::ScheduleKind::OrderFile, plan.order_file);
  job_.plan = plan;
  job_.plan.expert_capacity_imbalance = expert_imbalance(job_);
  const ChunkLayout& layout = layout_of(plan);
  TaskTable& table = table_of(plan);
  TaskTable::Traffic& traffic = table.traffic();
  if (traffic_ != &traffic) {
    traffic_ = &traffic;
    priced_.clear();
  }
  for (const PricedPlan& priced : priced_) {
    if (priced.layout == &layout) return priced;
  }
  PricedPlan& priced = priced_.emplace_front();
  priced.layout = &layout;
  priced.number = ++last_number_;
  table.price(traffic, layout, priced);
  return priced;
}

model::ProgramSpec program_spec(const Plan& plan, const PricedPlan& priced) {
  model::ProgramSpec spec = model::program_shape(plan);
  for (int stage = 0; stage < plan.pipeline; ++stage) spec.stages.push_back(priced.stage(stage));
  spec.hops = priced.hops;
  return spec;
}

}  // namespace megatwin::sim
