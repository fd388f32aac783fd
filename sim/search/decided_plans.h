// Schedules that decide while the step runs (dpp) and decoupled ones (fbd) in a search. No closed
// form ranks them: they are simulated by events for the sizes of the best fixed orders, and for
// those only.
#ifndef MEGATWIN_SIM_SEARCH_DECIDED_PLANS_H_
#define MEGATWIN_SIM_SEARCH_DECIDED_PLANS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/plan.h"
#include "sim/search/search_space.h"

namespace megatwin::sim {

constexpr bool is_decided(model::ScheduleKind kind) {
  return model::is_dynamic(kind) || kind == model::ScheduleKind::Decoupled;
}

// The first `count` plans of this kind that are legal: the file's own first, when it is of that
// kind; then those with the sizes of `next()`, each once, until that gives none. A decoupled
// plan has as many replicas as its two sides leave.
std::vector<model::Plan> decided_plans(const model::Job& job, model::ScheduleKind kind,
                                       std::size_t count,
                                       const std::function<std::optional<model::Plan>()>& next);

// What a search of this space leaves out of what the file asks for, a sentence each.
std::vector<std::string> not_searched(const model::Job& job, const SearchSpace& space);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_DECIDED_PLANS_H_
