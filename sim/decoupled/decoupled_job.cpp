#include "sim/decoupled/decoupled_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "model/collective_cost.h"
#include "model/counted.h"
#include "model/plan_check.h"
#include "model/program/decoupled_sides.h"
#include "model/program/lowering.h"
#include "model/program/stage_jobs.h"
#include "sim/decoupled/decoupled_program.h"
#include "sim/memory_report.h"
#include "sim/step_limit.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::DecoupledSide;
using model::Instant;
using model::Job;
using model::JobProgram;
using model::Seconds;
using policies::DecoupledFeed;

int ranks_of(const Job& job, const DecoupledSide& side) {
  const model::Plan& plan = job.plan;
  return plan.side_ranks(side) * plan.pipeline * plan.context * plan.data;
}

const model::NodeGroup& group_of(const Job& job, const DecoupledSide& side) {
  return job.cluster.groups[static_cast<std::size_t>(side.group)];
}

// Ranks of one stage that belong together, of both sides.
int ranks_of_block(const Job& job) {
  const model::DecoupledPlan& plan = job.plan.decoupled;
  return (job.plan.side_ranks(plan.forward) + job.plan.side_ranks(plan.backward)) *
         job.plan.context;
}

bool share_machines(const Job& job) {
  const model::DecoupledPlan& plan = job.plan.decoupled;
  return plan.forward.group == plan.backward.group &&
         group_of(job, plan.forward).node.num_gpus % ranks_of_block(job) == 0;
}

// The part of each machine that a side has.
void keep_part_of(model::Node& node, double part) {
  const double rate = part * node.num_nics * node.nic_per_direction.value;
  node.num_gpus = static_cast<int>(std::lround(part * node.num_gpus));
  node.num_nics = std::max(1, static_cast<int>(part * node.num_nics));
  node.nic_per_direction = {rate / node.num_nics};
}

// One side as a plain 1F1B job on its machines.
Job side_job(const Job& job, const DecoupledSide& side) {
  Job result = model::on_group(job, side.group);
  if (share_machines(job)) {
    keep_part_of(
        result.cluster.groups.front().node,
        static_cast<double>(job.plan.side_ranks(side) * job.plan.context) / ranks_of_block(job));
  }
  result.plan.tensor = job.plan.side_tensor(side);
  result.plan.data = job.plan.data * side.instances;
  // The last instances may have one micro-batch less; each is priced as the first.
  const std::int64_t unit = result.plan.micro_batch * result.plan.data;
  result.plan.global_batch = (job.plan.global_batch + unit - 1) / unit * unit;
  result.plan.sequence_parallel = job.plan.sequence_parallel && result.plan.tensor > 1;
  result.plan.schedule = model::ScheduleKind::OneForwardOneBackward;
  result.plan.decoupled = {};
  return result;
}

// The same with just as many GPUs as the side uses, as plans are checked.
Job checked_side(const Job& job, const DecoupledSide& side) {
  Job result = job;
  result.plan = side_job(job, side).plan;
  model::NodeGroup group = group_of(job, side);
  const int ranks = ranks_of(job, side);
  group.count = 1;
  if (ranks % group.node.num_gpus == 0) {
    group.count = ranks / group.node.num_gpus;
  } else {
    group.node.num_gpus = ranks;
  }
  result.cluster.groups = {group};
  return result;
}

