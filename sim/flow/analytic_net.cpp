#include <algorithm>

#include "sim/flow/flow_net.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

class AnalyticNet : public FlowNet {
 public:
  std::string_view name() const override { return "analytic"; }

  model::Result<std::vector<Seconds>> finish_times(const FlowSet& flows) const override {
    std::vector<Seconds> finish;
    finish.reserve(flows.size());
    for (FlowIndex i = 0; i < static_cast<FlowIndex>(flows.size()); ++i) {
      const Flow& flow = flows.flows()[static_cast<std::size_t>(i)];
      Seconds ready = flow.start;
      for (const FlowIndex before : flows.after(i)) {
        ready = std::max(ready, finish[static_cast<std::size_t>(before)]);
      }
      ready += flow.latency;
      double narrowest = 0;
      for (const std::int32_t link : flows.links_of(i)) {
        const double capacity = flows.capacities()[static_cast<std::size_t>(link)].value;
        narrowest = narrowest > 0 ? std::min(narrowest, capacity) : capacity;
      }
      if (narrowest > 0) ready += Seconds{flow.size.value / narrowest};
      finish.push_back(ready);
    }
    return finish;
  }
};

}  // namespace

std::unique_ptr<FlowNet> make_analytic_net() { return std::make_unique<AnalyticNet>(); }

Seconds last_of(const std::vector<Seconds>& finish) {
  Seconds last;
  for (const Seconds end : finish) last = std::max(last, end);
  return last;
}

}  // namespace megatwin::sim
