#include "exec/reshard.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "model/assert.h"

namespace megatwin::exec {
namespace {

using PartsByName = std::map<std::string_view, const HeldPart*>;

PartsByName by_name(const std::vector<HeldPart>& parts) {
  PartsByName result;
  for (const HeldPart& part : parts) {
    MEGATWIN_ASSERT(result.emplace(part.name, &part).second, part.name, " twice");
  }
  return result;
}

// Numbers of one row of a part: [begin, end) as the part counts them.
struct RowPiece {
  std::int64_t begin = 0, end = 0;
};

std::vector<RowPiece> row_pieces(const HeldPart& part) {
  std::vector<RowPiece> pieces;
  const std::int64_t end = part.held.offset + part.held.size;
  for (std::int64_t begin = part.held.offset; begin < end;) {
    const std::int64_t row_end = (begin / part.part.columns + 1) * part.part.columns;
    pieces.push_back({begin, std::min(end, row_end)});
    begin = pieces.back().end;
  }
  return pieces;
}

// What of a piece of `wanted` the source has, counted as `wanted` does; empty when nothing. In one
// row that is one range.
RowPiece common_piece(const HeldPart& wanted, const RowPiece& piece, const HeldPart& source) {
  const std::int64_t row = wanted.part.first_row + piece.begin / wanted.part.columns;
  const std::int64_t source_row = row - source.part.first_row;
  if (source_row < 0 || source_row >= source.part.rows) {
    return {piece.begin, piece.begin};
  }
  // What a number of this row counts at the source less what it counts here.
  const std::int64_t shift =
      source_row * source.part.columns - source.part.first_column -
      (piece.begin / wanted.part.columns * wanted.part.columns - wanted.part.first_column);
  const Slice of_row = common({source_row * source.part.columns, source.part.columns}, source.held);
  const std::int64_t begin = std::max(piece.begin, of_row.offset - shift);
  const std::int64_t end = std::min(piece.end, of_row.offset + of_row.size - shift);
  return {begin, std::max(begin, end)};
}

std::int64_t place_at_source(const HeldPart& wanted, std::int64_t n, const HeldPart& source) {
  const MatrixPart& part = wanted.part;
  const std::int64_t row = part.first_row + n / part.columns - source.part.first_row;
  const std::int64_t column = part.first_column + n % part.columns - source.part.first_column;
  return source.place_of(row * source.part.columns + column);
}

void append_run(const NumberRun& run, std::vector<NumberRun>& runs) {
  if (!runs.empty() && runs.back().from + runs.back().size == run.from &&
      runs.back().to + runs.back().size == run.to) {
    runs.back().size += run.size;
    return;
  }
  runs.push_back(run);
}

}  // namespace

std::vector<std::vector<NumberRun>> runs_from(std::span<const std::vector<HeldPart>> sources,
                                              const std::vector<HeldPart>& wanted) {
  std::vector<std::vector<NumberRun>> runs(sources.size());
  std::vector<PartsByName> named;
  named.reserve(sources.size());
  for (const std::vector<HeldPart>& source : sources) named.push_back(by_name(source));
  for (const HeldPart& part : wanted) {
    std::vector<RowPiece> missing = row_pieces(part);
    for (std::size_t index = 0; index < sources.size() && !missing.empty(); ++index) {
      const auto found = named[index].find(part.name);
      if (found == named[index].end()) continue;
      const HeldPart& source = *found->second;
      MEGATWIN_ASSERT(source.part.rows_total == part.part.rows_total &&
                          source.part.columns_total == part.part.columns_total,
                      part.name);
      std::vector<RowPiece> left;
      for (const RowPiece& piece : missing) {
        const RowPiece here = common_piece(part, piece, source);
        if (here.begin == here.end) {
          left.push_back(piece);
          continue;
        }
        append_run({place_at_source(part, here.begin, source), part.place_of(here.begin),
                    here.end - here.begin},
                   runs[index]);
        if (piece.begin < here.begin) left.push_back({piece.begin, here.begin});
        if (here.end < piece.end) left.push_back({here.end, piece.end});
      }
      missing = std::move(left);
    }
    MEGATWIN_ASSERT(missing.empty(), "nobody has number ", missing.front().begin, " of ",
                    part.name);
  }
  return runs;
}

std::vector<float> gathered(std::span<const float> from, std::span<const NumberRun> runs) {
  std::vector<float> numbers;
  for (const NumberRun& run : runs) {
    const std::span<const float> part = Slice{run.from, run.size}.of(from);
    numbers.insert(numbers.end(), part.begin(), part.end());
  }
  return numbers;
}

void scatter(std::span<const float> numbers, std::span<const NumberRun> runs, std::span<float> to) {
  std::int64_t at = 0;
  for (const NumberRun& run : runs) {
    const std::span<const float> part = Slice{at, run.size}.of(numbers);
    std::copy(part.begin(), part.end(), Slice{run.to, run.size}.of(to).begin());
    at += run.size;
  }
  MEGATWIN_ASSERT(at == std::ssize(numbers), numbers.size(), " numbers, ", at, " taken");
}

}  // namespace megatwin::exec
