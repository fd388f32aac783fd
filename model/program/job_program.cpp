#include "model/program/job_program.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "model/plan_check.h"
#include "model/program/data_parallel.h"
#include "model/program/group_topology.h"
#include "model/program/pipeline_shape.h"
#include "model/program/stage_jobs.h"

namespace megatwin::model {
namespace {

// Virtual stage of a chunk: c·p + i, or the fold-back of ZB-V whose chunk 1 returns.
int virtual_stage(const Plan& plan, int stage, int chunk) {
  if (plan.schedule == ScheduleKind::ZeroBubbleV) {
    return chunk == 0 ? stage : 2 * plan.pipeline - 1 - stage;
  }
  return chunk * plan.pipeline + stage;
}

}  // namespace

std::vector<std::vector<ChunkContent>> chunk_contents(const Transformer& transformer,
                                                      const Plan& plan) {
  const std::vector<int> layers = layers_of_virtual_stages(transformer, plan);
  std::vector<int> first(layers.size() + 1, 0);
  std::partial_sum(layers.begin(), layers.end(), first.begin() + 1);
  const int last = static_cast<int>(layers.size()) - 1;
  std::vector<std::vector<ChunkContent>> contents(plan.pipeline);
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    for (int chunk = 0; chunk < plan.model_chunks; ++chunk) {
      const int index = virtual_stage(plan, stage, chunk);
      ChunkContent content;
      for (int layer = first[index]; layer < first[index + 1]; ++layer) {
        ++(transformer.is_moe_layer(layer) ? content.moe_layers : content.dense_layers);
      }
      content.embedding = index == 0;
      content.head = index == last;
      if (content.head) content.mtp_layers = static_cast<int>(transformer.num_mtp_layers);
      contents[stage].push_back(content);
    }
  }
  return contents;
}

ChunkTasks price_chunk(const LoweringInput& input, const ChunkContent& content,
                       const TaskPricer& pricer) {
  auto ops = std::make_shared<const TaskOps>(lower_chunk(input, content));
  return {.ops = ops,
          .forward = pricer.price(ops->forward),
          .backward = pricer.price(ops->backward),
          .backward_input = pricer.price(ops->backward, TaskPart::WithoutWeightGradient),
          .backward_weight = pricer.price(ops->backward, TaskPart::WeightGradientOnly),
          .saved = saved_activations(input, content)};
}

ChunkCost chunk_cost(const PricedChunk& chunk, const ChunkTasks& tasks) {
  ChunkCost cost;
  cost.forward = round_to_instant(chunk.forward.duration + chunk.sharded_forward);
  cost.backward = round_to_instant(chunk.backward.duration + chunk.sharded_backward);
  cost.backward_input = round_to_instant(tasks.backward_input.duration + chunk.sharded_backward);
  cost.backward_weight = round_to_instant(tasks.backward_weight.duration);
  cost.activation = tasks.saved.chunk;
  cost.weight_gradient_input = tasks.saved.weight_gradient_inputs;
  cost.forward_transient = tasks.saved.forward_transient;
  cost.backward_transient = tasks.saved.backward_transient;
  cost.gradient_reduce = round_to_instant(chunk.reduce_exposed);
  cost.parameter_gather = round_to_instant(chunk.gather_exposed);
  return cost;
}

