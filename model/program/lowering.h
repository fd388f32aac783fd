// The one function that turns a task into micro-ops: what a software stack launches for the forward
// and backward pass of a model chunk on one rank, op by op, with bytes and FLOP. The simulator
// prices this list and the engines launch it. Also what the chunk saves for its backward pass. Pure
// arithmetic on shapes: of the GPU it knows only how tensor cores read fp8 operands.
#ifndef MEGATWIN_MODEL_PROGRAM_LOWERING_H_
#define MEGATWIN_MODEL_PROGRAM_LOWERING_H_

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "model/micro_op.h"
#include "model/plan.h"
#include "model/software_stack.h"
#include "model/transformer.h"

namespace megatwin::model {

// What one chunk holds. Layers of one kind are alike, so that their ops carry a count.
struct ChunkContent {
  int dense_layers = 0;
  int moe_layers = 0;
  int mtp_layers = 0;  // Each is a layer of the last kind, a projection and a logits pass.
  bool embedding = false;
  bool head = false;  // Final norm, logits and loss.

  int layers() const { return dense_layers + moe_layers; }
  friend auto operator<=>(const ChunkContent&, const ChunkContent&) = default;
};

// Layers of a chunk, by kind, that run forward again before their backward pass: all of them, or
// the first `plan.recompute_layers` of the chunk.
struct RecomputedLayers {
  int dense = 0, moe = 0, mtp = 0;
};
RecomputedLayers recomputed_layers(const Plan& plan, const ChunkContent& content);

struct LoweringInput {
  const Transformer& transformer;
  const Plan& plan;
  const SoftwareStack& software;
  // The tensor cores read fp8 operands along rows and columns (Blackwell); else along rows only.
  bool reads_columns = false;
};
LoweringInput lowering_input(const Job& job);  // On the job's first kind of machine.

// Ops in launch order. Ops of `backward` marked weight_gradient form BackwardWeight when the
// schedule splits the pass; the rest, with the recomputation, is BackwardInput.
struct TaskOps {
  MicroOps forward;
  MicroOps backward;
};

TaskOps lower_chunk(const LoweringInput& input, const ChunkContent& content);

// The optimizer step of one rank, after its gradients are reduced. `parameters` are those of the
// rank in all, `owned` those whose states it holds (less under ZeRO), `linear` those of linear
// layers, which a recipe may keep quantised from step to step.
struct OptimizerShard {
  std::int64_t parameters = 0;
  std::int64_t owned = 0;
  std::int64_t linear = 0;
};
MicroOps lower_optimizer(const LoweringInput& input, const OptimizerShard& shard);

// Bytes that one rank keeps from the forward pass of one micro-batch until its backward pass.
struct SavedActivations {
  Bytes chunk;               // All layers, embedding and head of the chunk.
  Bytes forward_transient;   // Largest short-lived extra inside forward …
  Bytes backward_transient;  // … and backward: logits in fp32, a recomputed layer, gradients in
                             // flight.
  Bytes weight_gradient_inputs;  // What BackwardWeight still needs after BackwardInput.
};
SavedActivations saved_activations(const LoweringInput& input, const ChunkContent& content);

// Bytes of one micro-batch's hidden state as sent between pipeline stages by one rank.
Bytes pipeline_message(const LoweringInput& input);

// Tokens of one micro-batch on one rank, before sequence parallelism divides them.
std::int64_t tokens_per_rank(const LoweringInput& input);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_LOWERING_H_
