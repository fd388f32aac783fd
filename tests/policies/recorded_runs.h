// Runs of the host world as they were recorded once: what each Executor saw and what it decided. A
// file stands alone: it holds all that the programs are made of, so that no change of a model or of
// a world touches it; only a change of what decides does.
#ifndef MEGATWIN_TESTS_POLICIES_RECORDED_RUNS_H_
#define MEGATWIN_TESTS_POLICIES_RECORDED_RUNS_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/program/decision_record.h"
#include "model/program/program_spec.h"
#include "policies/executor.h"
#include "policies/policy.h"

namespace megatwin::tests {

// Who orders the tasks: a static schedule, or a policy on its shape.
struct OrderChoice {
  model::ScheduleKind shape = model::ScheduleKind::OneForwardOneBackward;
  model::ScheduleKind decides = model::ScheduleKind::OneForwardOneBackward;
  int live_activations_max = 0;
  policies::ExecutorOptions executor;
};

// Empty for a static schedule.
policies::PolicyFactory policy_of(const OrderChoice& choice);

struct RecordedRun {
  OrderChoice choice;
  model::ProgramSpec spec;               // Shape and memory; no durations. Decoupled: of one side.
  std::vector<model::ExecutorLog> logs;  // One a stage; those that were read have no hashes, but …
  std::vector<std::uint64_t> hashes;     // … one of all, a stage.
};

// Of the hashes of all decisions, in order.
std::uint64_t hash_of(const std::vector<model::DecisionRecord>& decisions);

void write_runs(std::ostream& out, const std::vector<RecordedRun>& runs);
// Aborts when the text is none that write_runs() wrote.
std::vector<RecordedRun> read_runs(std::istream& in);

inline constexpr const char* kRecordedRuns = "tests/data/recorded_runs.txt";

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_POLICIES_RECORDED_RUNS_H_
