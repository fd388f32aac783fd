// The legal plans of a search space, each as a few bytes: one index a key into the space's lists.
// Plans that mean the same (an overlap switch without the traffic, a schedule without a pipeline)
// are listed once.
#ifndef MEGATWIN_SIM_SEARCH_PLAN_LIST_H_
#define MEGATWIN_SIM_SEARCH_PLAN_LIST_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "model/job.h"
#include "model/plan.h"
#include "sim/search/search_space.h"

namespace megatwin::sim {

// Indices into the lists of a SearchSpace, by SpaceKey. `Data` follows from the others.
struct PlanCode {
  std::array<std::uint16_t, kNumSpaceKeys> index{};

  std::uint16_t& operator[](SpaceKey key) { return index[static_cast<std::size_t>(key)]; }
  std::uint16_t operator[](SpaceKey key) const { return index[static_cast<std::size_t>(key)]; }
  friend auto operator<=>(const PlanCode&, const PlanCode&) = default;
};

// The plan of a code: the job's plan with the space's values, the number of replicas from the
// cluster, layers as deal_layers() deals them.
// `data` is 0 where no whole number of replicas exists.
model::Plan plan_of(const model::Job& job, const SearchSpace& space, const PlanCode& code);

// Whether anything of the plan depends on a key: a schedule does nothing without a pipeline.
bool bears_on(const model::Job& job, const model::Plan& plan, SpaceKey key);

// Deals the layers of a plan whose pipeline or chunks were changed; `origin` is the plan whose own
// split is kept where its shape is. Where `split` cannot be, or comes out even, as
// LayerSplit::Even.
void deal_layers(const model::Job& job, const model::Plan& origin, LayerSplit split,
                 model::Plan& plan);

// A part of the space whose plans share everything that a single task costs: tensor, context and
// expert sizes, micro-batch, recomputation, precision. Work is handed out by these.
struct PlanFamily {
  PlanCode code;  // The other keys are 0.
};
std::vector<PlanFamily> plan_families(const model::Job& job, const SearchSpace& space);

// The ways to deal layers over stages and chunks, each once, by the few things that they depend on;
// kept from family to family. Of one job and space. Not thread-safe: one a thread.
class LayerSplits {
 public:
  // A plan with layers dealt as SearchSpace::layers[index] says.
  struct Dealt {
    std::uint16_t index;
    model::Plan plan;
  };
  // Those that are legal for plans of this shape.
  const std::vector<Dealt>& of(const model::Job& job, const SearchSpace& space,
                               const model::Plan& plan);
  // As plan_of() says. Requires: the code is of a legal plan.
  model::Plan plan_of(const model::Job& job, const SearchSpace& space, const PlanCode& code);

 private:
  using Key = std::tuple<int, int, model::ScheduleKind, bool>;
  std::map<Key, std::vector<Dealt>> dealt_;
};

// Calls `visit` for each legal plan of the family, in a fixed order; plans that share their
// data-parallel traffic follow each other, and among those such that differ in sends only.
void for_each_plan(const model::Job& job, const SearchSpace& space, const PlanFamily& family,
                   LayerSplits& splits,
                   const std::function<void(const PlanCode&, const model::Plan&)>& visit);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_PLAN_LIST_H_
