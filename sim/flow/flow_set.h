// Flows over links: what is sent, over which links, when it may start. One description that every
// FlowNet answers. Plain data.
#ifndef MEGATWIN_SIM_FLOW_FLOW_SET_H_
#define MEGATWIN_SIM_FLOW_FLOW_SET_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/topology/router.h"
#include "model/topology/topology.h"
#include "model/units.h"

namespace megatwin::sim {

using FlowIndex = std::int32_t;
using WayIndex = std::int32_t;  // A list of links that many flows may share.

struct Flow {
  model::Bytes size;       // Nothing: done when its latency has passed, such as a barrier.
  model::Seconds start;    // Not before this.
  model::Seconds latency;  // Paid before the first byte moves; holds no link.
  std::int32_t way = 0;    // Which links, see FlowSet::add_way(); 0: none.
  std::int32_t first_after = 0, num_after = 0;  // Into FlowSet::after.
};

// From `at` on a link has another capacity, or a way leads over other links. Flows under way go on
// from there with what is left of them.
struct FlowChange {
  model::Seconds at;
  std::int32_t link = -1;          // −1: of a way.
  model::BytesPerSecond capacity;  // Of the link.
  WayIndex way = 0, leads = 0;     // The links of `leads` instead; 0: whatever is on it ends.
};

class FlowSet {
 public:
  explicit FlowSet(std::vector<model::BytesPerSecond> capacities)
      : capacities_(std::move(capacities)) {}
  // Every link of a topology, cut ones too: no route holds them.
  explicit FlowSet(const model::Topology& topology);

  struct Order {
    model::Bytes size;
    model::Seconds start, latency;
    std::vector<FlowIndex> after;  // Starts when all of these are done, too.
  };
  // Requires: links of this set, flows of `after` added before.
  FlowIndex add(const Order& order, std::span<const std::int32_t> links);
  FlowIndex add(const Order& order, const model::Route& route);
  // The same for links that were added once; way 0 has none.
  WayIndex add_way(std::span<const std::int32_t> links);
  FlowIndex add_on(const Order& order, WayIndex way);
  // A link of its own caps a flow's rate: its index.
  std::int32_t add_link(model::BytesPerSecond capacity);
  // Requires: after the start, in ascending order of time, a capacity above 0.
  void change_capacity(model::Seconds at, std::int32_t link, model::BytesPerSecond capacity);
  void change_way(model::Seconds at, WayIndex way, WayIndex leads);

  std::size_t size() const { return flows_.size(); }
  const std::vector<Flow>& flows() const { return flows_; }
  const std::vector<model::BytesPerSecond>& capacities() const { return capacities_; }
  std::span<const std::int32_t> links_of(FlowIndex flow) const;
  std::span<const std::int32_t> links_on(WayIndex way) const;
  const std::vector<FlowChange>& changes() const { return changes_; }
  std::size_t num_ways() const { return way_ends_.size(); }
  std::span<const FlowIndex> after(FlowIndex flow) const;

 private:
  void change(const FlowChange& change);

  std::vector<model::BytesPerSecond> capacities_;
  std::vector<Flow> flows_;
  std::vector<std::int32_t> links_;           // Of way 0, way 1, …
  std::vector<std::int32_t> way_ends_ = {0};  // Where each ends in them.
  std::vector<FlowIndex> after_;
  std::vector<FlowChange> changes_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_FLOW_SET_H_
