// Which plans a search looks at: the values that each key of the plan may take. Made from the job
// (its file's plan is the baseline) and the `search:` section; what that section does not bound
// takes every value that can matter on the cluster. Legality is decided plan by plan elsewhere.
#ifndef MEGATWIN_SIM_SEARCH_SEARCH_SPACE_H_
#define MEGATWIN_SIM_SEARCH_SEARCH_SPACE_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "model/result.h"
#include "scenarios/scenario.h"

namespace megatwin::sim {

struct RecomputeChoice {
  model::RecomputeKind kind = model::RecomputeKind::None;
  int layers = 0;  // Full: the first n layers of a chunk; 0: all.
  friend constexpr auto operator<=>(const RecomputeChoice&, const RecomputeChoice&) = default;
};

// How layers are dealt over the virtual stages.
enum class LayerSplit {
  Even,  // The file's own where its shape is kept; else even, else with embedding and head as
         // layers, else as evenly as goes. None is dropped.
  Ends,  // Embedding and head count as a layer each.
  Auto,  // By work: fewer layers where the head is (model/balanced_layers.h).
};

// Every list of a dimension holds at least one value, none twice. `data` may be empty: whatever is
// left.
struct SearchSpace {
  std::vector<int> tensor, pipeline, model_chunks, context, expert;
  std::vector<int> expert_tensor;  // 0 follows the tensor-parallel size.
  std::vector<int> data;
  std::vector<std::int64_t> micro_batch, global_batch;
  std::vector<bool> sequence_parallel;
  std::vector<int> zero;
  std::vector<RecomputeChoice> recompute;
  std::vector<model::Precision> precision;
  std::vector<model::ExpertDispatcher> dispatcher;
  std::vector<model::ScheduleKind> schedule;
  std::vector<bool> overlap_grad_reduce, overlap_param_gather, overlap_tensor_parallel, overlap_p2p;
  std::vector<std::string> rank_order;  // Placement: which ranks are neighbours.
  std::vector<LayerSplit> layers;
  // No dimension: schedules without a fixed order, for finalists (decided_plans.h). May be empty.
  std::vector<model::ScheduleKind> decided;
};

// The keys of SearchSpace, in the words of the scenario.
enum class SpaceKey {
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
  Dispatcher,
  Schedule,
  OverlapGradReduce,
  OverlapParamGather,
  OverlapTensorParallel,
  OverlapP2p,
  RankOrder,
  Layers,
};
constexpr int kNumSpaceKeys = static_cast<int>(SpaceKey::Layers) + 1;
std::string_view name_of(SpaceKey key);

// The value that a plan has, as a scenario would write it.
std::string value_text(const model::Plan& plan, SpaceKey key);

// Gives `to` the value that `from` has.
void copy_value(const model::Plan& from, SpaceKey key, model::Plan& to);

// Everything that may be tried for `job` when nothing is asked for. Precision and global batch stay
// as they are: they change what is trained, not how.
SearchSpace whole_space(const model::Job& job);

// whole_space() with what `request` fixes and lists.
// Errors: a value that the key cannot take, with the key and what it can.
model::Result<SearchSpace> search_space(const model::Job& job,
                                        const scenarios::SearchRequest& request);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_SEARCH_SPACE_H_
