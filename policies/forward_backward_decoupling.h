// Forward-backward decoupling in closed form: forwards run on one row of p ranks, backwards on
// another, so that 2p ranks make one pipeline. Beside it, two pipelines of p ranks that split the
// micro-batches, which is what the same ranks would do otherwise. Without transfers.
// docs/fbd.md says when which is faster.
#ifndef MEGATWIN_POLICIES_FORWARD_BACKWARD_DECOUPLING_H_
#define MEGATWIN_POLICIES_FORWARD_BACKWARD_DECOUPLING_H_

#include "model/units.h"

namespace megatwin::policies {

// What a backward rank gets for a micro-batch from the forward rank of its stage.
enum class DecoupledFeed {
  StageInput,   // It runs the forward again, as MegaFBD does.
  Activations,  // It waits for the forward and gets all that it keeps.
};

struct DecoupledPipeline {
  int stages = 1;               // p.
  int micro_batches = 1;        // m.
  model::Instant forward_side;  // F', a forward on a forward rank.
  model::Instant forward;       // F, the forward run again on a backward rank.
  model::Instant backward;      // B, there.
  DecoupledFeed feed = DecoupledFeed::StageInput;
};

// With the stage's input, and F' ≤ F + B: (p−1)·F' + m·(F+B) + (p−1)·B, the form that the drawings
// of MegaFBD follow. In general the first gradient of the last stage is there after
// (p−1)·F' + (F+B), or p·F' + B when activations are shipped; each further micro-batch takes the
// slower side; the last one goes back through p−1 stages. A last forward that takes longer than all
// of that ends the step, after (p+m−1)·F': the next step's cannot begin before.
model::Instant decoupled_step_time(const DecoupledPipeline& pipeline);

struct CoupledPipelines {
  int stages = 1;
  int micro_batches = 1;  // Of both pipelines together.
  model::Instant forward;
  model::Instant backward;  // With the forward run again inside, where it recomputes in full.
};

// 1F1B on two pipelines that take half of the micro-batches each: (m/2 + p − 1)·(F + B), the
// larger half when m is odd.
model::Instant coupled_step_time(const CoupledPipelines& pipelines);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_FORWARD_BACKWARD_DECOUPLING_H_
