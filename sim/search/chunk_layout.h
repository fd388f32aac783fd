// What the stages of a plan hold, with everything alike named once: chunks of equal content, stages
// of equal chunks. A plan of 64 stages mostly has three kinds of stage: first, middle, last.
#ifndef MEGATWIN_SIM_SEARCH_CHUNK_LAYOUT_H_
#define MEGATWIN_SIM_SEARCH_CHUNK_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "model/numbers.h"
#include "model/plan.h"
#include "model/program/lowering.h"
#include "model/transformer.h"

namespace megatwin::sim {

struct ChunkLayout {
  int pipeline = 1;
  int model_chunks = 1;
  std::vector<model::ChunkContent> contents;  // Distinct ones.
  std::vector<int> content_of_chunk;          // Index into contents of stage · v + chunk.
  std::vector<int> kind_of_stage;             // Stages of one kind have equal chunks.
  std::vector<int> first_of_kind;             // A stage of each kind.

  int num_kinds() const { return static_cast<int>(first_of_kind.size()); }
  int content(int stage, int chunk) const {
    return content_of_chunk[model::as_index(std::int64_t{stage} * model_chunks + chunk)];
  }
};

ChunkLayout chunk_layout(const model::Transformer& transformer, const model::Plan& plan);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_CHUNK_LAYOUT_H_
