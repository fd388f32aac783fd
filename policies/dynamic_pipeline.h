// Dynamic pipeline planning: instead of following a list, each rank runs what has arrived,
// gradients first, then forwards along a traversal of the (micro-batch, chunk) matrix, then weight
// gradients.
//
// Breadth first takes all micro-batches of a chunk before the next chunk: messages have the most
// time to arrive, and a chunk's gradients are complete early; every activation may be live at once.
// A forward has its turn after each gradient, so that later ranks keep being fed.
// Depth first takes a micro-batch through all chunks before the next: backwards start early and
// fewer activations are live. Both bound what they hold by admission: a micro-batch enters the rank
// only if all its activations fit, so that one which has entered can always go on, and ranks cannot
// wait for each other's memory.
// Source: the traversals of MegaDPP (Megatron-LM fork of OpenSQZ), whose code has breadth first
// without a bound only.
#ifndef MEGATWIN_POLICIES_DYNAMIC_PIPELINE_H_
#define MEGATWIN_POLICIES_DYNAMIC_PIPELINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "policies/policy.h"

namespace megatwin::policies {

// Whether the task makes a gradient that another stage waits for.
constexpr bool carries_gradient(model::TaskKind kind) {
  return kind == model::TaskKind::Backward || kind == model::TaskKind::BackwardInput;
}

enum class Traversal { DepthFirst, BreadthFirst };

struct DynamicPipelineOptions {
  Traversal traversal = Traversal::BreadthFirst;
  // Activations, one a (micro-batch, chunk), that a rank holds at once: at least its chunks, and
  // the same on all ranks when receive slots are limited, else a micro-batch that may not enter yet
  // can take the slot of one that may go on. 0: as many as the memory limit of the Executor allows.
  int live_activations_max = 0;
};

class DynamicPipelinePolicy : public Policy {
 public:
  explicit DynamicPipelinePolicy(const DynamicPipelineOptions& options) : options_(options) {}

  std::optional<model::TaskId> pick(const Observation& observation) override;
  std::string state_line() const override;

 private:
  bool admits(const Observation& observation) const;

  DynamicPipelineOptions options_;
  bool after_gradient_ = false;
  std::int32_t entered_ = 0;   // Micro-batches whose first forward was picked.
  std::int32_t finished_ = 0;  // (micro-batch, chunk) whose last task was picked.
};

PolicyFactory dynamic_pipeline_factory(const DynamicPipelineOptions& options);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_DYNAMIC_PIPELINE_H_
