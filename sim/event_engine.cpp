#include "sim/event_engine.h"

#include <memory>
#include <string>
#include <vector>

#include "model/assert.h"
#include "sim/sim_backend.h"

namespace megatwin::sim {
namespace {

using policies::Executor;
using policies::OrderSource;

class EventRunner {
 public:
  explicit EventRunner(const EventRunSetup& setup)
      : setup_(setup),
        dynamic_(static_cast<bool>(setup.policy)),
        backend_(setup.costs, setup.programs, setup.links) {
    const std::size_t num_units = setup.costs.num_units();
    if (setup.log) {
      logs_.resize(num_units);
    }
    executors_.reserve(num_units);
    for (std::size_t unit = 0; unit < num_units; ++unit) {
      add_executor(unit);
    }
  }

  EventRun run() {
    EventRun result;
    backend_.start();
    while (backend_.has_event()) {
      const auto [unit, event] = backend_.next_event();
      executors_[unit].on_event(event);
      ++result.events;
    }
    result.events -= std::ssize(executors_);
    result.stalled = stalled();
    result.times = std::move(backend_).take_times();
    result.executed = std::move(backend_).take_executed_orders();
    result.logs = std::move(logs_);
    return result;
  }

 private:
  // Who can say why comes before who waits for it.
  std::vector<std::string> stalled() const {
    std::vector<std::string> causes, others;
    for (std::size_t unit = 0; unit < executors_.size(); ++unit) {
      if (executors_[unit].finished()) continue;
      const std::string why = dynamic_ ? executors_[unit].why_stopped() : "";
      (why.empty() ? others : causes)
          .push_back("rank " + std::to_string(unit) + ", stage " + std::to_string(stage_of(unit)) +
                     ", ran " + std::to_string(backend_.executed_orders()[unit].size()) + " of " +
                     std::to_string(program_of(unit).shape.num_tasks()) + " tasks; then " +
                     (why.empty() ? "nothing it may run came any more" : why));
    }
    causes.insert(causes.end(), others.begin(), others.end());
    return causes;
  }

  std::size_t stage_of(std::size_t unit) const {
    return unit % static_cast<std::size_t>(setup_.costs.shape.pipeline);
  }
  std::size_t shape_of(std::size_t unit) const {
    const std::size_t replica_class = unit / static_cast<std::size_t>(setup_.costs.shape.pipeline);
    return static_cast<std::size_t>(setup_.costs.shape_of_class[replica_class]);
  }
  const model::Program& program_of(std::size_t unit) const {
    return setup_.programs[shape_of(unit)][stage_of(unit)];
  }

  void add_executor(std::size_t unit) {
    const model::Program& program = program_of(unit);
    const model::RankId rank{static_cast<std::int32_t>(unit)};
    if (dynamic_) {
      policies_.push_back(setup_.policy(program, rank));
    }
    policies::ExecutorOptions options = setup_.executor;
    if (!setup_.memory_limits.empty()) {
      options.memory_limit = setup_.memory_limits[unit % setup_.memory_limits.size()];
    }
    executors_.emplace_back(policies::ExecutorSetup{
        .program = program,
        .rank = rank,
        .backend = backend_,
        .scratch = scratch_,
        .source = dynamic_ ? OrderSource::Policy : OrderSource::List,
        .order =
            dynamic_
                ? std::span<const model::TaskId>{}
                : std::span<const model::TaskId>{setup_.orders[shape_of(unit)][stage_of(unit)]},
        .policy = dynamic_ ? policies_.back().get() : nullptr,
        .options = options,
        .log = setup_.log ? &logs_[unit] : nullptr});
  }

  const EventRunSetup& setup_;
  bool dynamic_;
  SimBackend backend_;
  policies::ExecutorScratch scratch_;
  std::vector<std::unique_ptr<policies::Policy>> policies_;
  std::vector<model::ExecutorLog> logs_;
  std::vector<Executor> executors_;
};

}  // namespace

EventRun run_events(const EventRunSetup& setup) {
  MEGATWIN_ASSERT(setup.programs.size() == setup.costs.shapes.size(), setup.programs.size());
  MEGATWIN_ASSERT(setup.policy || setup.orders.size() == setup.costs.shapes.size(),
                  setup.orders.size());
  return EventRunner(setup).run();
}

}  // namespace megatwin::sim
