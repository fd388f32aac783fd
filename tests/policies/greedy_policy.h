// A small dynamic policy for tests: backwards first, then the forward that is furthest through the
// model, and the weight gradients when nothing else is there.
#ifndef MEGATWIN_TESTS_POLICIES_GREEDY_POLICY_H_
#define MEGATWIN_TESTS_POLICIES_GREEDY_POLICY_H_

#include <memory>
#include <optional>
#include <string>

#include "policies/policy.h"

namespace megatwin::tests {

class GreedyPolicy : public policies::Policy {
 public:
  std::optional<model::TaskId> pick(const policies::Observation& observation) override {
    std::optional<model::TaskId> best;
    int best_rank = -1;
    for (const model::TaskId id : observation.ready) {
      const int rank = rank_of(observation.program.tasks[static_cast<std::size_t>(id.value)],
                               observation.program.shape.model_chunks);
      if (rank <= best_rank) continue;
      best = id;
      best_rank = rank;
    }
    ++picks_;
    last_ = best ? best->value : -1;
    return best;
  }

  std::string state_line() const override {
    return "greedy picks=" + std::to_string(picks_) + " last=" + std::to_string(last_);
  }

 private:
  static int rank_of(const model::Task& task, int model_chunks) {
    switch (task.kind) {
      case model::TaskKind::Backward:
      case model::TaskKind::BackwardInput:
        return 2 * model_chunks - task.chunk.value;
      case model::TaskKind::Forward:
        return 1 + task.chunk.value;
      case model::TaskKind::BackwardWeight:
      case model::TaskKind::Recompute:
        return 0;
    }
    return 0;
  }

  int picks_ = 0;
  std::int32_t last_ = -1;
};

inline policies::PolicyFactory greedy_factory() {
  return [](const model::Program&, model::RankId) { return std::make_unique<GreedyPolicy>(); };
}

// Never picks anything.
class IdlePolicy : public policies::Policy {
 public:
  std::optional<model::TaskId> pick(const policies::Observation&) override { return {}; }
  std::string state_line() const override { return "idle"; }
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_POLICIES_GREEDY_POLICY_H_
