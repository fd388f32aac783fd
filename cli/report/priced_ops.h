// Priced operations in the order and words in which every writer shows them.
#ifndef MEGATWIN_CLI_REPORT_PRICED_OPS_H_
#define MEGATWIN_CLI_REPORT_PRICED_OPS_H_

#include <string>
#include <vector>

#include "sim/simulation_report.h"

namespace megatwin::cli {

// By time descending; equal times keep their order.
std::vector<sim::PricedOp> dearest_first(std::vector<sim::PricedOp> ops);

// An operation that several chunks have alike: same task, name, shape, FLOP, bytes and time.
struct AlikeOps {
  sim::PricedOp first;
  int num_chunks = 1;
};
std::vector<AlikeOps> dearest_alike(std::vector<sim::PricedOp> ops);

// "14,336 × 8,192 × 8,192 bf16", "all-gather of 134 MB over the tensor group", …
std::string shape_text(const model::MicroOp& op);

// "GEMM", "attention", "memory-bound", "collective".
std::string_view kind_text(model::MicroOpKind kind);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_PRICED_OPS_H_
