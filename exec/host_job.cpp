#include "exec/host_job.h"

#include "exec/rank_model.h"
#include "model/assert.h"
#include "model/program/pipeline_shape.h"

namespace megatwin::exec {
namespace {

model::Bytes bytes_of(std::int64_t numbers) {
  return {static_cast<double>(numbers) * sizeof(float)};
}

// What of forward-backward decoupling is simulated only.
void add_decoupled_problems(const model::Plan& plan, std::vector<std::string>& problems) {
  const model::DecoupledPlan& sides = plan.decoupled;
  if (sides.forward.instances != 1 || sides.backward.instances != 1) {
    problems.push_back("policy.forward.instances and policy.backward.instances are " +
                       std::to_string(sides.forward.instances) + " and " +
                       std::to_string(sides.backward.instances) +
                       ": the host world runs one to one, other ratios are simulated only");
  }
  if (plan.side_tensor(sides.forward) != plan.tensor ||
      plan.side_tensor(sides.backward) != plan.tensor) {
    problems.push_back("policy.forward.tensor and policy.backward.tensor are " +
                       std::to_string(plan.side_tensor(sides.forward)) + " and " +
                       std::to_string(plan.side_tensor(sides.backward)) +
                       ": the host world runs both sides with plan.tensor " +
                       std::to_string(plan.tensor) + ", other sizes are simulated only");
  }
  if (sides.weight_share > 0 || sides.balance_weights) {
    problems.emplace_back(
        "policy.weight_gradients_on_forward is simulated only; the host world works them out on "
        "the backward side (allowed: 0, or leave it out)");
  }
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

// The two sides of a pipeline whose spec is that of either. Forward ranks keep weights only;
// activations that are fed need no work where they are taken in.
std::vector<model::ProgramSpec> both_sides(const model::ProgramSpec& whole,
                                           const model::Plan& plan) {
  model::ProgramSpec forward = whole;
  model::ProgramSpec backward = whole;
  forward.side = model::PipelineSide::Forward;
  backward.side = model::PipelineSide::Backward;
  if (plan.decoupled.ship_activations) {
    forward.feed = backward.feed = model::SideFeed::Activations;
    // As many as 1F1B has in flight at most, and one that is taken in.
    forward.crossings.assign(forward.stages.size(), {.feed = {}, .fed_max = plan.pipeline + 1});
    backward.crossings = forward.crossings;
  }
  for (model::StageCost& stage : forward.stages) {
    stage.gradients = stage.optimizer_state = {};
  }
  for (model::StageCost& stage : backward.stages) {
    if (!plan.decoupled.ship_activations) {
      continue;
    }
    for (model::ChunkCost& chunk : stage.chunks) {
      chunk.forward_transient = {};
    }
  }
  return {forward, backward};
}

}  // namespace

model::Plan side_plan(const model::Plan& plan) {
  model::Plan side = plan;
  if (plan.schedule == model::ScheduleKind::Decoupled) {
    side.schedule = model::ScheduleKind::OneForwardOneBackward;
    side.decoupled = {};
  }
  return side;
}

model::RankLayout host_layout(const model::Plan& plan) {
  model::Plan both = side_plan(plan);
  if (plan.schedule == model::ScheduleKind::Decoupled) {
    both.pipeline *= 2;
  }
  return model::RankLayout(both);
}

std::vector<std::string> host_job_problems(const HostJob& job) {
  std::vector<std::string> problems = host_problems(job.transformer, job.plan);
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
  if (job.plan.schedule == model::ScheduleKind::Decoupled) {
    add_decoupled_problems(job.plan, problems);
  }
  if (job.plan.schedule == model::ScheduleKind::UserPolicy && !job.policy) {
    problems.push_back("the policy " + job.plan.policy_library + " is not loaded");
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
  const ModelShape shape = model_shape(job.transformer, side_plan(job.plan), job.experts);
  for (std::int32_t stage = 0; stage < spec.pipeline; ++stage) {
    spec.stages.push_back(stage_cost(shape, chunk_parts(job, pipeline_shape(spec), {stage})));
  }
  if (job.plan.schedule == model::ScheduleKind::Decoupled) {
    return both_sides(spec, job.plan);
  }
  return {spec};
}

}  // namespace megatwin::exec
