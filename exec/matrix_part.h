// Which numbers of a whole matrix one rank has: the one description of how parameters and
// activations are cut, for first values, checkpoints and what crosses between ranks that cut alike
// or not.
#ifndef MEGATWIN_EXEC_MATRIX_PART_H_
#define MEGATWIN_EXEC_MATRIX_PART_H_

#include <cstdint>

namespace megatwin::exec {

// A rectangle. Its numbers are counted row by row, as are those of the whole matrix.
struct MatrixPart {
  std::int64_t rows = 0, columns = 0;
  // Of the whole matrix, and where the local part begins in it.
  std::int64_t rows_total = 0, columns_total = 0;
  std::int64_t first_row = 0, first_column = 0;

  std::int64_t size() const { return rows * columns; }
  bool is_whole() const { return rows == rows_total && columns == columns_total; }
  // Of number n of the part, in the whole matrix.
  std::int64_t index_in_whole(std::int64_t n) const {
    return (first_row + n / columns) * columns_total + first_column + n % columns;
  }
};

// How the members of a group share a matrix.
enum class Cut { None, Rows, Columns };

struct Shares {
  int count = 1;
  int member = 0;
};

// Requires: the count divides what is cut.
inline MatrixPart part_of(const Shares& shares, std::int64_t rows, std::int64_t columns, Cut cut) {
  MatrixPart part{.rows = rows, .columns = columns, .rows_total = rows, .columns_total = columns};
  if (cut == Cut::Rows) {
    part.rows /= shares.count;
    part.first_row = shares.member * part.rows;
  }
  if (cut == Cut::Columns) {
    part.columns /= shares.count;
    part.first_column = shares.member * part.columns;
  }
  return part;
}

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MATRIX_PART_H_
