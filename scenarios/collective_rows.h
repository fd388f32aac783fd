// Measured collectives: logs of nccl-tests, and the rows `nccl` of a table of microbenchmarks with
// the columns category, gpu, op, n_gpus, shape_or_size, time_us and notes. Plain data.
#ifndef MEGATWIN_SCENARIOS_COLLECTIVE_ROWS_H_
#define MEGATWIN_SCENARIOS_COLLECTIVE_ROWS_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/micro_op.h"
#include "model/result.h"
#include "model/units.h"

namespace megatwin::scenarios {

struct CollectiveRow {
  std::string id;       // "line 12"
  std::string machine;  // As the source names its GPUs: "NVIDIA H100 80GB HBM3", "GB200 NVL72".
  std::string operation;
  model::CollectiveKind kind = model::CollectiveKind::AllReduce;
  int ranks = 0;
  int hosts = 0;  // 0: not said.
  int gpus_per_process = 1, threads_per_process = 1;
  model::Bytes bytes;
  model::Seconds time;
  std::string reason;  // Why it cannot be judged; empty when it can.
};

// The out-of-place half of every table of a log. What the header lost is found from the rows: the
// collective from bus over algorithm bandwidth. Rows that do not fit the ratio of any collective, a
// table that was made up, are kept with their reason.
// Errors: no table.
model::Result<std::vector<CollectiveRow>> parse_nccl_log(const std::string& file,
                                                         std::string_view text);

// Errors: not CSV; columns missing.
model::Result<std::vector<CollectiveRow>> parse_collective_csv(const std::string& file,
                                                               std::string_view text);
bool is_collective_csv(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_COLLECTIVE_ROWS_H_