std::vector<std::string> size_problems(const Job& job) {
  std::vector<std::string> problems;
  const model::DecoupledPlan& plan = job.plan.decoupled;
  const auto num_groups = std::ssize(job.cluster.groups);
  std::vector<int> used(job.cluster.groups.size(), 0);
  for (const auto& [name, side] :
       {std::pair("forward", &plan.forward), std::pair("backward", &plan.backward)}) {
    if (side->group >= num_groups) {
      problems.push_back(std::string("policy.") + name + ".nodes is " +
                         std::to_string(side->group) + ", cluster.nodes has entries 0 to " +
                         std::to_string(num_groups - 1));
      return problems;
    }
    used[static_cast<std::size_t>(side->group)] += ranks_of(job, *side);
  }
  for (std::size_t group = 0; group < used.size(); ++group) {
    const model::NodeGroup& machines = job.cluster.groups[group];
    const int gpus = machines.count * machines.node.num_gpus;
    if (used[group] == gpus) continue;
    problems.push_back("entry " + std::to_string(group) + " of cluster.nodes has " +
                       model::counted(gpus, "GPU") + ", the plan uses " +
                       std::to_string(used[group]) + (used[group] < gpus ? " of them" : "") +
                       ": pipeline · data · tensor · instances of the sides there");
  }
  if (job.plan.model_chunks != 1) {
    problems.push_back("policy.schedule fbd runs one chunk a rank; plan.model_chunks is " +
                       std::to_string(job.plan.model_chunks));
  }
  const std::int64_t unit = job.plan.micro_batch * job.plan.data;
  if (job.plan.global_batch % unit != 0) {
    problems.push_back(
        "plan.global_batch " + std::to_string(job.plan.global_batch) +
        " is not a multiple of plan.micro_batch · plan.data = " + std::to_string(unit));
    return problems;
  }
  for (std::string& problem : model::instance_problems(
           job.plan.num_micro_batches(), {plan.forward.instances, plan.backward.instances})) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

// What moves between the two ranks of a stage.
class Crossing {
 public:
  Crossing(const DecoupledJob& sides, bool one_machine)
      : sides_(sides),
        forward_(topology(sides.forward, one_machine)),
        backward_(topology(sides.backward, one_machine)) {}

  // `bytes` in all, spread over the ranks of each side.
  Instant time(Bytes bytes) const {
    if (!(bytes > Bytes{0})) return {};
    const Seconds out = send_time(1.0 / sides_.forward.plan.tensor * bytes, forward_);
    const Seconds in = send_time(1.0 / sides_.backward.plan.tensor * bytes, backward_);
    return model::round_to_instant(std::max(out, in));
  }

 private:
  static model::GroupTopology topology(const Job& job, bool one_machine) {
    const model::NodeGroup& group = job.cluster.groups.front();
    const int ranks = job.plan.gpus();
    return group_topology(
        {.ranks = 2,
         .ranks_per_node = one_machine ? 2 : 1,
         .groups_sharing_nics = one_machine ? 1 : std::min(ranks, group.node.num_gpus)},
        group.node, group.gpu, job.cluster.fabric, job.profile);
  }

  const DecoupledJob& sides_;
  model::GroupTopology forward_, backward_;
};

// Of a rank of the stage, for micro-batches of which it keeps `each`.
model::FeedRoom feed_room(const model::StageCost& stage, Bytes each, Bytes limit) {
  const Bytes fixed =
      stage.parameters + stage.gradients + stage.optimizer_state + stage.buffers + stage.overhead;
  return {.free = limit - fixed, .each = each};
}

void price_stages(const Job& job, const Crossing& crossing, DecoupledJob& result) {
  const model::LoweringInput input{result.forward.transformer, result.forward.plan,
                                   result.forward.software};
  const int tensor_forward = result.forward.plan.tensor;
  const int tensor_backward = result.backward.plan.tensor;
  const Bytes stage_input = static_cast<double>(tensor_forward) * model::pipeline_message(input);
  const auto limits = task_memory_limits(result.backward, {result.backward_program});
  const JobProgram forward_ranks = forward_ranks_program(result);
  const auto limits_there = task_memory_limits(result.forward, {forward_ranks});
  for (std::size_t s = 0; s < result.forward_program.spec.stages.size(); ++s) {
    const model::StageCost& there = result.forward_program.spec.stages[s];
    const model::StageCost& here = result.backward_program.spec.stages[s];
    const model::ChunkCost& forward = there.chunks.front();
    const model::ChunkCost& backward = here.chunks.front();
    const auto all_of = [&](Bytes a_rank) {
      return crossing.time(static_cast<double>(tensor_backward) * a_rank);
    };
    const Bytes weights = static_cast<double>(tensor_forward) * there.parameters;
    const auto sizes_of = [&](const model::ChunkCost& chunk) {
      return DecoupledSizes{chunk.activation,
                            result.leaves_gradients ? chunk.weight_gradient_input : Bytes{}};
    };
    const DecoupledSizes on_forward = sizes_of(forward), on_backward = sizes_of(backward);
    const model::FeedRoom room_there =
        feed_room(forward_ranks.spec.stages[s], on_forward.activation, limits_there[s]);
    DecoupledStage stage{
        .forward = forward.forward,
        .again = backward.forward,
        .backward = backward.backward,
        .backward_input = backward.backward_input,
        .weight_on_forward = forward.backward_weight,
        .feed = job.plan.decoupled.ship_activations ? all_of(backward.activation)
                                                    : crossing.time(stage_input),
        .weight_input = all_of(backward.weight_gradient_input),
        .gradients = crossing.time(static_cast<double>(tensor_forward) * there.gradients),
        .reduce = backward.gradient_reduce,
        .optimizer = here.optimizer + backward.parameter_gather,
        .weights = crossing.time(weights),
        // The input of weight gradients takes the place of the activations until it is sent.
        .waiting_max = fed_max(
            {result.spec.forward_instances, result.spec.backward_instances}, room_there,
            feed_room(here, std::max(on_backward.activation, on_backward.weight_input), limits[s])),
        .on_forward = on_forward,
        .on_backward = on_backward,
        .send_activation = result.forward_program.spec.hop(static_cast<int>(s)).activation,
        .forward_room = std::max(room_there.free, Bytes{1})};
    if (s > 0) {
      const int before = static_cast<int>(s) - 1;
      stage.send_gradient = result.backward_program.spec.hop(before).gradient;
    }
    result.spec.stages.push_back(stage);
  }
}

}  // namespace

