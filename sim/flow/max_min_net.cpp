#include <queue>
#include <utility>

#include "model/assert.h"
#include "sim/flow/flow_net.h"
#include "sim/flow/max_min_network.h"

namespace megatwin::sim {
namespace {

using model::Seconds;

// One run over a flow set: starts wait for their hour and for the flows before them.
class MaxMinRun {
 public:
  explicit MaxMinRun(const FlowSet& flows) : flows_(flows), network_(flows.capacities()) {
    const std::size_t count = flows.size();
    finish_.resize(count, Seconds{-1});
    waits_for_.resize(count);
    ready_.resize(count);
    followers_.resize(count);
    for (FlowIndex i = 0; i < static_cast<FlowIndex>(count); ++i) {
      ready_[as_index(i)] = flows.flows()[as_index(i)].start.value;
      waits_for_[as_index(i)] = static_cast<int>(flows.after(i).size());
      for (const FlowIndex before : flows.after(i)) followers_[as_index(before)].push_back(i);
      if (waits_for_[as_index(i)] == 0) enter(i);
    }
  }

  std::vector<Seconds> run() {
    std::vector<FlowIndex> ended;
    for (;;) {
      const std::optional<Seconds> end = network_.next_completion();
      if (starts_.empty() && !end) break;
      if (starts_.empty() || (end && end->value <= starts_.top().first)) {
        ended.clear();
        network_.advance(*end, ended);
        for (const FlowIndex flow : ended) complete(flow, network_.now());
      } else {
        start_all_at(starts_.top().first);
      }
    }
    for (const Seconds end : finish_) MEGATWIN_ASSERT(end.value >= 0, "a flow never ended");
    return std::move(finish_);
  }

 private:
  static std::size_t as_index(FlowIndex flow) { return static_cast<std::size_t>(flow); }

  void enter(FlowIndex flow) {
    starts_.emplace(ready_[as_index(flow)] + flows_.flows()[as_index(flow)].latency.value, flow);
  }

  void start_all_at(double time) {
    std::vector<FlowIndex> ended;
    network_.advance(Seconds{time}, ended);
    for (const FlowIndex flow : ended) complete(flow, network_.now());
    while (!starts_.empty() && starts_.top().first <= time) {
      const FlowIndex flow = starts_.top().second;
      starts_.pop();
      const model::Bytes size = flows_.flows()[as_index(flow)].size;
      const auto links = flows_.links_of(flow);
      if (size.value > 0 && !links.empty()) {
        network_.start(flow, size, links);
      } else {
        complete(flow, Seconds{time});
      }
    }
  }

  void complete(FlowIndex flow, Seconds time) {
    finish_[as_index(flow)] = time;
    for (const FlowIndex follower : followers_[as_index(flow)]) {
      double& ready = ready_[as_index(follower)];
      ready = std::max(ready, time.value);
      if (--waits_for_[as_index(follower)] == 0) enter(follower);
    }
  }

  using Start = std::pair<double, FlowIndex>;  // Equal times go by the flow's index.
  const FlowSet& flows_;
  MaxMinNetwork network_;
  std::priority_queue<Start, std::vector<Start>, std::greater<>> starts_;
  std::vector<Seconds> finish_;
  std::vector<int> waits_for_;
  std::vector<double> ready_;
  std::vector<std::vector<FlowIndex>> followers_;
};

class MaxMinNet : public FlowNet {
 public:
  std::string_view name() const override { return "maxmin"; }
  model::Result<std::vector<Seconds>> finish_times(const FlowSet& flows) const override {
    return MaxMinRun(flows).run();
  }
};

}  // namespace

std::unique_ptr<FlowNet> make_max_min_net() { return std::make_unique<MaxMinNet>(); }

}  // namespace megatwin::sim
