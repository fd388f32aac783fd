#include "model/program/job_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "model/plan_check.h"
#include "model/program/data_parallel.h"
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

// Chunks with equal content are lowered and priced once.
using ContentKey = std::tuple<int, int, int, bool, bool>;
ContentKey key_of(const ChunkContent& content) {
  return {content.dense_layers, content.moe_layers, content.mtp_layers, content.embedding,
          content.head};
}

ChunkCost chunk_cost(const PricedChunk& chunk, const TaskPricer& pricer,
                     const SavedActivations& saved) {
  const Seconds forward = chunk.forward.duration + chunk.sharded_forward;
  const Seconds backward = chunk.backward.duration + chunk.sharded_backward;
  ChunkCost cost;
  cost.forward = round_to_instant(forward);
  cost.backward = round_to_instant(backward);
  const TaskPrice weight = pricer.price(chunk.ops->backward, TaskPart::WeightGradientOnly);
  const TaskPrice input = pricer.price(chunk.ops->backward, TaskPart::WithoutWeightGradient);
  cost.backward_weight = round_to_instant(weight.duration);
  cost.backward_input = round_to_instant(input.duration + chunk.sharded_backward);
  cost.activation = saved.chunk;
  cost.weight_gradient_input = saved.weight_gradient_inputs;
  cost.forward_transient = saved.forward_transient;
  cost.backward_transient = saved.backward_transient;
  cost.gradient_reduce = round_to_instant(chunk.reduce_exposed);
  cost.parameter_gather = round_to_instant(chunk.gather_exposed);
  return cost;
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

JobProgram build_job_program(const Job& job, const PricedEffects& effects) {
  const Plan& plan = job.plan;
  const LoweringInput input{job.transformer, plan, job.software};
  const TaskPricer pricer(job, effects);
  const DataParallelTraffic traffic(job, effects);
  const auto contents = chunk_contents(job.transformer, plan);

  JobProgram program;
  ProgramSpec& spec = program.spec;
  spec.pipeline = plan.pipeline;
  spec.model_chunks = plan.model_chunks;
  spec.micro_batches = static_cast<int>(plan.num_micro_batches());
  spec.schedule = plan.schedule;
  spec.orders = plan.orders;
  spec.overlap_p2p = plan.overlap_p2p;
  spec.overlap_grad_reduce = plan.overlap_grad_reduce;
  spec.overlap_param_gather = plan.overlap_param_gather;

  const bool split_backward = pipeline_shape(spec).split_backward;
  std::map<ContentKey, PricedChunk> priced;
  std::map<ContentKey, SavedActivations> saved;
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    PricedStage result;
    StageCost cost;
    for (const ChunkContent& content : contents[stage]) {
      const ContentKey key = key_of(content);
      if (!priced.contains(key)) {
        PricedChunk chunk;
        chunk.content = content;
        chunk.ops = std::make_shared<const TaskOps>(lower_chunk(input, content));
        chunk.forward = pricer.price(chunk.ops->forward);
        chunk.backward = pricer.price(chunk.ops->backward);
        traffic.price(content, chunk);
        if (split_backward) {
          chunk.backward = pricer.price(chunk.ops->backward, TaskPart::WithoutWeightGradient) +
                           pricer.price(chunk.ops->backward, TaskPart::WeightGradientOnly);
        }
        priced.emplace(key, std::move(chunk));
        saved.emplace(key, saved_activations(input, content));
      }
      result.chunks.push_back(priced.at(key));
      cost.chunks.push_back(chunk_cost(result.chunks.back(), pricer, saved.at(key)));
    }
    result.parameters = traffic.stage_parameters(contents[stage]);
    traffic.price_optimizer(input, pricer, result);
    traffic.fill_memory(result.parameters, contents[stage], cost);
    cost.optimizer = round_to_instant(result.optimizer + result.optimizer_exposed);
    spec.stages.push_back(std::move(cost));
    program.stages.push_back(std::move(result));
  }
  if (plan.pipeline > 1) {
    const Seconds hop = collective_time(CollectiveKind::SendReceive, pipeline_message(input),
                                        group_topology(job, GroupKind::Pipeline))
                            .time;
    spec.send_activation = spec.send_gradient = round_to_instant(hop);
  }
  return program;
}

}  // namespace megatwin::model
