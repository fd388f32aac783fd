#include "policies/dynamic_pipeline.h"

#include <algorithm>
#include <tuple>

namespace megatwin::policies {
namespace {

using model::Task;
using model::TaskKind;

// Kind first: gradients that others wait for, forwards, weight gradients; or a forward in its turn.
int urgency(TaskKind kind, bool forward_has_its_turn) {
  if (carries_gradient(kind)) {
    return 1;
  }
  if (kind == TaskKind::Forward) {
    return forward_has_its_turn ? 0 : 2;
  }
  return 3;
}

// What comes first has the smallest key. Backwards run through the chunks the other way.
using Key = std::tuple<int, std::int32_t, std::int32_t>;
struct KeyRule {
  Traversal traversal = Traversal::BreadthFirst;
  bool forward_has_its_turn = false;
  int model_chunks = 1;
};
Key key_of(const Task& task, const KeyRule& rule) {
  const int kind = urgency(task.kind, rule.forward_has_its_turn);
  const std::int32_t position =
      task.kind == TaskKind::Forward ? task.chunk.value : rule.model_chunks - 1 - task.chunk.value;
  if (rule.traversal == Traversal::BreadthFirst) {
    return {kind, position, task.micro_batch.value};
  }
  return {kind, task.micro_batch.value, position};
}

// What one micro-batch can hold on this rank: every chunk's activation, or what is left of it.
model::Bytes bytes_of_micro_batch(const model::Program& program) {
  model::Bytes sum{0};
  for (const model::ChunkMemory& memory : program.chunk_memory) {
    sum += std::max(memory.activation, memory.weight_gradient_input);
  }
  return sum;
}

}  // namespace

std::optional<model::TaskId> DynamicPipelinePolicy::pick(const Observation& observation) {
  const model::PipelineShape& shape = observation.program.shape;
  const bool may_enter = admits(observation);
  const KeyRule rule{options_.traversal,
                     options_.traversal == Traversal::BreadthFirst && after_gradient_,
                     shape.model_chunks};
  std::optional<model::TaskId> best;
  Key best_key;
  for (const model::TaskId id : observation.ready) {
    const Task& task = observation.program.tasks[static_cast<std::size_t>(id.value)];
    if (task.kind == TaskKind::Forward && task.chunk.value == 0 && !may_enter) {
      continue;
    }
    const Key key = key_of(task, rule);
    if (!best || key < best_key) {
      best = id;
      best_key = key;
    }
  }
  if (!best) {
    return std::nullopt;
  }
  const Task& task = observation.program.tasks[static_cast<std::size_t>(best->value)];
  after_gradient_ = carries_gradient(task.kind);
  if (task.kind == TaskKind::Forward && task.chunk.value == 0) {
    ++entered_;
  }
  if (task.kind == shape.last_kind()) {
    ++finished_;
  }
  return best;
}

// A micro-batch that has entered holds a place for each of its chunks until that is finished.
bool DynamicPipelinePolicy::admits(const Observation& observation) const {
  const model::Program& program = observation.program;
  const int chunks = program.shape.model_chunks;
  const int held = entered_ * chunks - finished_;
  if (options_.live_activations_max > 0 && held + chunks > options_.live_activations_max) {
    return false;
  }
  // Whole micro-batches count in bytes: which chunks of those that have entered are finished is not
  // kept.
  const int micro_batches_held = (held + chunks - 1) / chunks;
  return program.fixed_memory +
             static_cast<double>(micro_batches_held + 1) * bytes_of_micro_batch(program) <=
         observation.memory_limit;
}

std::string DynamicPipelinePolicy::state_line() const {
  return std::string("dpp ") +
         (options_.traversal == Traversal::BreadthFirst ? "breadth" : "depth") +
         " max=" + std::to_string(options_.live_activations_max) +
         (after_gradient_ ? " after gradient" : "") + " entered=" + std::to_string(entered_) +
         " finished=" + std::to_string(finished_);
}

PolicyFactory dynamic_pipeline_factory(const DynamicPipelineOptions& options) {
  return [options](const model::Program&, model::RankId) {
    return std::make_unique<DynamicPipelinePolicy>(options);
  };
}

}  // namespace megatwin::policies
