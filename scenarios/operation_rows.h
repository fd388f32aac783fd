// Measured single operations as JSON lines: one object a line, keys as the H200 benchmark files
// have them (kind, dtype, layout, M, N, K, ms …). The only code that knows this format; what the
// rows mean to the cost model is sim/validate_operations.h.
#ifndef MEGATWIN_SCENARIOS_OPERATION_ROWS_H_
#define MEGATWIN_SCENARIOS_OPERATION_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "model/units.h"

namespace megatwin::scenarios {

// One line. Sizes that the line lacks are 0, words empty.
struct OperationRow {
  int line = 0;
  std::string kind;     // gemm, grouped_gemm, attn, copy, add, nccl, rmsnorm_eager, …
  std::string dtype;    // bf16, fp8_e4m3, …
  std::string layout;   // TN, NN, NT, also "NT(wgrad)".
  std::string backend;  // cudnn, CUDNN_ATTENTION, FLASH_ATTENTION.
  std::string op;       // Of a collective: all_reduce, …
  bool causal = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t experts = 0, tokens = 0;
  std::int64_t batch = 0, heads = 0, key_value_heads = 0, length = 0, head_dim = 0;
  std::int64_t rows = 0, width = 0;  // "T" and "H" of a normalisation.
  int world = 0;
  model::Bytes bytes;
  std::optional<model::Seconds> time, forward, backward;  // "ms" or "us", "fwd_ms", "bwd_ms".
};

// All lines of a file; blank ones are skipped.
// Errors: a line that is no JSON object, a value of the wrong type, a missing kind; with line and
// column, all of them at once.
model::Result<std::vector<OperationRow>> parse_operation_rows(std::string_view text,
                                                              const std::string& file);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_OPERATION_ROWS_H_
