// Which virtual pipeline stage holds how many decoder layers. No layer is ever dropped: a model
// that does not divide gets an uneven split, which plan_check.h refuses unless the plan asked.
#ifndef MEGATWIN_MODEL_LAYER_SPLIT_H_
#define MEGATWIN_MODEL_LAYER_SPLIT_H_

#include <cstdint>
#include <vector>

#include "model/parameters.h"
#include "model/plan.h"
#include "model/transformer.h"

namespace megatwin::model {

// Decoder layers of the p·v virtual stages in model order; virtual stage j is chunk j / p of rank
// j mod p (of a ZB-V plan, the second chunk runs back: stage j ≥ p is on rank 2p − 1 − j). As given
// by the plan; else even, embedding and head counting as layers where the plan says so; else the
// even part with the rest over the stages nearest the middle, where neither embedding nor head is.
std::vector<int> layers_of_virtual_stages(const Transformer& transformer, const Plan& plan);

// True when the split is one that the plan asked for: even, given, or even with the embedding and
// the head as layers.
bool is_layer_split_legal(const Transformer& transformer, const Plan& plan);

// The pipeline stage that holds virtual stage `virtual_stage`.
int stage_of_virtual_stage(const Plan& plan, int virtual_stage);

// Layers, embedding, head and prediction layers of each of the p stages, over all its chunks.
// Prediction layers stand with the head.
std::vector<StageContents> contents_of_stages(const Transformer& transformer, const Plan& plan);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_LAYER_SPLIT_H_
