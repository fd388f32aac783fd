// What a buffer of activation memory holds: the name by which a rank takes it, finds it again and
// gives it back.
#ifndef MEGATWIN_EXEC_BUFFER_KEY_H_
#define MEGATWIN_EXEC_BUFFER_KEY_H_

#include <compare>
#include <cstdint>

#include "model/assert.h"
#include "model/ids.h"
#include "model/program/memory_planner.h"
#include "model/units.h"

namespace megatwin::exec {

struct BufferKey {
  model::BufferKind kind = model::BufferKind::Activation;
  model::ChunkId chunk;
  model::MicroBatchId micro_batch;
  friend constexpr auto operator<=>(const BufferKey&, const BufferKey&) = default;
};

// Whole numbers of 4 bytes. Requires: `bytes` is such a size.
inline std::int64_t numbers_in(model::Bytes bytes) {
  const auto whole = static_cast<std::int64_t>(bytes.value);
  constexpr auto kNumberSize = static_cast<std::int64_t>(sizeof(float));
  MEGATWIN_ASSERT(whole % kNumberSize == 0, whole, " bytes");
  return whole / kNumberSize;
}
inline model::Bytes bytes_of_numbers(std::int64_t numbers) {
  return {static_cast<double>(numbers) * sizeof(float)};
}

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_BUFFER_KEY_H_
