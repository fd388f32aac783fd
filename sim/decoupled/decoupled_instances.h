// The engine of decoupled pipelines with any number of instances a side and weight gradients split
// between the sides. It decides when a forward rank runs those that are left to it, which programs
// of the Executor then have as their order, and is their oracle. See docs/adr/0010.
//
// What each rank does:
// * Forward rank: waits at the start of the step for its weights; then forwards in order, as soon
//   as the previous stage has sent, while there is room; a weight gradient that was left to it
//   whenever no forward can run; at the end its gradients go to the backward rank.
// * Backward rank: per micro-batch in order, takes what it is fed (the stage's input, on which it
//   runs the forward again, or all saved activations), waits for the gradient from the next stage,
//   runs the backward; word that there is room for another micro-batch goes behind the inputs of
//   weight gradients that it sends. Then the reduction over the instances, when all have their
//   gradients, and the optimizer.
// All instants in ns; equal times go by rank.
#ifndef MEGATWIN_SIM_DECOUPLED_DECOUPLED_INSTANCES_H_
#define MEGATWIN_SIM_DECOUPLED_DECOUPLED_INSTANCES_H_

#include "sim/decoupled/decoupled_pipeline.h"

namespace megatwin::sim {

// Requires: as simulate_decoupled().
DecoupledResult simulate_instances(const DecoupledSpec& spec);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DECOUPLED_DECOUPLED_INSTANCES_H_
