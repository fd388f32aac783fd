// Decoupled: which of the weights that the backward side stepped each of its ranks sends to the
// forward side, and where they go there; and the way of the gradients that the forward side summed
// to the ranks that step. Sides may cut the model in different ways.
#ifndef MEGATWIN_EXEC_SIDE_WEIGHTS_H_
#define MEGATWIN_EXEC_SIDE_WEIGHTS_H_

#include <vector>

#include "exec/host_layout.h"
#include "exec/model_chunk.h"
#include "exec/model_shape.h"
#include "exec/reshard.h"
#include "model/ids.h"

namespace megatwin::exec {

// With a rank of the other side; the runs are of ChunkParameters::weights() of both, or of their
// gradients().
struct WeightTransfer {
  model::RankId rank;
  std::vector<NumberRun> runs;
};

struct SideWeightsRequest {
  const HostLayout& layout;
  const ModelShape& forward;  // Of a rank of either side.
  const ModelShape& backward;
  model::SideInstances instances;
  ChunkPart part;  // What the stage of `rank` has.
  model::RankId rank;
};
// What a backward rank sends, or a forward rank receives; by rank. Forward instance i has its
// weights from backward instance i mod b: of a rank that holds the same if there is one, as there
// always is where the sides are cut alike.
std::vector<WeightTransfer> weight_transfers(const SideWeightsRequest& request);

// What a forward rank sends, or a backward rank adds to its own; by rank. Each gradient goes the
// way back of its weights; of a parameter of which all members of a group have the same gradient
// each backward rank adds one, and where each member has summed over its own tokens, so that they
// are summed over the group afterwards, one backward rank adds each. Requires: ZeRO stages 0 or 1.
std::vector<WeightTransfer> gradient_transfers(const SideWeightsRequest& request);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SIDE_WEIGHTS_H_
