// Flows that share links fairly, moved forward in time by whoever drives it: the incremental heart
// of the maxmin FlowNet, for an event engine as well. Rates are max-min fair at every moment: no
// flow can have more without taking from one that has as little or less. Flows of one route are one
// variable; a change solves anew only what hangs together with it.
// Source of the fairness: Bertsekas and Gallager, "Data Networks", 1992, section 6.5.2.
#ifndef MEGATWIN_SIM_FLOW_MAX_MIN_NETWORK_H_
#define MEGATWIN_SIM_FLOW_MAX_MIN_NETWORK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "model/units.h"

namespace megatwin::sim {

class MaxMinNetwork {
 public:
  using FlowNumber = std::int32_t;  // The caller's own name of a flow.

  explicit MaxMinNetwork(std::vector<model::BytesPerSecond> capacities);

  // From now on `flow` moves `size` over `links`. Takes effect before time next moves.
  // Requires: size > 0, at least one link.
  void start(FlowNumber flow, model::Bytes size, std::span<const std::int32_t> links);
  // The same on a route that was asked for by its links before.
  std::int32_t route(std::span<const std::int32_t> links) { return bundle_of(links); }
  void start_on(FlowNumber flow, model::Bytes size, std::int32_t route);

  // From now on the link carries this much. Requires: above 0.
  void set_capacity(std::int32_t link, model::BytesPerSecond capacity);
  // Ends all flows of a route early and says what each had left, the next to end first.
  struct Left {
    FlowNumber flow;
    model::Bytes size;
  };
  std::vector<Left> take_all(std::int32_t route);

  // When the next flow ends, if nothing else happens.
  std::optional<model::Seconds> next_completion();

  // Moves time to `now` and appends the flows that end there, ascending. Ends closer together than
  // 1e-12 of the time are one moment, so that equal flows cost one solution, not many.
  // Requires: now at or after the present, not after next_completion().
  void advance(model::Seconds now, std::vector<FlowNumber>& ended);

  model::Seconds now() const { return model::Seconds{now_}; }
  // Of a flow on these links, at this moment.
  model::BytesPerSecond rate_of(std::span<const std::int32_t> links);

 private:
  struct Pending {
    double served_at_end;  // Of its bundle's served bytes.
    FlowNumber flow;
    friend bool operator>(const Pending& a, const Pending& b) {
      if (a.served_at_end != b.served_at_end) return a.served_at_end > b.served_at_end;
      return a.flow > b.flow;
    }
  };
  // All flows of one route. Each has moved `served` bytes since the bundle was last empty, give or
  // take when it joined.
  struct Bundle {
    std::vector<std::int32_t> links;
    std::vector<std::int32_t> position;  // In the list of each link.
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending;
    double served = 0;
    double since = 0;  // When `served` was right.
    double rate = 0;   // Of each flow.
    std::int32_t version = 0;
    bool fixed = false;
    bool collected = false;
  };
  struct Link {
    double capacity = 0;
    std::vector<std::int32_t> bundles;  // With flows in them.
    double left = 0;                    // While solving.
    double flows_left = 0;
    std::int32_t version = 0;
    bool collected = false;
  };
  struct Completion {
    double time;
    std::int32_t bundle;
    std::int32_t version;
    friend bool operator>(const Completion& a, const Completion& b) {
      return a.time != b.time ? a.time > b.time : a.bundle > b.bundle;
    }
  };
  struct Share {
    double value;
    std::int32_t link;
    std::int32_t version;
    friend bool operator>(const Share& a, const Share& b) {
      return a.value != b.value ? a.value > b.value : a.link > b.link;
    }
  };

  std::int32_t bundle_of(std::span<const std::int32_t> links);
  void join_links(std::int32_t bundle);
  void leave_links(std::int32_t bundle);
  void touch(const Bundle& bundle);
  void catch_up(Bundle& bundle) const;
  void solve();
  void collect();
  void fill();
  void fix(std::int32_t bundle, double rate);
  void end_flows_of(std::int32_t bundle, double until, std::vector<FlowNumber>& ended);
  static double end_of(const Bundle& bundle);

  std::vector<Link> links_;
  std::vector<Bundle> bundles_;
  std::map<std::vector<std::int32_t>, std::int32_t> bundle_by_route_;
  std::priority_queue<Completion, std::vector<Completion>, std::greater<>> completions_;
  std::vector<std::int32_t> touched_;  // Links whose flows changed since the last solution.
  std::vector<std::int32_t> component_links_, component_bundles_;
  std::vector<Share> shares_;  // A heap.
  double now_ = 0;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_MAX_MIN_NETWORK_H_
