// Memory in the terms in which policies count it, and what ranks of unlike memory may all count on.
#ifndef MEGATWIN_POLICIES_EQUAL_MEMORY_H_
#define MEGATWIN_POLICIES_EQUAL_MEMORY_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/program/program.h"
#include "model/units.h"

namespace megatwin::policies {

// What a chunk holds of one micro-batch at most.
model::Bytes size_of_chunk(const model::ChunkMemory& memory);

// The same of every chunk, in whole bytes, so that sums do not depend on their order.
std::vector<std::int64_t> sizes_of_chunks(const model::Program& program);

// What a limit leaves for tasks beside the program's fixed memory; 1 PB at most, which is whole as
// a double.
model::Bytes room_of(const model::Program& program, model::Bytes limit);

// What ranks whose memory differs may all count on.
struct EqualMemory {
  int micro_batches = 0;             // Whole ones that fit on every rank; 0: not known.
  std::int32_t block_width = 1;      // See widest_blocks().
  std::int64_t activations_fit = 0;  // Whichever they are, on every rank; see BatchMemory.
  std::int64_t activations_max = 0;  // More than these on no rank.
};

// Of the programs of all stages and what their tasks may hold with the fixed memory.
// Requires: as many limits as programs, each with room for one micro-batch.
EqualMemory equal_memory_of(std::span<const model::Program> programs,
                            std::span<const model::Bytes> limits);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_EQUAL_MEMORY_H_
