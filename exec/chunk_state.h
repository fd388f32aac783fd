// What one rank holds of one model chunk between two steps: weights and optimizer state, by places
// of its parameter table. The view through which checkpoints and evaluation see a run; everything
// is borrowed from the rank.
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
  // The part of the places whose optimizer state the rank holds, and that state.
  Slice stepped;
  std::span<float> first_moment, second_moment;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_CHUNK_STATE_H_
