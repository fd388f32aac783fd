// Moves matrices from ranks that cut them in one way to ranks that cut them in another: which
// numbers of whose buffer go where. Both ends work it out for themselves from what each of the
// ranks holds, so that messages carry numbers only.
#ifndef MEGATWIN_EXEC_RESHARD_H_
#define MEGATWIN_EXEC_RESHARD_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/matrix_part.h"
#include "exec/slice.h"

namespace megatwin::exec {

// What a buffer has of a matrix.
struct HeldPart {
  std::string name;  // Of the matrix.
  MatrixPart part;
  Slice held;               // Which numbers of the part, as they are counted.
  std::int64_t at = 0;      // Where number 0 of the part lies in the buffer, or would lie …
  std::int64_t stride = 0;  // … and how far apart its rows are.

  std::int64_t place_of(std::int64_t n) const {
    return at + n / part.columns * stride + n % part.columns;
  }
};

// Numbers [from, from + size) of one buffer are [to, to + size) of another.
struct NumberRun {
  std::int64_t from = 0, to = 0, size = 0;
  friend bool operator==(const NumberRun&, const NumberRun&) = default;
};

// What each of `sources` gives to a buffer of `wanted`: every number once, from the first of them
// that has it. In ascending order of `to`, as few runs as that allows.
// Requires: together they have all; a source names no matrix twice.
std::vector<std::vector<NumberRun>> runs_from(std::span<const std::vector<HeldPart>> sources,
                                              const std::vector<HeldPart>& wanted);

// The numbers of the runs one behind the other, and back.
std::vector<float> gathered(std::span<const float> from, std::span<const NumberRun> runs);
// Requires: as many numbers as the runs have.
void scatter(std::span<const float> numbers, std::span<const NumberRun> runs, std::span<float> to);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RESHARD_H_
