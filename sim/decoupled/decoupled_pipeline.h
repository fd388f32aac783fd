// Forward-backward decoupling simulated: forwards on one kind of ranks, backwards on another, with
// transfers between them, a bound on what waits at a backward rank, and weight gradients split
// between the sides. Every pipeline stage has some forward ranks and some backward ranks
// (instances); micro-batch j belongs to forward instance j mod a and backward instance j mod b.
//
// Without a split these are programs that the Executor runs, see decoupled_program.h. Weight
// gradients left to the forward side have an engine of their own, decoupled_instances.h, which
// decides when each forward rank runs which; in that order they are programs too. Both give the
// same times (docs/adr/0010).
//
// Transfers queue per sender and kind, beside compute. The step ends when every rank has ended.
// In closed form, without transfers and bounds: policies/forward_backward_decoupling.h.
#ifndef MEGATWIN_SIM_DECOUPLED_DECOUPLED_PIPELINE_H_
#define MEGATWIN_SIM_DECOUPLED_DECOUPLED_PIPELINE_H_

#include <cstdint>
#include <vector>

#include "model/ids.h"
#include "model/program/event_record.h"
#include "model/program/task.h"
#include "model/units.h"
#include "policies/forward_backward_decoupling.h"

namespace megatwin::sim {

// What a micro-batch keeps on a rank.
struct DecoupledSizes {
  model::Bytes activation;
  model::Bytes weight_input;  // Of weight gradients that are left to the forward side.
};

// One stage; all micro-batches are alike.
struct DecoupledStage {
  model::Instant forward;            // On a forward rank.
  model::Instant again;              // The forward run again on a backward rank.
  model::Instant backward;           // With its weight gradients.
  model::Instant backward_input;     // Without.
  model::Instant weight_on_forward;  // Weight gradients on a forward rank.
  model::Instant feed;               // What a backward rank is fed, on its way.
  model::Instant weight_input;       // What a forward rank needs for weight gradients, on its way.
  model::Instant gradients;          // A forward rank's gradients of the step, on their way.
  model::Instant reduce;             // Over the backward instances.
  model::Instant optimizer;
  model::Instant weights;  // To the forward ranks, once a step.
  int waiting_max = 0;     // Micro-batches fed and not finished; 0 for no bound.
  DecoupledSizes on_forward, on_backward;
  model::Instant send_activation;  // To the next stage of the same side …
  model::Instant send_gradient;    // … and to the one before.
  // For activations and inputs of weight gradients on a forward rank, which works out weight
  // gradients before its next forward when a forward and two inputs more would not fit; 0 for no
  // such bound. What backward ranks send it takes none the less.
  model::Bytes forward_room;
};

struct DecoupledSpec {
  std::vector<DecoupledStage> stages;
  int micro_batches = 1;
  int forward_instances = 1;
  int backward_instances = 1;
  policies::DecoupledFeed feed = policies::DecoupledFeed::StageInput;
  double weight_share =
      0;  // Of the micro-batches, spread evenly: weight gradients on forward ranks.
};

// The parts of its time sum to the makespan.
struct DecoupledRank {
  bool forward_side = true;
  int instance = 0;
  model::StageId stage;
  model::Instant busy;        // Tasks.
  model::Instant exposed_pp;  // Waits for something that is queued or under way.
  model::Instant exposed_dp;  // Waits for weights, or for the reduction.
  model::Instant optimizer;
  model::Instant bubble;  // The rest: others have not got there yet, or are done.
  model::Instant finish;  // Last thing it does in the step.
  // Most at once. Activations: of a forward rank begun and not sent, where it feeds them; of a
  // backward rank those that it is fed or made itself, from the begin of the forward that feeds it.
  int activations_max = 0;
  // Inputs of weight gradients left to the forward side: there, or on the way there.
  int weight_inputs_max = 0;
  model::Bytes held_max;  // Of both together.
};

struct DecoupledResult {
  model::Instant makespan;
  std::vector<DecoupledRank> ranks;  // Forward instances stage by stage, then backward instances.
  std::vector<model::EventRecord> timeline;      // By rank, then start.
  std::vector<std::vector<model::Task>> orders;  // Of the tasks of each rank; not by_executor.
  std::int64_t events = 0;
  bool by_executor = false;

  // Share of the step in which the ranks of a side run tasks.
  double busy_share(bool forward_side) const;
};

// Requires: at least one stage and instance of each side, a micro-batch for each instance;
// 0 ≤ weight_share ≤ 1.
DecoupledResult simulate_decoupled(const DecoupledSpec& spec);

// Micro-batches whose weight gradients are worked out on forward ranks; which ones: LeftWeights.
int weights_moved(const DecoupledSpec& spec);

// The share of weight gradients on the forward side at which both sides of the busiest stage work
// equally long a micro-batch; 0 when the forward side is the busier one anyway.
double balanced_weight_share(const DecoupledSpec& spec);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DECOUPLED_DECOUPLED_PIPELINE_H_
