#include <limits>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

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
    routes_.assign(flows.num_ways(), -1);
    leads_.resize(flows.num_ways());
    std::iota(leads_.begin(), leads_.end(), WayIndex{0});
    index_followers();
    for (FlowIndex i = 0; i < static_cast<FlowIndex>(count); ++i) {
      ready_[as_index(i)] = flows.flows()[as_index(i)].start.value;
      waits_for_[as_index(i)] = static_cast<int>(flows.after(i).size());
      if (waits_for_[as_index(i)] == 0) enter(i);
    }
  }

  std::vector<Seconds> run() {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    for (;;) {
      const std::optional<Seconds> end = network_.next_completion();
      if (starts_.empty() && !end) break;
      double start = kNever, change = kNever;
      if (!starts_.empty()) start = starts_.top().first;
      if (next_change_ < flows_.changes().size()) change = flows_.changes()[next_change_].at.value;
      if (end && end->value <= std::min(start, change)) {
        advance(end->value);
      } else if (change <= start) {
        change_at(change);
      } else {
        start_all_at(start);
      }
    }
    for (const Seconds end : finish_) MEGATWIN_ASSERT(end.value >= 0, "a flow never ended");
    return std::move(finish_);
  }

 private:
  static std::size_t as_index(FlowIndex flow) { return static_cast<std::size_t>(flow); }

  // Who waits for whom, all in one array: followers of flow i from first_follower_[i] on.
  void index_followers() {
    const std::size_t count = flows_.size();
    first_follower_.assign(count + 1, 0);
    for (FlowIndex i = 0; i < static_cast<FlowIndex>(count); ++i) {
      for (const FlowIndex before : flows_.after(i)) ++first_follower_[as_index(before) + 1];
    }
    for (std::size_t i = 0; i < count; ++i) first_follower_[i + 1] += first_follower_[i];
    followers_.resize(first_follower_.back());
    std::vector<std::size_t> next(first_follower_.begin(), first_follower_.end() - 1);
    for (FlowIndex i = 0; i < static_cast<FlowIndex>(count); ++i) {
      for (const FlowIndex before : flows_.after(i)) followers_[next[as_index(before)]++] = i;
    }
  }

  std::int32_t route_of(WayIndex way) {
    const WayIndex leads = leads_[as_index(way)];
    std::int32_t& route = routes_[as_index(leads)];
    if (route < 0) route = network_.route(flows_.links_on(leads));
    return route;
  }

  void advance(double time) {
    ended_.clear();
    network_.advance(Seconds{time}, ended_);
    for (const FlowIndex flow : ended_) complete(flow, network_.now());
  }

  void change_at(double time) {
    advance(time);
    const std::vector<FlowChange>& changes = flows_.changes();
    for (; next_change_ < changes.size() && changes[next_change_].at.value <= time;
         ++next_change_) {
      const FlowChange& change = changes[next_change_];
      if (change.link >= 0) {
        network_.set_capacity(change.link, change.capacity);
      } else {
        lead(change.way, change.leads);
      }
    }
  }

  // Flows of `way` go on over other links; those of other ways over the same links stay.
  void lead(WayIndex way, WayIndex leads) {
    const WayIndex before = std::exchange(leads_[as_index(way)], leads);
    if (before == 0 || routes_[as_index(before)] < 0) return;
    const std::int32_t left = routes_[as_index(before)];
    for (const auto& [flow, size] : network_.take_all(left)) {
      if (flows_.flows()[as_index(flow)].way != way) {
        network_.start_on(flow, size, left);
      } else if (leads == 0) {
        complete(flow, network_.now());
      } else {
        network_.start_on(flow, size, route_of(way));
      }
    }
  }

  void enter(FlowIndex flow) {
    starts_.emplace(ready_[as_index(flow)] + flows_.flows()[as_index(flow)].latency.value, flow);
  }

  void start_all_at(double time) {
    advance(time);
    while (!starts_.empty() && starts_.top().first <= time) {
      const FlowIndex flow = starts_.top().second;
      starts_.pop();
      const Flow& started = flows_.flows()[as_index(flow)];
      if (started.size.value > 0 && leads_[as_index(started.way)] != 0) {
        network_.start_on(flow, started.size, route_of(started.way));
      } else {
        complete(flow, Seconds{time});
      }
    }
  }

  void complete(FlowIndex flow, Seconds time) {
    finish_[as_index(flow)] = time;
    for (std::size_t f = first_follower_[as_index(flow)]; f < first_follower_[as_index(flow) + 1];
         ++f) {
      const FlowIndex follower = followers_[f];
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
  std::vector<std::size_t> first_follower_;
  std::vector<FlowIndex> followers_;
  std::vector<std::int32_t> routes_;  // Of the network, by way.
  std::vector<WayIndex> leads_;       // Whose links a way has at present.
  std::vector<FlowIndex> ended_;
  std::size_t next_change_ = 0;
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
