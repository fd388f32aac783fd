// Layers dealt over a pipeline by work, in closed form: the loss layer is worth some decoder
// layers, so the stage that holds it gets fewer of them. sim/mixed/found_splits.h finds a split by
// simulating, which may be better and takes a thousand times as long.
#ifndef MEGATWIN_MODEL_BALANCED_LAYERS_H_
#define MEGATWIN_MODEL_BALANCED_LAYERS_H_

#include <vector>

#include "model/plan.h"
#include "model/transformer.h"

namespace megatwin::model {

// What the end of the model (head and prediction layers) costs, in decoder layers, by the forward
// FLOP of a token with causal attention. Layers that are all run again count a third more; the head
// is not.
double end_in_layers(const Transformer& transformer, const Plan& plan);

// Layers of the p·v virtual stages in model order (as Plan::layers_per_virtual_stage) so that the
// busiest rank has the least work there is when all decoder layers cost the same; of equal ranks
// the later ones get more, which hold fewer activations. A rank's chunks are dealt the same way.
// ZB-V gets two equal chunks a rank. Every virtual stage has a layer; empty where that cannot be.
std::vector<int> balanced_layers(const Transformer& transformer, const Plan& plan);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_BALANCED_LAYERS_H_