namespace {

std::vector<int> all_replicas(const Plan& plan) {
  std::vector<int> all(static_cast<std::size_t>(std::max(plan.data, 1)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Bytes that one rank sends and one receives at a boundary between stages of t and u tensor ranks,
// and what the receivers then have to gather from each other.
struct BoundaryBytes {
  Bytes sent, gathered;
};
BoundaryBytes boundary_bytes(const Job& job, int sender, int receiver) {
  Plan plan = job.plan;
  const auto message = [&](int tensor) {
    plan.tensor = tensor;
    return pipeline_message({job.transformer, plan, job.software});
  };
  if (sender == receiver) return {message(sender), {}};
  // Slices of the sequence (or of a scattered tensor): the side with fewer ranks moves more a rank.
  const Bytes sliced = message(std::min(sender, receiver));
  if (plan.sequence_parallel) return {sliced, {}};
  if (job.software.scatter_gather_p2p) return {sliced, message(1)};
  // Whole tensors: a sender serves every receiver that has no sender of its own.
  return {std::max(1.0, static_cast<double>(receiver) / sender) * message(1), {}};
}

}  // namespace

std::vector<PipelineHop> pipeline_hops(const Job& job, const std::vector<int>& replicas) {
  const Plan& plan = job.plan;
  if (plan.pipeline == 1) return {};
  const StageSites sites(plan, job.cluster);
  std::vector<PipelineHop> hops;
  for (int boundary = 0; boundary < plan.pipeline; ++boundary) {
    const GroupTopology links = hop_topology(job, sites, replicas, boundary);
    const int before = plan.stage_tensor(boundary);
    const int after = plan.stage_tensor((boundary + 1) % plan.pipeline);
    const auto time = [&](int sender, int receiver) {
      const BoundaryBytes bytes = boundary_bytes(job, sender, receiver);
      Seconds total = collective_time(CollectiveKind::SendReceive, bytes.sent, links).time;
      if (bytes.gathered.value > 0 && receiver > 1) {
        GroupTopology inside = links;  // The receivers' tensor-parallel group, in one machine.
        inside.ranks = receiver;
        inside.nodes = 1;
        total += collective_time(CollectiveKind::AllGather, bytes.gathered, inside).time;
      }
      return round_to_instant(total);
    };
    hops.push_back({time(before, after), time(after, before)});
  }
  return hops;
}

std::vector<PipelineHop> pipeline_hops(const Job& job) {
  return pipeline_hops(job, all_replicas(job.plan));
}

ProgramSpec program_shape(const Plan& plan) {
  ProgramSpec spec;
  spec.pipeline = plan.pipeline;
  spec.model_chunks = plan.model_chunks;
  spec.micro_batches = static_cast<int>(plan.num_micro_batches());
  spec.schedule = plan.schedule;
  spec.orders = plan.orders;
  spec.overlap_p2p = plan.overlap_p2p;
  spec.overlap_grad_reduce = plan.overlap_grad_reduce;
  spec.overlap_param_gather = plan.overlap_param_gather;
  return spec;
}

namespace {

// What prices the stages that see the same job.
struct StageView {
  StageView(const Job& seen, const StateLinks& links, const PricedEffects& effects)
      : job(seen), pricer(seen, effects), traffic(seen, effects, links) {}

  struct Priced {
    PricedChunk chunk;
    ChunkCost cost;
  };
  const Job& job;
  TaskPricer pricer;
  DataParallelTraffic traffic;
  std::map<ChunkContent, Priced> priced;  // Chunks with equal content are priced once.
};

class ProgramBuilder {
 public:
  ProgramBuilder(const Job& job, const PricedEffects& effects)
      : job_(job),
        effects_(effects),
        contents_(chunk_contents(job.transformer, job.plan)),
        jobs_(job) {}

  JobProgram build(std::vector<int> replicas) {
    const int replica = replicas.front();
    JobProgram program;
    ProgramSpec& spec = program.spec;
    spec = program_shape(job_.plan);
    spec.micro_batches = static_cast<int>(job_.plan.replica_micro_batches(replica));
    const bool split_backward = pipeline_shape(spec).split_backward;
    for (int stage = 0; stage < job_.plan.pipeline; ++stage) {
      auto [priced, cost] = price_stage(view_of(replica, stage),
                                        contents_[static_cast<std::size_t>(stage)], split_backward);
      spec.stages.push_back(std::move(cost));
      program.stages.push_back(std::move(priced));
    }
    spec.hops = pipeline_hops(job_, replicas);
    program.replicas = std::move(replicas);
    return program;
  }

 private:
  using ViewKey = std::pair<StageJobs::Key, std::vector<int>>;

  StageView& view_of(int replica, int stage) {
    ViewKey key{jobs_.key(replica, stage), {}};
    if (jobs_.mixed()) key.second = jobs_.sites().kinds_of_stage(stage);
    std::unique_ptr<StageView>& view = views_[std::move(key)];
    if (!view) view = make_view(replica, stage);
    return *view;
  }

  std::unique_ptr<StageView> make_view(int replica, int stage) {
    const Job& seen = jobs_.at(replica, stage);
    StateLinks links = state_links(seen);
    if (jobs_.mixed()) {
      const StageSites& sites = jobs_.sites();
      if (sites.kinds_of_stage(stage).size() > 1) {
        links.data = mixed_data_topology(job_, sites, stage);
      }
      const int last = job_.plan.pipeline - 1;
      if (last > 0) links.ends = hop_topology(job_, sites, {replica}, last);
    }
    return std::make_unique<StageView>(seen, links, effects_);
  }

  struct StageParts {
    PricedStage priced;
    StageCost cost;
  };
  static StageParts price_stage(StageView& view, const std::vector<ChunkContent>& contents,
                                bool split_backward) {
    const LoweringInput input = lowering_input(view.job);
    StageParts parts;
    auto& [result, cost] = parts;
    for (const ChunkContent& content : contents) {
      const auto [place, is_new] = view.priced.try_emplace(content);
      auto& [chunk, its_cost] = place->second;
      if (is_new) {
        const ChunkTasks tasks = price_chunk(input, content, view.pricer);
        chunk.content = content;
        chunk.ops = tasks.ops;
        chunk.forward = tasks.forward;
        chunk.backward = tasks.backward;
        view.traffic.price(content, chunk);
        if (split_backward) chunk.backward = tasks.backward_input + tasks.backward_weight;
        its_cost = chunk_cost(chunk, tasks);
      }
      result.chunks.push_back(chunk);
      cost.chunks.push_back(its_cost);
    }
    result.parameters = view.traffic.stage_parameters(contents);
    view.traffic.price_optimizer(input, view.pricer, contents, result);
    view.traffic.fill_memory(result.parameters, contents, cost);
    cost.optimizer = round_to_instant(result.optimizer + result.optimizer_exposed);
    return parts;
  }

  const Job& job_;
  PricedEffects effects_;
  std::vector<std::vector<ChunkContent>> contents_;
  StageJobs jobs_;
  std::map<ViewKey, std::unique_ptr<StageView>> views_;
};

}  // namespace

JobProgram build_job_program(const Job& job, const PricedEffects& effects) {
  return ProgramBuilder(job, effects).build(replica_classes(job).front());
}

std::vector<JobProgram> build_job_programs(const Job& job, const PricedEffects& effects) {
  ProgramBuilder builder(job, effects);
  std::vector<JobProgram> programs;
  for (std::vector<int>& replicas : replica_classes(job)) {
    programs.push_back(builder.build(std::move(replicas)));
  }
  return programs;
}

}  // namespace megatwin::model
