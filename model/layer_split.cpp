#include "model/layer_split.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "model/assert.h"

namespace megatwin::model {
namespace {

int num_virtual_stages(const Plan& plan) { return plan.pipeline * plan.model_chunks; }

int num_layer_like(const Transformer& transformer, const Plan& plan) {
  return static_cast<int>(transformer.num_layers) + (plan.embedding_as_layer ? 1 : 0) +
         (plan.head_as_layer ? 1 : 0);
}

}  // namespace

std::vector<int> layers_of_virtual_stages(const Transformer& transformer, const Plan& plan) {
  if (!plan.layers_per_virtual_stage.empty()) return plan.layers_per_virtual_stage;
  const int stages = num_virtual_stages(plan);
  MEGATWIN_ASSERT(stages >= 1, stages);
  const int units = num_layer_like(transformer, plan);
  std::vector<int> layers(static_cast<std::size_t>(stages), units / stages);
  // The rest goes to the stages nearest the middle, the earlier one of two first.
  std::vector<int> by_distance(layers.size());
  std::iota(by_distance.begin(), by_distance.end(), 0);
  std::stable_sort(by_distance.begin(), by_distance.end(), [&](int a, int b) {
    return std::abs(2 * a - (stages - 1)) < std::abs(2 * b - (stages - 1));
  });
  for (int i = 0; i < units % stages; ++i) {
    ++layers[static_cast<std::size_t>(by_distance[static_cast<std::size_t>(i)])];
  }
  if (plan.embedding_as_layer) --layers.front();
  if (plan.head_as_layer) --layers.back();
  return layers;
}

bool is_layer_split_legal(const Transformer& transformer, const Plan& plan) {
  const int stages = num_virtual_stages(plan);
  if (plan.layers_per_virtual_stage.empty()) {
    const int units = num_layer_like(transformer, plan);
    return units % stages == 0 && units / stages > 0;
  }
  const std::vector<int>& layers = plan.layers_per_virtual_stage;
  const bool none_negative =
      std::all_of(layers.begin(), layers.end(), [](int n) { return n >= 0; });
  return static_cast<int>(layers.size()) == stages && none_negative &&
         std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == transformer.num_layers;
}

int stage_of_virtual_stage(const Plan& plan, int virtual_stage) {
  const bool runs_back = plan.schedule == ScheduleKind::ZeroBubbleV;
  if (runs_back && virtual_stage / plan.pipeline % 2 == 1) {
    return plan.pipeline - 1 - virtual_stage % plan.pipeline;
  }
  return virtual_stage % plan.pipeline;
}

std::vector<StageContents> contents_of_stages(const Transformer& transformer, const Plan& plan) {
  std::vector<StageContents> stages(static_cast<std::size_t>(plan.pipeline));
  const std::vector<int> layers = layers_of_virtual_stages(transformer, plan);
  const auto stage_at = [&](int virtual_stage) -> StageContents& {
    return stages[static_cast<std::size_t>(stage_of_virtual_stage(plan, virtual_stage))];
  };
  std::int64_t next_layer = 0;
  for (int j = 0; j < static_cast<int>(layers.size()); ++j) {
    for (int i = 0; i < layers[static_cast<std::size_t>(j)]; ++i) {
      stage_at(j).layers.push_back(next_layer++);
    }
  }
  StageContents& first = stage_at(0);
  first.has_embedding = true;
  StageContents& last = stage_at(static_cast<int>(layers.size()) - 1);
  last.has_head = true;
  last.has_mtp = transformer.num_mtp_layers > 0;
  return stages;
}

}  // namespace megatwin::model
