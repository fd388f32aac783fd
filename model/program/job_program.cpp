#include "model/program/job_program.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "model/plan_check.h"
#include "model/program/data_parallel.h"
#include "model/program/group_topology.h"
#include "model/program/pipeline_shape.h"

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

Instant pipeline_hop(const Job& job) {
  if (job.plan.pipeline == 1) return {};
  const LoweringInput input{job.transformer, job.plan, job.software};
  return round_to_instant(collective_time(CollectiveKind::SendReceive, pipeline_message(input),
                                          group_topology(job, GroupKind::Pipeline))
                              .time);
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

JobProgram build_job_program(const Job& job, const PricedEffects& effects) {
  const Plan& plan = job.plan;
  const LoweringInput input{job.transformer, plan, job.software};
  const TaskPricer pricer(job, effects);
  const DataParallelTraffic traffic(job, effects);
  const auto contents = chunk_contents(job.transformer, plan);

  JobProgram program;
  ProgramSpec& spec = program.spec;
  spec = program_shape(plan);
  const bool split_backward = pipeline_shape(spec).split_backward;
  struct Priced {
    PricedChunk chunk;
    ChunkCost cost;
  };
  std::map<ChunkContent, Priced> priced;  // Chunks with equal content are priced once.
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    PricedStage result;
    StageCost cost;
    for (const ChunkContent& content : contents[stage]) {
      const auto [place, is_new] = priced.try_emplace(content);
      auto& [chunk, its_cost] = place->second;
      if (is_new) {
        const ChunkTasks tasks = price_chunk(input, content, pricer);
        chunk.content = content;
        chunk.ops = tasks.ops;
        chunk.forward = tasks.forward;
        chunk.backward = tasks.backward;
        traffic.price(content, chunk);
        if (split_backward) chunk.backward = tasks.backward_input + tasks.backward_weight;
        its_cost = chunk_cost(chunk, tasks);
      }
      result.chunks.push_back(chunk);
      cost.chunks.push_back(its_cost);
    }
    result.parameters = traffic.stage_parameters(contents[stage]);
    traffic.price_optimizer(input, pricer, result);
    traffic.fill_memory(result.parameters, contents[stage], cost);
    cost.optimizer = round_to_instant(result.optimizer + result.optimizer_exposed);
    spec.stages.push_back(std::move(cost));
    program.stages.push_back(std::move(result));
  }
  spec.send_activation = spec.send_gradient = pipeline_hop(job);
  return program;
}

}  // namespace megatwin::model
