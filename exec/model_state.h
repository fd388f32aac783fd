// A model and its optimizer state as one machine would hold them: whole matrices by name, without
// any cut. The common ground of all plans: what a run of one plan is gathered into, a run of
// another plan is filled from.
#ifndef MEGATWIN_EXEC_MODEL_STATE_H_
#define MEGATWIN_EXEC_MODEL_STATE_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/chunk_state.h"

namespace megatwin::exec {

// A whole parameter, row-major.
struct WholeParameter {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> weights;
  std::vector<float> first_moment, second_moment;  // Empty when only weights are known.
  friend bool operator==(const WholeParameter&, const WholeParameter&) = default;
};
using ModelState = std::map<std::string, WholeParameter>;

enum class StatePart { Weights, WeightsAndMoments };

// Requires: the chunks are those of all ranks of a run.
ModelState gather_state(std::span<const ChunkState> chunks, StatePart part);

// Copies weights to every place; the second also moments, where the state has them. Names that no
// chunk holds are left out.
// Requires: state_problems() is empty.
void scatter_weights(const ModelState& state, std::span<const ChunkState> chunks);
void scatter_state(const ModelState& state, std::span<const ChunkState> chunks);

// Parameters of `table` that the state lacks or has in another shape, in words for the user.
std::vector<std::string> state_problems(const ModelState& state, const ParameterTable& table);

// Names in the state that have no place in `table`. What follows from the rest does not count:
// the frequencies of rotary positions, and a head where the embedding is the head.
std::vector<std::string> weights_without_place(const ModelState& state,
                                               const ParameterTable& table);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MODEL_STATE_H_
