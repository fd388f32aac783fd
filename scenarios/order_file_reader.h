// A schedule that a user wrote: one line a rank, "0: F0.0 F1.0 B0.0 B1.0", in rank order; # begins
// a comment. A token is phase, micro-batch, full stop, chunk. Whether the orders can run is
// answered by the policies; here the form is read, and sizes are held against the plan's.
#ifndef MEGATWIN_SCENARIOS_ORDER_FILE_READER_H_
#define MEGATWIN_SCENARIOS_ORDER_FILE_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

// What a task may name, from 0.
struct OrderSizes {
  std::int64_t micro_batches = 0;
  int chunks = 0;
};

// Tokens of every rank. Errors: unreadable, no text, a line without "rank:", ranks out of order;
// of every rank the first token that is no task, or beyond `sizes` where they are known.
model::Result<std::vector<std::vector<std::string>>> read_order_file(
    const std::string& path, const std::optional<OrderSizes>& sizes = {});
model::Result<std::vector<std::vector<std::string>>> parse_order_file(
    const std::string& file, const std::string& text, const std::optional<OrderSizes>& sizes = {});

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_ORDER_FILE_READER_H_
