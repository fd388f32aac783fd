// Weights and optimizer state of one rank in a letter, and as its reader sees them.
#ifndef MEGATWIN_EXEC_STATE_LETTER_H_
#define MEGATWIN_EXEC_STATE_LETTER_H_

#include <memory>
#include <span>
#include <vector>

#include "exec/chunk_state.h"
#include "exec/host_job.h"
#include "model/byte_stream.h"
#include "model/rank_layout.h"

namespace megatwin::exec {

// Of the chunk states of one rank, in order.
ByteVector state_letter(std::span<const ChunkState> state);

// Owns what the states of another rank refer to. Not to be copied.
class StateLetter {
 public:
  // Which rank wrote, and its place in the model.
  struct Writer {
    model::RankId rank;
    model::RankCoordinates coordinates;
    std::vector<ChunkPart> parts;  // Of its chunks.
  };
  StateLetter(const ModelShape& shape, const Writer& writer, const ByteVector& letter);
  StateLetter(StateLetter&&) = default;
  StateLetter& operator=(StateLetter&&) = default;

  const std::vector<ChunkState>& state() const { return state_; }

 private:
  std::vector<std::unique_ptr<ParameterTable>> tables_;
  std::vector<std::vector<float>> numbers_;
  std::vector<ChunkState> state_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_STATE_LETTER_H_
