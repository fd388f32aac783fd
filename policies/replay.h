// Runs a policy again on the events of a log, without a world: the proof that its decisions follow
// from the events alone. Also the policy that forces the picks of a log on a world.
#ifndef MEGATWIN_POLICIES_REPLAY_H_
#define MEGATWIN_POLICIES_REPLAY_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/program/decision_record.h"
#include "model/program/program.h"
#include "policies/executor.h"

namespace megatwin::policies {

struct Replay {
  std::vector<model::DecisionRecord> decisions;
  // Where an event could not have happened after the decisions so far; empty when none.
  std::string divergence;
};

struct ReplaySetup {
  const model::Program& program;
  OrderSource source = OrderSource::Policy;
  std::span<const model::TaskId> order;  // OrderSource::List.
  Policy* policy = nullptr;              // OrderSource::Policy.
  ExecutorOptions options;
};

Replay replay(const ReplaySetup& setup, std::span<const model::ExecutorEvent> events);

// Picks what a log picked, in its order. Another world may be later than the logged one: then it
// waits until the next pick is ready.
class RecordedPicks : public Policy {
 public:
  // `decisions` is borrowed.
  explicit RecordedPicks(std::span<const model::DecisionRecord> decisions)
      : decisions_(decisions) {}

  std::optional<model::TaskId> pick(const Observation& observation) override;
  std::string state_line() const override;

 private:
  std::span<const model::DecisionRecord> decisions_;
  std::size_t position_ = 0;
};

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_REPLAY_H_
