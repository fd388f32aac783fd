#include "exec/run_log.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

#include "model/fnv_hash.h"
#include "model/program/program_builder.h"
#include "policies/replay.h"

namespace megatwin::exec {
namespace {

// Eight bytes at a time.
class Hash {
 public:
  void add(std::uint64_t number) { hash_.add_whole(number); }
  void add(model::Bytes bytes) { add(std::bit_cast<std::uint64_t>(bytes.value)); }
  std::uint64_t value() const { return hash_.value(); }

 private:
  model::FnvHash hash_;
};

std::string difference_of(const policies::Replay& again, const model::ExecutorLog& log) {
  if (!again.divergence.empty()) {
    return again.divergence;
  }
  const std::size_t common = std::min(again.decisions.size(), log.decisions.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (again.decisions[i] != log.decisions[i]) {
      return "decision " + std::to_string(i) + " is " + std::to_string(again.decisions[i].task) +
             " after event " + std::to_string(again.decisions[i].after_event) + ", the log has " +
             std::to_string(log.decisions[i].task) + " after event " +
             std::to_string(log.decisions[i].after_event);
    }
  }
  return again.decisions.size() == log.decisions.size()
             ? ""
             : std::to_string(again.decisions.size()) + " decisions, the log has " +
                   std::to_string(log.decisions.size());
}

bool is_announced(const model::ExecutorLog& log) {
  return std::any_of(log.events.begin(), log.events.end(), [](const model::ExecutorEvent& event) {
    return event.kind == model::ExecutorEventKind::OrderAnnounced;
  });
}

}  // namespace

namespace {

void add_to(Hash& hash, const model::ProgramSpec& spec) {
  for (const int number :
       {spec.pipeline, spec.model_chunks, spec.micro_batches, static_cast<int>(spec.schedule),
        spec.micro_batch_group, int{spec.overlap_grad_reduce}, int{spec.overlap_param_gather}}) {
    hash.add(static_cast<std::uint64_t>(number));
  }
  for (const model::StageCost& stage : spec.stages) {
    for (const model::ChunkCost& chunk : stage.chunks) {
      hash.add(chunk.activation);
      hash.add(chunk.weight_gradient_input);
      hash.add(chunk.forward_transient);
      hash.add(chunk.backward_transient);
    }
    hash.add(stage.parameters);
    hash.add(stage.optimizer_state);
  }
  for (const auto& order : spec.orders) {
    for (const std::string& token : order) {
      for (const char c : token) hash.add(static_cast<unsigned char>(c));
    }
  }
  if (spec.side == model::PipelineSide::Both) return;
  hash.add(static_cast<std::uint64_t>(spec.feed));
  if (spec.weight_share > 0) hash.add(std::bit_cast<std::uint64_t>(spec.weight_share));
  hash.add(static_cast<std::uint64_t>(spec.instances.forward));
  hash.add(static_cast<std::uint64_t>(spec.instances.backward));
  for (const model::SideCrossing& crossing : spec.crossings) {
    hash.add(static_cast<std::uint64_t>(crossing.fed_max));
  }
}

}  // namespace

std::uint64_t program_hash(const std::vector<model::ProgramSpec>& specs) {
  Hash hash;
  for (const model::ProgramSpec& spec : specs) add_to(hash, spec);
  return hash.value();
}

traces::RunLog run_log(const HostJob& job, const std::string& policy_name,
                       const HostResult& result) {
  traces::RunLog log{.program_hash = program_hash(host_program_specs(job)),
                     .policy = job.policy ? policy_name : "list",
                     .issue_depth = job.executor.issue_depth,
                     .receive_slots = job.executor.receive_slots,
                     .memory_limit = job.executor.memory_limit,
                     .gradients_in_order = job.executor.gradients_in_order};
  for (const HostRankReport& rank : result.ranks) {
    for (std::size_t i = 0; i < rank.logs.size(); ++i) {
      log.steps.push_back({.rank = rank.rank,
                           .stage = rank.stage,
                           .step = job.first_step + static_cast<int>(i),
                           .log = rank.logs[i]});
    }
  }
  return log;
}

policies::ExecutorOptions executor_options(const traces::RunLog& log) {
  return {.issue_depth = log.issue_depth,
          .memory_limit = log.memory_limit,
          .receive_slots = log.receive_slots,
          .gradients_in_order = log.gradients_in_order};
}

std::vector<ReplayedStep> replay_log(const std::vector<model::ProgramSpec>& specs,
                                     const traces::RunLog& log,
                                     const policies::PolicyFactory& policy) {
  const std::vector<model::Program> programs = model::build_programs(specs);
  const std::vector<policies::Order> orders =
      policy ? std::vector<policies::Order>(programs.size()) : policies::schedule_orders(specs);
  std::vector<ReplayedStep> replayed;
  for (const traces::LoggedStep& step : log.steps) {
    const auto stage = static_cast<std::size_t>(step.stage.value);
    const bool announced = policy && is_announced(step.log);
    const auto own_policy = policy && !announced ? policy(programs[stage], step.rank) : nullptr;
    const policies::Replay again =
        policies::replay({.program = programs[stage],
                          .source = !policy     ? policies::OrderSource::List
                                    : announced ? policies::OrderSource::Announced
                                                : policies::OrderSource::Policy,
                          .order = orders[stage],
                          .policy = own_policy.get(),
                          .options = executor_options(log)},
                         step.log.events);
    replayed.push_back({.rank = step.rank,
                        .step = step.step,
                        .events = step.log.events.size(),
                        .decisions = step.log.decisions.size(),
                        .difference = difference_of(again, step.log)});
  }
  return replayed;
}

policies::PolicyFactory recorded_policy(const traces::RunLog& log) {
  // Of each rank the steps, and how many were asked for: each rank asks from its own thread.
  struct Rank {
    std::vector<const model::ExecutorLog*> steps;
    std::size_t next = 0;
  };
  const auto ranks = std::make_shared<std::map<model::RankId, Rank>>();
  for (const traces::LoggedStep& step : log.steps) {
    (*ranks)[step.rank].steps.push_back(&step.log);
  }
  return [ranks](const model::Program&, model::RankId id) {
    const auto found = ranks->find(id);
    std::span<const model::DecisionRecord> decisions;
    if (found != ranks->end() && found->second.next < found->second.steps.size()) {
      decisions = found->second.steps[found->second.next++]->decisions;
    }
    return std::make_unique<policies::RecordedPicks>(decisions);
  };
}

}  // namespace megatwin::exec
