// Weights and gradients of one model chunk on one rank, whole or as the shards that ZeRO leaves
// here (Rajbhandari et al., arXiv:1910.02054, section 5). Hands a pass the whole weights of what it
// runs, and takes in its gradients.
#ifndef MEGATWIN_EXEC_CHUNK_PARAMETERS_H_
#define MEGATWIN_EXEC_CHUNK_PARAMETERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "exec/model_shape.h"
#include "exec/parameter_table.h"
#include "exec/rank_group.h"
#include "exec/reshard.h"
#include "exec/slice.h"

namespace megatwin::exec {

// What of a unit lies here, in places of the chunk.
struct HeldUnit {
  bool experts = false;
  Slice stepped;  // The part whose optimizer state is here.
  Slice weights_at, gradients_at;
  std::span<float> weights, gradients;
};

// The part of a unit that the n-th of its replicas steps, in places of the chunk.
Slice stepped_slice(const ModelShape& shape, const ParameterUnit& unit, int replica);

// Numbers that are held throughout.
struct HeldSizes {
  std::int64_t weights = 0, gradients = 0, stepped = 0;
};
// `data` and `expert_data`: the member of the two replica groups; the first holds the most.
struct ReplicaMember {
  int data = 0;
  int expert_data = 0;
};
HeldSizes held_sizes(const ModelShape& shape, const ParameterTable& table,
                     const ReplicaMember& member);

// What of each parameter the weights of a chunk have, ChunkParameters::weights(), and where.
std::vector<HeldPart> held_weights(const ModelShape& shape, const ParameterTable& table,
                                   const ReplicaMember& member);

// Of the workspace that fetch() and gradient_buffer() take for a bundle.
std::int64_t fetch_workspace(const ModelShape& shape, const ParameterBundle& bundle);
std::int64_t gradient_workspace(const ModelShape& shape, const ParameterBundle& bundle);

// What a rank does with its weights.
enum class WeightUse : std::uint8_t {
  Read,      // Holds neither gradients nor optimizer state.
  Gradient,  // Sums gradients that other ranks step.
  Step,
};

class ChunkParameters {
 public:
  // All weights start from `seed`.
  struct Use {
    std::uint64_t seed = 1;
    WeightUse use = WeightUse::Step;
  };
  // Shape and table are borrowed.
  ChunkParameters(const ModelShape& shape, const ParameterTable& table, const Use& use,
                  const RankGroups& groups);

  // The whole weights of a bundle: those here, or gathered into `workspace`. All replicas call
  // alike.
  std::span<const float> fetch(const ParameterBundle& bundle, std::span<float> workspace);
  // Where to add the gradients of a bundle. What was added is taken in by collect(), which all
  // replicas call alike.
  std::span<float> gradient_buffer(const ParameterBundle& bundle, std::span<float> workspace);
  void collect(const ParameterBundle& bundle, std::span<float> workspace);

  std::vector<HeldUnit>& units() { return units_; }
  std::span<float> weights() { return weights_; }
  std::span<float> gradients() { return gradients_; }

 private:
  RankGroup& replicas_of(const HeldUnit& unit) {
    return unit.experts ? groups_.expert_data : groups_.data;
  }

  const ModelShape& shape_;
  const ParameterTable& table_;
  RankGroups groups_;
  std::vector<float> weights_, gradients_;
  std::vector<HeldUnit> units_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_CHUNK_PARAMETERS_H_
