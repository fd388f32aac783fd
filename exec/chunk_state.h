// What one rank holds of one unit of a model chunk between two steps: weights and optimizer state,
// by places of the chunk's parameter table. The view through which checkpoints and evaluation see a
// run; everything is borrowed from the rank.
#ifndef MEGATWIN_EXEC_CHUNK_STATE_H_
#define MEGATWIN_EXEC_CHUNK_STATE_H_

#include <span>

#include "exec/parameter_table.h"
#include "exec/slice.h"
#include "model/ids.h"

namespace megatwin::exec {

struct ChunkState {
  model::RankId rank;
  const ParameterTable* table = nullptr;
  Slice held;                // The places whose weights lie here.
  std::span<float> weights;  // Theirs.
  // Those of them whose optimizer state the rank holds, and that state. Here alone the weights are
  // sure to be of the last step: other replicas' parts come with the next gather.
  Slice stepped;
  std::span<float> first_moment, second_moment;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_CHUNK_STATE_H_
