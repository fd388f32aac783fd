// A host run's log as the file of traces/executor_log.h, and the proof that it proves: from the
// events alone the decisions come out again.
#ifndef MEGATWIN_EXEC_RUN_LOG_H_
#define MEGATWIN_EXEC_RUN_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "exec/host_job.h"
#include "model/program/program_spec.h"
#include "traces/executor_log.h"

namespace megatwin::exec {

// Equal for programs of equal tasks and memory; of a decoupled pipeline both sides.
std::uint64_t program_hash(const std::vector<model::ProgramSpec>& specs);

// Requires: the job asked for a log.
traces::RunLog run_log(const HostJob& job, const std::string& policy_name,
                       const HostResult& result);

policies::ExecutorOptions executor_options(const traces::RunLog& log);

// One rank and step of a log, decided again.
struct ReplayedStep {
  model::RankId rank;
  int step = 0;
  std::size_t events = 0, decisions = 0;
  std::string difference;  // Where the first pick or hash differs; empty when none does.
};
// `policy` empty: the static orders of `specs`. Ranks that follow an announced order decide
// nothing.
std::vector<ReplayedStep> replay_log(const std::vector<model::ProgramSpec>& specs,
                                     const traces::RunLog& log,
                                     const policies::PolicyFactory& policy);

// Forces the picks of the log: called once a step by each rank that decided.
// `log` is borrowed.
policies::PolicyFactory recorded_policy(const traces::RunLog& log);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_RUN_LOG_H_
