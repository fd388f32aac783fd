// Integer identities that do not mix: a rank is not a stage is not a chunk. Plain values, ordered.
#ifndef MEGATWIN_MODEL_IDS_H_
#define MEGATWIN_MODEL_IDS_H_

#include <compare>
#include <cstdint>

namespace megatwin::model {

template <class Tag>
struct Id {
  std::int32_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RankId = Id<struct RankTag>;                // Physical rank: one process on one GPU.
using VirtualRankId = Id<struct VirtualRankTag>;  // Logical worker of forward-backward decoupling.
using StageId = Id<struct StageTag>;              // Position 0 … p−1 in the pipeline.
using ChunkId = Id<struct ChunkTag>;              // Model chunk on one rank, 0 … v−1.
using MicroBatchId = Id<struct MicroBatchTag>;    // 0 … m−1.
using RoleId = Id<struct RoleTag>;                // Ranks that share one immutable Program.
using TaskId = Id<struct TaskTag>;                // Index into a Program's tasks.
using NodeId = Id<struct NodeTag>;                // A machine.

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_IDS_H_
