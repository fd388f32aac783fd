#include "sim/memory_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "model/parameters.h"
#include "model/program/data_parallel.h"
#include "model/program/memory_planner.h"
#include "model/program/stage_jobs.h"
#include "sim/step_limit.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Job;

// What a process holds beside its tensors: the CUDA context with its kernels, and NCCL's buffers.
// Source: stas00/ml-engineering, training/performance (0.47 GiB lazy, 0.92 GiB eager on A100;
// 1-2 GiB after the first collective).
Bytes process_overhead(const Job& job) {
  Bytes overhead{0.5 * 1024 * 1024 * 1024};
  int communicators = 0;
  for (const int size :
       {job.plan.tensor, job.plan.data, job.plan.context, job.plan.expert, job.plan.pipeline}) {
    if (size > 1) ++communicators;
  }
  return overhead + static_cast<double>(communicators) * Bytes{0.35 * 1024 * 1024 * 1024};
}

Bytes workspace(const Job& job) {
  // cuBLAS and cuDNN workspaces, inside the framework's allocator.
  return job.cluster.groups.front().gpu.architecture == model::GpuArchitecture::Volta
             ? model::operator""_MiB(24)
             : model::operator""_MiB(64);
}

// Bytes live at the peak, by what they are, and the chunks whose activations they are.
struct PeakParts {
  Bytes activations, transients;
  int chunks = 0;
  bool at_step_end = false;
};

PeakParts parts_of(const model::MemoryPeak& peak) {
  PeakParts parts;
  for (const model::LiveBuffers& live : peak.live) {
    const bool transient = live.kind == model::BufferKind::ForwardTransient ||
                           live.kind == model::BufferKind::BackwardTransient ||
                           live.kind == model::BufferKind::WeightTransient;
    (transient ? parts.transients : parts.activations) += live.bytes;
    if (!transient) parts.chunks += live.count;
  }
  return parts;
}

// What a rank holds, as tables name it and as sentences do.
struct MemoryTerm {
  const char* name;
  const char* words;
  Bytes StageMemory::*size;
};
constexpr std::array<MemoryTerm, 6> kTerms{{
    {"activations", "activations", &StageMemory::activations},
    {"optimizer states", "optimizer states", &StageMemory::optimizer},
    {"parameters", "parameters", &StageMemory::parameters},
    {"gradients", "gradients", &StageMemory::gradients},
    {"buffers", "buffers and short-lived tensors", &StageMemory::buffers},
    {"overhead", "CUDA context, NCCL and allocator", &StageMemory::overhead},
}};

// The largest first.
std::array<MemoryTerm, 6> terms_by_size(const StageMemory& memory) {
  std::array<MemoryTerm, 6> terms = kTerms;
  std::stable_sort(terms.begin(), terms.end(), [&](const MemoryTerm& a, const MemoryTerm& b) {
    return memory.*(a.size) > memory.*(b.size);
  });
  return terms;
}

std::string largest_term(const StageMemory& memory, const PeakParts& parts) {
  const MemoryTerm largest = terms_by_size(memory).front();
  if (largest.size == &StageMemory::activations) {
    return "activations of " + std::to_string(parts.chunks) +
           (parts.chunks == 1 ? " chunk in flight" : " chunks in flight");
  }
  if (largest.size == &StageMemory::buffers && parts.at_step_end) {
    return "outputs of all micro-batches, merged";
  }
  return largest.name;
}

// Without the name of the largest term. `parts` may turn out to be those at the step's end.
StageMemory sizes_of(const Job& seen, const model::StageCost& cost, PeakParts& parts) {
  if (cost.step_end > parts.activations + parts.transients) {
    parts = {.transients = cost.step_end, .at_step_end = true};
  }
  StageMemory memory;
  memory.limit = seen.cluster.groups.front().gpu.memory_usable;
  memory.parameters = cost.parameters;
  memory.gradients = cost.gradients;
  memory.optimizer = cost.optimizer_state;
  memory.activations = parts.activations;
  memory.buffers = cost.buffers + parts.transients + workspace(seen);
  const Bytes allocated =
      memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.buffers;
  const Bytes reserved = (1 + seen.software.allocator_slack) * allocated;
  memory.overhead = process_overhead(seen) + (reserved - allocated);
  memory.peak = allocated + memory.overhead;
  return memory;
}

