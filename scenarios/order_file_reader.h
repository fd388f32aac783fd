// A schedule that a user wrote: one line a rank, "0: F0.0 F1.0 B0.0 B1.0", in rank order; # begins
// a comment. A token is phase, micro-batch, full stop, chunk. Whether the orders can run is
// answered by the policies; here only the form is read.
#ifndef MEGATWIN_SCENARIOS_ORDER_FILE_READER_H_
#define MEGATWIN_SCENARIOS_ORDER_FILE_READER_H_

#include <string>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

// Tokens of every rank. Errors: unreadable, no text, a line without "rank:", ranks out of order.
model::Result<std::vector<std::vector<std::string>>> read_order_file(const std::string& path);
model::Result<std::vector<std::vector<std::string>>> parse_order_file(const std::string& file,
                                                                      const std::string& text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_ORDER_FILE_READER_H_
