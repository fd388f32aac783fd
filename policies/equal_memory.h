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

// What a limit leaves for tasks beside the program's fixed memory; 1 PB at most, which is whole as
// a double.
model::Bytes room_of(const model::Program& program, model::Bytes limit);

// What ranks whose memory differs may all count on when receive slots are limited: for each chunk
// the share of the room that it takes on the rank where that is most.
struct EqualMemory {
  std::vector<std::int64_t> sizes;  // One a chunk, in units of which `room` are there. Or empty.
  std::int64_t room = 0;
  int micro_batches = 0;  // Whole ones that fit on every rank; 0 when `sizes` is empty.
};

// Of the programs of all stages and what their tasks may hold with the fixed memory.
// Requires: as many limits as programs, each with room for one micro-batch.
EqualMemory equal_memory_of(std::span<const model::Program> programs,
                            std::span<const model::Bytes> limits);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_EQUAL_MEMORY_H_
