#include "policies/replay.h"

#include <algorithm>

#include "policies/backend.h"

namespace megatwin::policies {
namespace {

// The world of a log: whatever is issued has already happened.
class RecordedBackend : public Backend {
 public:
  void issue_task(model::RankId, model::TaskId) override {}
  void issue_send(model::RankId, model::TaskId) override {}
  void issue_crossing(model::RankId, model::TaskId) override {}
  void issue_gather(model::RankId, model::ChunkId) override {}
  void issue_reduce(model::RankId, model::ChunkId) override {}
  void issue_optimizer(model::RankId) override {}
  void return_credit(model::RankId, model::TaskId) override {}
  void announce(model::RankId, model::TaskId) override {}
};

}  // namespace

Replay replay(const ReplaySetup& setup, std::span<const model::ExecutorEvent> events) {
  RecordedBackend backend;
  ExecutorScratch scratch;
  model::ExecutorLog log;
  Executor executor({.program = setup.program,
                     .rank = {0},
                     .backend = backend,
                     .scratch = scratch,
                     .source = setup.source,
                     .order = setup.order,
                     .policy = setup.policy,
                     .options = setup.options,
                     .log = &log});
  Replay result;
  for (std::size_t index = 0; index < events.size(); ++index) {
    if (!executor.accepts(events[index])) {
      result.divergence =
          "event " + std::to_string(index) + " of the log cannot follow the decisions before it";
      break;
    }
    executor.on_event(events[index]);
  }
  result.decisions = std::move(log.decisions);
  return result;
}

std::optional<model::TaskId> RecordedPicks::pick(const Observation& observation) {
  while (position_ < decisions_.size() &&
         decisions_[position_].task == model::DecisionRecord::kWait) {
    ++position_;
  }
  if (position_ == decisions_.size()) {
    return std::nullopt;
  }
  const model::TaskId picked{decisions_[position_].task};
  if (!std::binary_search(observation.ready.begin(), observation.ready.end(), picked)) {
    return std::nullopt;
  }
  ++position_;
  return picked;
}

std::string RecordedPicks::state_line() const {
  return "recorded position=" + std::to_string(position_);
}

}  // namespace megatwin::policies
