#include <algorithm>

#include "sim/flow/flow_net.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

// What one flow finds on its way as time goes on.
class LoneFlow {
 public:
  LoneFlow(const FlowSet& flows, FlowIndex flow)
      : flows_(flows), way_(flows.flows()[static_cast<std::size_t>(flow)].way), leads_(way_) {}

  // When `size` bytes that begin at `start` are through.
  double end_of(double size, double start) {
    for (const FlowChange& change : flows_.changes()) {
      if (leads_ == 0) return start;
      const double at = change.at.value;
      const double rate = narrowest();
      if (at > start) {
        if (start + size / rate <= at) break;
        size -= rate * (at - start);
        start = at;
      }
      apply(change);
    }
    return leads_ == 0 ? start : start + size / narrowest();
  }

 private:
  void apply(const FlowChange& change) {
    if (change.link >= 0) {
      if (capacities_.empty()) capacities_ = flows_.capacities();
      capacities_[static_cast<std::size_t>(change.link)] = change.capacity;
    } else if (change.way == way_) {
      leads_ = change.leads;
    }
  }

  double narrowest() const {
    const auto& capacities = capacities_.empty() ? flows_.capacities() : capacities_;
    double least = 0;
    for (const std::int32_t link : flows_.links_on(leads_)) {
      const double capacity = capacities[static_cast<std::size_t>(link)].value;
      least = least > 0 ? std::min(least, capacity) : capacity;
    }
    return least;
  }

  const FlowSet& flows_;
  WayIndex way_, leads_;
  std::vector<model::BytesPerSecond> capacities_;  // Empty until one changes.
};

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
      if (flow.way != 0 && flow.size.value > 0) {
        ready = Seconds{LoneFlow(flows, i).end_of(flow.size.value, ready.value)};
      }
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