StageMemory memory_of(const Job& seen, const model::StageCost& cost,
                      const model::MemoryPeak& peak) {
  PeakParts parts = parts_of(peak);
  StageMemory memory = sizes_of(seen, cost, parts);
  memory.largest_term = largest_term(memory, parts);
  return memory;
}

// What tasks may hold on a rank of this stage.
Bytes task_memory_limit(const Job& seen, const model::StageCost& stage) {
  Bytes transient{0};
  Bytes least =
      stage.parameters + stage.gradients + stage.optimizer_state + stage.buffers + stage.overhead;
  for (const model::ChunkCost& chunk : stage.chunks) {
    transient = std::max({transient, chunk.forward_transient, chunk.backward_transient});
    least += std::max(chunk.activation, chunk.weight_gradient_input);
  }
  const Bytes reserved = seen.cluster.groups.front().gpu.memory_usable - process_overhead(seen);
  const Bytes free = (1 / (1 + seen.software.allocator_slack)) * reserved - workspace(seen);
  return std::max(free - transient, least);
}

// A policy that decides while the step runs may order every replica's rank in its own way: of the
// `ranks` of a stage in a class, the most counts. Static orders are the same in all of them.
model::MemoryPeak peak_of(const Job& job, const model::PipelineShape& shape,
                          std::span<const RankResult> ranks, const model::StageCost& cost,
                          std::size_t rank) {
  model::MemoryPeak most = model::plan_memory({shape, cost, ranks[rank].order});
  if (!model::is_dynamic(job.plan.schedule)) return most;
  const auto p = static_cast<std::size_t>(shape.pipeline);
  for (std::size_t other = rank + p; other < ranks.size(); other += p) {
    model::MemoryPeak peak = model::plan_memory({shape, cost, ranks[other].order});
    if (most.total() < peak.total()) most = std::move(peak);
  }
  return most;
}

}  // namespace

Bytes rank_memory_peak(const Job& job, const model::StageCost& cost, Bytes held) {
  PeakParts parts{.activations = held, .transients = {}};
  return sizes_of(job, cost, parts).peak;
}

std::vector<Bytes> task_memory_limits(const Job& job,
                                      const std::vector<model::JobProgram>& programs) {
  model::StageJobs jobs(job);
  std::vector<Bytes> limits;
  for (const model::JobProgram& program : programs) {
    for (std::size_t stage = 0; stage < program.spec.stages.size(); ++stage) {
      const Job& seen = jobs.at(program.replicas.front(), static_cast<int>(stage));
      limits.push_back(task_memory_limit(seen, program.spec.stages[stage]));
    }
  }
  return limits;
}

void fill_memory(const Job& job, const std::vector<model::JobProgram>& programs,
                 const PipelineResult& result, SimulationReport& report) {
  model::StageJobs jobs(job);
  double fullest = 0;
  std::size_t first_rank = 0;
  for (const model::JobProgram& program : programs) {
    const model::PipelineShape shape = model::pipeline_shape(program.spec);
    const std::size_t num_stages = program.spec.stages.size();
    // A single class may have several replicas there, see StepRun.
    const auto ranks =
        std::span(result.ranks)
            .subspan(first_rank, programs.size() == 1 ? std::dynamic_extent : num_stages);
    first_rank += num_stages;
    for (std::size_t stage = 0; stage < num_stages; ++stage) {
      const model::StageCost& cost = program.spec.stages[stage];
      const Job& seen = jobs.at(program.replicas.front(), static_cast<int>(stage));
      StageMemory memory = memory_of(seen, cost, peak_of(job, shape, ranks, cost, stage));
      memory.stage = static_cast<int>(stage);
      memory.replica = program.replicas.front();
      if (const double full = ratio(memory.peak / memory.limit); full > fullest) {
        fullest = full;
        report.memory_peak = memory.peak;
        report.memory_limit = memory.limit;
        report.memory_allocated = (1 + seen.software.allocator_slack) *
                                  (memory.parameters + memory.gradients + memory.optimizer +
                                   memory.activations + memory.buffers);
      }
      report.memory.push_back(std::move(memory));
    }
  }
  report.fits = report.memory_peak <= report.memory_limit;
}

