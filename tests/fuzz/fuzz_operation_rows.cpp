// Measured operations as JSON lines.
#include "model/assert.h"
#include "scenarios/operation_rows.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {

void operation_rows(std::string_view text) {
  const auto rows = scenarios::parse_operation_rows(text, "fuzz.jsonl");
  if (!rows) {
    MEGATWIN_ASSERT(model::has_error(rows.error()), "refused without a reason");
    return;
  }
  for (const scenarios::OperationRow& row : *rows) {
    MEGATWIN_ASSERT(!row.kind.empty() && row.line > 0, row.line);
    for (const auto& time : {row.time, row.forward, row.backward}) {
      MEGATWIN_ASSERT(!time || time->value > 0, row.line);
    }
  }
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(operation_rows);
