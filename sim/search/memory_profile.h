// What a static schedule holds at once, without costs: for each kind of stage the combinations of
// live buffers that can be the peak. With them the peak of a plan is a few products, however many
// micro-batches it has; the same bytes as the planner finds by walking the whole order.
#ifndef MEGATWIN_SIM_SEARCH_MEMORY_PROFILE_H_
#define MEGATWIN_SIM_SEARCH_MEMORY_PROFILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "model/plan.h"
#include "model/program/pipeline_shape.h"
#include "sim/search/chunk_layout.h"
#include "sim/search/plan_pricer.h"

namespace megatwin::sim {

class MemoryProfile {
 public:
  // Requires: a static schedule that is legal for the plan.
  MemoryProfile(const model::Plan& plan, const ChunkLayout& layout);

  // The most that stages of this kind hold at once above what they always hold.
  model::Bytes peak_buffers(int kind, const model::StageCost& cost) const;

 private:
  // Live buffers by kind of buffer, then content: activations, inputs of weight gradients,
  // transients of forward, of backward.
  using Counts = std::vector<std::int32_t>;
  void add_stage(const ChunkLayout& layout, int stage,
                 const std::vector<std::vector<model::TaskId>>& orders,
                 const model::PipelineShape& shape);

  struct Kind {
    std::vector<int> chunk_of_content;  // A chunk of the stage with this content, or −1.
    std::vector<Counts> peaks;          // None is at least another in everything.
  };
  std::vector<Kind> kinds_;
};

// Profiles by what they depend on. Not thread-safe: one a thread.
class MemoryProfiles {
 public:
  const MemoryProfile& get(const model::Plan& plan, const ChunkLayout& layout);

 private:
  using Key = std::tuple<const ChunkLayout*, model::ScheduleKind, std::int64_t>;
  std::map<Key, MemoryProfile> profiles_;
};

// Most memory that any rank of the job's plan needs, as sim::simulate() reports it.
model::Bytes memory_peak(const model::Job& job, const PricedPlan& priced,
                         const MemoryProfile& profile);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_MEMORY_PROFILE_H_
