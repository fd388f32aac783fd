// What the program builder needs to know of a job: the pipeline's shape, what each chunk's tasks
// cost on each stage, what they save in memory, what travels between them. Made from a model, a
// plan and a cluster by the lowering and the cost models; plain data, durations already rounded.
#ifndef MEGATWIN_MODEL_PROGRAM_PROGRAM_SPEC_H_
#define MEGATWIN_MODEL_PROGRAM_PROGRAM_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/units.h"

namespace megatwin::model {

// Costs of one model chunk on one stage. All micro-batches are alike.
struct ChunkCost {
  Instant forward;
  Instant backward;             // Input and weight gradients together, with its recompute inside.
  Instant backward_input;       // Split schedules: dgrad (with recompute) …
  Instant backward_weight;      // … and wgrad.
  Bytes activation;             // Held from the start of forward to the end of backward (or of
                                // backward_input, when split).
  Bytes weight_gradient_input;  // Split: what stays from the end of backward_input to the end of
                                // backward_weight.
  Bytes forward_transient;  // Extra peak inside forward, backward: logits, recomputed layer, …
  Bytes backward_transient;
  Bytes weight_transient;   // Inside backward_weight, when split: gradients before their reduction.
  Instant gradient_reduce;  // Data-parallel reduction of this chunk's gradients.
  Instant
      parameter_gather;  // Data-parallel gather of this chunk's parameters before its first use.
  friend constexpr bool operator==(const ChunkCost&, const ChunkCost&) = default;
};

struct StageCost {
  std::vector<ChunkCost> chunks;  // v entries.
  Instant optimizer;              // After every reduction of this stage (and the global norm).
  Bytes parameters, gradients, optimizer_state, buffers, overhead;  // Held throughout.
  Bytes step_end;    // Beside them after the last task, when no activation is left.
  double speed = 1;  // Duration factor of this rank: > 1 slow. For disturbances.
  friend bool operator==(const StageCost&, const StageCost&) = default;
};

// What a micro-batch takes to cross one boundary of the pipeline, forward and backward.
struct PipelineHop {
  Instant activation, gradient;
  friend constexpr bool operator==(const PipelineHop&, const PipelineHop&) = default;
};

// Forward-backward decoupling: the passes that the ranks of a pipeline run. Both sides together
// make one pipeline, each with a spec of its own.
enum class PipelineSide : std::uint8_t {
  Both,
  Forward,   // Forwards, which feed the other side; keeps weights only.
  Backward,  // A Recompute takes in what is fed, a Backward follows.
};

// What the forward side sends across for each micro-batch.
enum class SideFeed : std::uint8_t {
  StageInput,   // When the forward begins; the Recompute runs it again, as MegaFBD does.
  Activations,  // All that the forward keeps, when it ends; the Recompute takes it in.
};

// Pipelines of each side: micro-batch j is run by forward instance j mod `forward` and by backward
// instance j mod `backward`.
struct SideInstances {
  int forward = 1;
  int backward = 1;
  int of(PipelineSide side) const { return side == PipelineSide::Forward ? forward : backward; }
  friend constexpr bool operator==(const SideInstances&, const SideInstances&) = default;
};

// Between the ranks of a stage.
struct SideCrossing {
  Instant feed;  // Of one micro-batch, on its way.
  // Of a backward rank: micro-batches begun for it and not finished by it; 0: any number.
  int fed_max = 0;
  // Where weight gradients are left to the forward side: what one of them needs, on its way there,
  // and the sums of a step, on their way back.
  Instant weight_input = {}, gradients = {};
  friend constexpr bool operator==(const SideCrossing&, const SideCrossing&) = default;
};

// The shape of the pipeline and its schedule. Stage i of p; chunk c of v; virtual stage = c·p + i
// for the interleaved map, and the V map of ZB-V folds back (chunk 1 of stage i is virtual 2p−1−i).
struct ProgramSpec {
  int pipeline = 1;
  int model_chunks = 1;
  int micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::OneForwardOneBackward;
  std::vector<StageCost> stages;  // p entries.
  Instant send_activation;        // One hop forward between neighbouring virtual stages …
  Instant send_gradient;          // … and one hop backward, where `hops` is empty.
  // By boundary, p entries: hops[s] joins stages s and s + 1, the last one the last stage and the
  // first, which only chunks in a round use. Empty: every boundary is alike.
  std::vector<PipelineHop> hops;
  // Megatron without overlap: the send blocks the compute lane of sender and receiver. With overlap
  // transfers run on their own lanes beside compute.
  bool overlap_p2p = false;
  // Data-parallel traffic on its own lane beside compute, or after / before all compute.
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  // Rate lost by compute while a data-parallel transfer runs beside it: duration × (1 + slowdown).
  double overlap_slowdown = 0;
  // Interleaved: micro-batches that pass one chunk before the next chunk takes over; 0 means
  // `pipeline`, the default of Megatron-LM (its microbatch-group-size-per-virtual-pipeline-stage).
  int micro_batch_group = 0;
  // OrderFile schedule: per rank the list of tasks such as "F0.1" (micro-batch.chunk).
  // Decoupled: of a forward side to which weight gradients are left; empty: after all forwards.
  std::vector<std::vector<std::string>> orders;
  bool orders_fold = false;  // OrderFile: the chunks lie on the V map of ZB-V (v = 2).
  // Decoupled: which side this is of, and what crosses to the other or comes from it, by stage;
  // empty when nothing takes time or is bounded. The gather of a forward rank brings its weights.
  PipelineSide side = PipelineSide::Both;
  SideFeed feed = SideFeed::StageInput;
  std::vector<SideCrossing> crossings;
  SideInstances instances;
  int instance = 0;  // Of this side. `micro_batches` are those of all instances.
  // Share of them that leaves its weight gradients to the forward side; which ones: LeftWeights.
  double weight_share = 0;

  PipelineHop hop(int boundary) const {
    return hops.empty() ? PipelineHop{send_activation, send_gradient}
                        : hops[static_cast<std::size_t>(boundary)];
  }
  SideCrossing crossing(int stage) const {
    return crossings.empty() ? SideCrossing{} : crossings[static_cast<std::size_t>(stage)];
  }
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_PROGRAM_SPEC_H_
