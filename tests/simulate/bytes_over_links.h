// What a job's collectives must take when all their bytes go at a stated rate: a plain count of
// bytes.
#ifndef MEGATWIN_TESTS_SIMULATE_BYTES_OVER_LINKS_H_
#define MEGATWIN_TESTS_SIMULATE_BYTES_OVER_LINKS_H_

#include "model/collective_cost.h"
#include "model/job.h"
#include "model/micro_op.h"
#include "model/program/data_parallel.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"

namespace megatwin::tests {

// Gathers and reductions by rings of the first stage's dense parameters, each ring with `left` for
// all of its channels: (n − 1)/n of the bytes pass each edge once for a gather or a reduce-scatter,
// twice for an all-reduce.
inline model::Seconds state_time_by_bytes(const model::Job& job, double left) {
  const model::JobProgram program = build_job_program(job);
  const auto parameters = static_cast<double>(program.stages.front().parameters.dense);
  const double n = job.plan.data * job.plan.context;
  const model::GradientReduction reduction = gradient_reduction(job);
  const bool all = reduction.kind == model::CollectiveKind::AllReduce;
  const double reduced = (all ? 2 : 1) * (n - 1) / n * parameters * reduction.per_parameter.value;
  const double gathered = job.plan.zero_stage >= 1 ? (n - 1) / n * parameters * 2 : 0;
  return {(reduced + gathered) / left};
}

// The same with the latencies of the closed form beside the bytes: as it is, and what the bytes
// take longer at `left` than at the rate of an endless reduction.
inline model::Seconds state_time_over(const model::Job& job, double left) {
  const model::JobProgram program = build_job_program(job);
  model::Seconds closed;
  for (const model::PricedChunk& chunk : program.stages.front().chunks) {
    closed += chunk.reduce + chunk.gather;
  }
  const model::GroupTopology links = group_topology(job, model::GroupKind::Data);
  const model::Bytes endless{1e15};
  const auto alone = collective_time(gradient_reduction(job).kind, endless, links,
                                     {.algorithm = model::CollectiveAlgorithm::Ring});
  const double n = job.plan.data * job.plan.context;
  const bool all = gradient_reduction(job).kind == model::CollectiveKind::AllReduce;
  const double rate = (all ? 2 : 1) * (n - 1) / n * endless.value / alone.time.value;
  if (left >= rate) return closed;
  return closed + state_time_by_bytes(job, left) - state_time_by_bytes(job, rate);
}

// The first stage's tensor-parallel collectives of a step, all of them exposed, in the same way.
inline model::Seconds tensor_time_by_bytes(const model::Job& job, double left) {
  const model::JobProgram program = build_job_program(job);
  const double n = job.plan.tensor;
  double sent = 0;
  for (const model::PricedChunk& chunk : program.stages.front().chunks) {
    for (const model::MicroOps* ops : {&chunk.ops->forward, &chunk.ops->backward}) {
      for (const model::MicroOp& op : *ops) {
        if (op.kind != model::MicroOpKind::Collective || op.group != model::GroupKind::Tensor) {
          continue;
        }
        const double passes = op.collective == model::CollectiveKind::AllReduce ? 2 : 1;
        sent += op.count * passes * (n - 1) / n * op.bytes.value;
      }
    }
  }
  return {static_cast<double>(job.plan.num_micro_batches()) * sent / left};
}

// With the latencies beside the bytes.
inline model::Seconds tensor_time_over(const model::Job& job, model::Seconds exposed, double left) {
  const double n = job.plan.tensor;
  const model::Bytes endless{1e15};
  const auto alone = collective_time(model::CollectiveKind::AllReduce, endless,
                                     group_topology(job, model::GroupKind::Tensor),
                                     {.algorithm = model::CollectiveAlgorithm::Ring});
  const double rate = 2 * (n - 1) / n * endless.value / alone.time.value;
  return exposed + tensor_time_by_bytes(job, left) - tensor_time_by_bytes(job, rate);
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIMULATE_BYTES_OVER_LINKS_H_
