// The log file of a real run: of every rank and step the events that its Executor consumed and the
// decisions that it took. Lines of text, so that two logs can be compared with any tool:
//
//   megatwin log 1
//   program HASH policy NAME depth N slots N memory BYTES in_order 0|1
//   rank R stage S step N events N decisions N
//   e KIND DURATION ID             one an event
//   d TASK AFTER HASH              one a decision; TASK is -1 for waiting
#ifndef MEGATWIN_TRACES_EXECUTOR_LOG_H_
#define MEGATWIN_TRACES_EXECUTOR_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/ids.h"
#include "model/program/decision_record.h"
#include "model/result.h"
#include "model/units.h"

namespace megatwin::traces {

// One rank, one step.
struct LoggedStep {
  model::RankId rank;
  model::StageId stage;
  int step = 0;  // From 0.
  model::ExecutorLog log;
};

struct RunLog {
  std::uint64_t program_hash = 0;  // Of what was run, so that no other job is replayed.
  std::string policy;              // One word; "list" for a static order.
  // The Executor's options.
  int issue_depth = 1;
  int receive_slots = 0;
  model::Bytes memory_limit;
  bool gradients_in_order = true;
  std::vector<LoggedStep> steps;  // By rank, then step.
};

std::string log_text(const RunLog& log);

// Errors: no log, or one that was cut off; with the line. `file` is for messages.
model::Result<RunLog> parse_log(const std::string& file, std::string_view text);

}  // namespace megatwin::traces

#endif  // MEGATWIN_TRACES_EXECUTOR_LOG_H_
