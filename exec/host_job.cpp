#include "exec/host_job.h"

#include <utility>

#include "exec/rank_model.h"
#include "model/assert.h"
#include "model/program/decoupled_sides.h"
#include "model/program/pipeline_shape.h"
#include "policies/policy_choice.h"

namespace megatwin::exec {
namespace {

model::Bytes bytes_of(std::int64_t numbers) {
  return {static_cast<double>(numbers) * sizeof(float)};
}

model::StageCost stage_cost(const ModelShape& shape, const std::vector<ChunkPart>& parts) {
  model::StageCost cost;
  for (const ChunkPart& part : parts) {
    const ModelChunkSizes sizes = model_chunk_sizes(shape, part);
    cost.chunks.push_back({.activation = bytes_of(sizes.activation),
                           .weight_gradient_input = bytes_of(sizes.gradient_input),
                           .forward_transient = bytes_of(sizes.forward_workspace),
                           .backward_transient = bytes_of(backward_transient(sizes)),
                           .weight_transient = bytes_of(sizes.weight_workspace)});
    cost.parameters += bytes_of(sizes.held.weights);
    cost.gradients += bytes_of(sizes.held.gradients);
    cost.optimizer_state += bytes_of(2 * sizes.held.stepped);
  }
  return cost;
}

// The whole pipeline as the ranks of one side would run it, or those of a plan without sides.
model::ProgramSpec whole_pipeline(const HostJob& job, model::PipelineSide side) {
  model::ProgramSpec spec{
      .pipeline = job.plan.pipeline,
      .model_chunks = job.plan.model_chunks,
      .micro_batches = static_cast<int>(job.plan.num_micro_batches()),
      .schedule = job.plan.schedule,
      .overlap_p2p = true,
      .overlap_grad_reduce = job.plan.overlap_grad_reduce,
      .overlap_param_gather = job.plan.overlap_param_gather,
      .orders = job.orders,
      .orders_fold = job.orders_fold,
  };
  const ModelShape shape = model_shape(job.transformer, side_plan(job.plan, side), job.experts);
  for (std::int32_t stage = 0; stage < spec.pipeline; ++stage) {
    spec.stages.push_back(stage_cost(shape, chunk_parts(job, pipeline_shape(spec), {stage})));
  }
  return spec;
}

// Of micro-batches whose weight gradients the forward side works out; 0 where that is none.
double weight_share(const HostJob& job) {
  const double share = job.decided.weight_share.value_or(job.plan.decoupled.weight_share);
  const auto micro_batches = static_cast<int>(job.plan.num_micro_batches());
  return model::left_of_first(micro_batches, share) > 0 ? share : 0;
}

// Of weight gradients that are left to the forward side.
std::vector<std::string> left_problems(const HostJob& job) {
  if (job.plan.decoupled.balance_weights && !job.decided.weight_share) {
    return {
        "policy.weight_gradients_on_forward is auto, which is found by simulating the step on the "
        "machines of cluster: there is none, or not one for this plan (allowed: a share of the "
        "micro-batches from 0 to 1, or a cluster whose GPUs the plan uses)"};
  }
  const auto micro_batches = static_cast<int>(job.plan.num_micro_batches());
  return weights_left_problems(job.transformer, job.plan,
                               model::left_of_first(micro_batches, weight_share(job)));
}

}  // namespace

std::vector<std::string> host_job_problems(const HostJob& job) {
  std::vector<std::string> problems = host_problems(job.transformer, job.plan);
  if (problems.empty() && job.plan.schedule == model::ScheduleKind::Decoupled) {
    problems = left_problems(job);
  }
  if (!problems.empty()) {
    return problems;
  }
  if (!job.plan.tensor_per_stage.empty() || !job.plan.micro_batches_per_replica.empty() ||
      job.plan.layers_by_cost || job.plan.micro_batches_by_cost) {
    return {
        "tensor sizes by stage, micro-batches by replica and splits found by cost are simulated "
        "only; the host world runs equal ranks"};
  }
  problems = policies::schedule_problems(host_program_specs(job).front());
  if (job.plan.schedule == model::ScheduleKind::UserPolicy && !job.policy) {
    problems.push_back("the policy " + job.plan.policy_library + " is not loaded");
  }
  for (std::string& problem : policies::bound_problems(job.plan)) {
    problems.push_back(std::move(problem));
  }
  if (job.tokens == nullptr) {
    problems.push_back("there is no text to train on");
  }
  if (job.steps < 1) {
    problems.push_back("the number of steps is " + std::to_string(job.steps) +
                       ", must be at least 1");
  }
  return problems;
}

model::ProgramSpec host_program_spec(const HostJob& job) {
  const std::vector<model::ProgramSpec> specs = host_program_specs(job);
  MEGATWIN_ASSERT(specs.size() == 1, specs.size(), " programs");
  return specs.front();
}

std::vector<model::ProgramSpec> host_program_specs(const HostJob& job) {
  if (job.plan.schedule != model::ScheduleKind::Decoupled) {
    return {whole_pipeline(job, model::PipelineSide::Both)};
  }
  model::DecoupledSides sides{.forward = whole_pipeline(job, model::PipelineSide::Forward),
                              .backward = whole_pipeline(job, model::PipelineSide::Backward),
                              .feed = job.plan.decoupled.ship_activations
                                          ? model::SideFeed::Activations
                                          : model::SideFeed::StageInput,
                              .instances = instances_of(job.plan),
                              .weight_share = weight_share(job),
                              .forward_orders = job.decided.forward_orders};
  MEGATWIN_ASSERT(
      job.decided.fed_max.empty() || std::ssize(job.decided.fed_max) == job.plan.pipeline,
      job.decided.fed_max.size());
  for (const int bound : job.decided.fed_max) {
    sides.crossings.push_back({.feed = {}, .fed_max = bound});
  }
  return decoupled_sides(sides);
}

}  // namespace megatwin::exec
