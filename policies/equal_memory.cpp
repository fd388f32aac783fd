#include "policies/equal_memory.h"

#include <algorithm>
#include <cmath>

namespace megatwin::policies {

model::Bytes size_of_chunk(const model::ChunkMemory& memory) {
  return std::max(memory.activation, memory.weight_gradient_input);
}

model::Bytes room_of(const model::Program& program, model::Bytes limit) {
  constexpr model::Bytes kUnlimited{1e15};
  return std::clamp(limit - program.fixed_memory, model::Bytes{0}, kUnlimited);
}

EqualMemory equal_memory_of(std::span<const model::Program> programs,
                            std::span<const model::Bytes> limits) {
  constexpr std::int64_t kRoom = std::int64_t{1} << 40;
  constexpr int kMicroBatchesMax = 1'000'000;
  EqualMemory memory{.room = kRoom, .micro_batches = kMicroBatchesMax};
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const model::Program& program = programs[rank];
    const model::Bytes room = std::max(room_of(program, limits[rank]), model::Bytes{1});
    model::Bytes micro_batch{0};
    memory.sizes.resize(program.chunk_memory.size());
    for (std::size_t chunk = 0; chunk < memory.sizes.size(); ++chunk) {
      const double share = std::min(1.0, ratio(size_of_chunk(program.chunk_memory[chunk]) / room));
      const auto size = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(kRoom)));
      memory.sizes[chunk] = std::max(memory.sizes[chunk], size);
      micro_batch += size_of_chunk(program.chunk_memory[chunk]);
    }
    if (static_cast<double>(memory.micro_batches) * micro_batch > room) {
      memory.micro_batches = std::max(1, static_cast<int>(ratio(room / micro_batch)));
    }
  }
  return memory;
}

}  // namespace megatwin::policies
