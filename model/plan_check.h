// Whether a plan can run at all: every reason why not, at once, each with the keys and the numbers
// to change; and what is legal yet likely not meant. Memory is not looked at: a legal plan may
// still not fit. nearest_plans.h finds plans that are legal.
#ifndef MEGATWIN_MODEL_PLAN_CHECK_H_
#define MEGATWIN_MODEL_PLAN_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "model/hardware.h"
#include "model/layer_split.h"
#include "model/plan.h"
#include "model/software_stack.h"
#include "model/transformer.h"

namespace megatwin::model {

// What of a plan a problem is about: the keys that can mend it.
enum class PlanKey {
  Tensor,
  Pipeline,
  ModelChunks,
  Context,
  Expert,
  ExpertTensor,
  Data,
  MicroBatch,
  GlobalBatch,
  SequenceParallel,
  Zero,
  Recompute,
  Precision,
  Schedule,
  Layers,
  Overlap,
  RankOrder,
  Lists,  // tensor_per_stage, micro_batches_per_replica, precision_per_group.
  Other,  // Nothing that a search should vary.
};

struct PlanProblem {
  std::vector<PlanKey> keys;
  std::string text;
};

// Replicas when `data` is 0 (automatic): GPUs / (t·p·c), when whole.
std::optional<int> data_from_gpus(const Plan& plan, int num_gpus);

// All reasons why the plan is illegal, empty when it is legal. `data` 0 is automatic and a problem
// only when no whole number of replicas exists.
std::vector<PlanProblem> check_plan(const Transformer& transformer, const Plan& plan,
                                    const Cluster& cluster, const SoftwareStack& software);
// The texts of check_plan().
std::vector<std::string> plan_problems(const Transformer& transformer, const Plan& plan,
                                       const Cluster& cluster, const SoftwareStack& software);

// What is legal but slow, without effect, or dependent on a version.
// Requires: plan_problems() is empty.
std::vector<std::string> plan_warnings(const Transformer& transformer, const Plan& plan,
                                       const Cluster& cluster, const SoftwareStack& software);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PLAN_CHECK_H_