std::string in_gib(Bytes bytes) {
  const long long tenths = std::llround(bytes.value / (1024.0 * 1024 * 1024) * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

PlanRefusal refuse_illegal(const std::vector<std::string>& problems) {
  return {.code = "illegal_plan",
          .message = "not allowed by the model or the cluster",
          .reasons = problems};
}

PlanRefusal refuse_step(const model::Diagnostics& faults) {
  const std::string& key = faults.front().key;
  PlanRefusal refusal{.code = "no_network", .message = "the network cannot be simulated"};
  if (key == kStepTimeKey) {
    refusal = {.code = "endless_step", .message = "the step is too long to be simulated"};
  } else if (key.starts_with("disturbances")) {
    refusal = {.code = "no_disturbance", .message = "the disturbances cannot be simulated"};
  } else if (key == kReceiveSlotsKey) {
    refusal = {.code = "illegal_plan", .message = "the step would never end"};
  }
  for (const model::Diagnostic& fault : faults) {
    refusal.reasons.push_back(fault.message +
                              (fault.allowed.empty() ? "" : " (allowed: " + fault.allowed + ")"));
  }
  return refusal;
}

namespace {

// However the job is cut, its parameters, gradients and optimizer states have to be somewhere once.
std::string fewest_gpus(const Job& job, const SimulationReport& report) {
  const model::ParameterCounts counts = model::count_parameters(job.transformer);
  const double parameters = static_cast<double>(counts.total + counts.mtp_total);
  // As the first machines have it, or those that step the optimizer of a decoupled job.
  const Job seen = model::on_group(job, job.plan.decoupled.backward.group);
  const Bytes all = parameters * model::state_per_parameter(seen);
  const Bytes limit = report.sides.empty() ? report.memory_limit : report.sides[1].memory_limit;
  const double fewest = std::ceil(ratio(all / limit));
  return "parameters, gradients and optimizer states of the whole model are " + in_gib(all) +
         ": at least " + std::to_string(static_cast<long long>(fewest)) +
         (fewest > 1 ? " GPUs of " : " GPU of ") + in_gib(limit) + ", before any activation";
}

}  // namespace

PlanRefusal refuse_unfit(const Job& job, SimulationReport report) {
  PlanRefusal refusal{.code = "does_not_fit"};
  const auto heaviest = std::max_element(report.memory.begin(), report.memory.end(),
                                         [](const StageMemory& a, const StageMemory& b) {
                                           return ratio(a.peak / a.limit) < ratio(b.peak / b.limit);
                                         });
  refusal.message = (heaviest->side.empty() ? "" : "a " + heaviest->side + " rank of ") + "stage " +
                    std::to_string(heaviest->stage) + " needs " + in_gib(heaviest->peak) + " of " +
                    in_gib(heaviest->limit) + " a GPU";
  for (const MemoryTerm& term : terms_by_size(*heaviest)) {
    const Bytes size = (*heaviest).*(term.size);
    if (size > Bytes{0}) refusal.reasons.push_back(std::string(term.words) + " " + in_gib(size));
  }
  refusal.reasons.push_back(fewest_gpus(job, report));
  refusal.report = std::move(report);
  return refusal;
}

}  // namespace megatwin::sim