std::vector<std::string> decoupled_problems(const Job& job) {
  std::vector<std::string> problems = size_problems(job);
  if (!problems.empty()) return problems;
  for (const auto& [name, side] : {std::pair("forward", &job.plan.decoupled.forward),
                                   std::pair("backward", &job.plan.decoupled.backward)}) {
    const Job checked = checked_side(job, *side);
    for (const std::string& problem : model::plan_problems(checked.transformer, checked.plan,
                                                           checked.cluster, checked.software)) {
      problems.push_back(std::string(name) + " ranks: " + problem);
    }
  }
  return problems;
}

model::DecidedSides decided_sides(const Job& job) {
  if (job.plan.schedule != model::ScheduleKind::Decoupled || job.cluster.groups.empty() ||
      !decoupled_problems(job).empty()) {
    return {};
  }
  const DecoupledSpec spec = price_decoupled(job).spec;
  model::DecidedSides decided{
      .fed_max = {}, .weight_share = spec.weight_share, .forward_orders = forward_orders(spec)};
  for (const DecoupledStage& stage : spec.stages) decided.fed_max.push_back(stage.waiting_max);
  return decided;
}

DecoupledJob price_decoupled(const Job& job, const model::PricedEffects& effects) {
  const model::DecoupledPlan& plan = job.plan.decoupled;
  DecoupledJob result{.forward = side_job(job, plan.forward),
                      .backward = side_job(job, plan.backward)};
  result.forward_program = build_job_program(result.forward, effects);
  result.backward_program = build_job_program(result.backward, effects);
  result.spec.micro_batches =
      static_cast<int>(job.plan.global_batch / (job.plan.micro_batch * job.plan.data));
  result.spec.forward_instances = plan.forward.instances;
  result.spec.backward_instances = plan.backward.instances;
  result.spec.feed = plan.ship_activations ? DecoupledFeed::Activations : DecoupledFeed::StageInput;
  result.spec.weight_share = decided_weight_share(job);
  if (weights_moved(result.spec) == 0) result.spec.weight_share = 0;
  result.leaves_gradients = result.spec.weight_share > 0;
  price_stages(job, Crossing(result, share_machines(job)), result);
  return result;
}

JobProgram forward_ranks_program(const DecoupledJob& job) {
  JobProgram program = job.forward_program;
  for (model::StageCost& stage : program.spec.stages) {
    stage.optimizer_state = {};
    if (!job.leaves_gradients) stage.gradients = {};
  }
  return program;
}

std::optional<model::Diagnostic> endless_decoupled(const DecoupledJob& job) {
  JobProgram forwards = job.forward_program;
  for (model::PricedStage& stage : forwards.stages) {
    stage.optimizer = stage.optimizer_exposed = {};
    for (model::PricedChunk& chunk : stage.chunks) {
      chunk.backward = {};
      chunk.reduce_exposed = chunk.sharded_backward = {};
    }
  }
  if (auto endless = endless_step(forwards)) return endless;
  if (auto endless = endless_step(job.backward_program)) return endless;
  for (const DecoupledStage& stage : job.spec.stages) {
    const double micro_batches = job.spec.micro_batches;
    const Seconds crossing = micro_batches * model::to_seconds(stage.feed) +
                             micro_batches * model::to_seconds(stage.weight_input) +
                             model::to_seconds(stage.weights) + model::to_seconds(stage.gradients);
    if (crossing <= kStepTimeMax) continue;
    return model::Diagnostic{.key = kStepTimeKey,
                             .message =
                                 "a step would take over 3 years: what crosses between "
                                 "forward and backward ranks alone takes longer; check "
                                 "rates and latencies"};
  }
  return std::nullopt;
}

}  // namespace megatwin::sim
