#include "policies/equal_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policies/block_width.h"

namespace megatwin::policies {

model::Bytes size_of_chunk(const model::ChunkMemory& memory) {
  return std::max(memory.activation, memory.weight_gradient_input);
}

model::Bytes room_of(const model::Program& program, model::Bytes limit) {
  constexpr model::Bytes kUnlimited{1e15};
  return std::clamp(limit - program.fixed_memory, model::Bytes{0}, kUnlimited);
}

std::vector<std::int64_t> sizes_of_chunks(const model::Program& program) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(program.chunk_memory.size());
  for (const model::ChunkMemory& memory : program.chunk_memory) {
    sizes.push_back(static_cast<std::int64_t>(std::ceil(size_of_chunk(memory).value)));
  }
  return sizes;
}

EqualMemory equal_memory_of(std::span<const model::Program> programs,
                            std::span<const model::Bytes> limits) {
  EqualMemory memory{.micro_batches = std::numeric_limits<int>::max(),
                     .activations_fit = std::numeric_limits<std::int64_t>::max()};
  std::vector<BatchMemory> ranks;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const model::Program& program = programs[rank];
    const model::Bytes room = room_of(program, limits[rank]);
    ranks.push_back({.sizes = sizes_of_chunks(program),
                     .room = static_cast<std::int64_t>(room.value),
                     .micro_batches = program.shape.micro_batches,
                     .stages = program.shape.pipeline,
                     .stage = program.stage.value});
    const BatchMemory& rank_memory = ranks.back();
    memory.micro_batches =
        std::min(memory.micro_batches, std::max(1, rank_memory.whole_micro_batches()));
    memory.activations_fit = std::min(memory.activations_fit, rank_memory.activations_fit());
    memory.activations_max = std::max(memory.activations_max, rank_memory.activations_max());
  }
  memory.block_width = widest_blocks(ranks);
  return memory;
}

}  // namespace megatwin::policies
