// Flows that never run faster than a rate of their own, whatever the links allow: what a library
// reaches alone on its way. A link whose users' rates sum to no more than its capacity can delay
// nobody, whatever the timing; such links are left out, and a flow without other links ends by its
// closed form. Exact for max-min sharing: there every user has its own rate.
#ifndef MEGATWIN_SIM_FLOW_CAPPED_WAYS_H_
#define MEGATWIN_SIM_FLOW_CAPPED_WAYS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/topology/router.h"
#include "model/topology/topology.h"
#include "sim/flow/flow_set.h"

namespace megatwin::sim {

// One that sends: at most one flow at a time.
struct FlowUser {
  enum class Kind { Activation, Gradient, Group, InTasks, Background };
  Kind kind = Kind::Group;
  int stage = -1;
  int replica = -1;  // Data-parallel; −1: all of them.
  model::RankId rank;
};
std::string to_text(const FlowUser& user);

// What a link that is too small for its users carried.
struct LinkLoad {
  std::string link;
  model::BytesPerSecond capacity, demand;  // Demand: if all its users sent at once.
  model::Bytes carried;
  double full = 0;       // Carried over what the step's time allows.
  model::Seconds delay;  // Of the job's flows for which it was the narrowest, summed.
  int num_users = 0;
  std::vector<std::string> users;  // The first few, ranks that do the same in one.
};

class CappedWays {
 public:
  using Handle = std::int32_t;
  explicit CappedWays(const model::Topology& topology) : topology_(topology) {}

  // A user on `route` with `rate` when alone.
  Handle add(const model::Route& route, model::BytesPerSecond rate, const FlowUser& user);
  // After the last user: finds the links that can be short. Returns the set to add flows to.
  FlowSet settle();

  bool contended(Handle handle) const { return lanes_[index(handle)].way != 0; }
  // A flow that takes exactly `alone` when nothing delays it. Requires: settle().
  FlowIndex add_flow(FlowSet& flows, Handle handle, model::Seconds alone,
                     std::vector<FlowIndex> after);
  int num_contended_links() const { return static_cast<int>(links_.size()); }

  // By delay, the worst first, at most `count` of those that delayed anybody.
  std::vector<LinkLoad> loads(const FlowSet& flows, const std::vector<model::Seconds>& finish,
                              model::Seconds span, std::size_t count) const;

 private:
  struct Lane {
    FlowUser user;
    std::vector<std::int32_t> links;  // Of the topology; after settle() only the short ones.
    double rate = 0;
    double latency = 0;
    WayIndex way = 0;
  };
  struct Sent {
    FlowIndex flow;
    Handle lane;
    double alone;
  };
  void name_users(model::LinkId link, LinkLoad& load) const;
  static std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }

  const model::Topology& topology_;
  std::vector<Lane> lanes_;
  std::vector<double> demand_;        // By link of the topology.
  std::vector<std::int32_t> number_;  // Of a short link in the set; −1.
  std::vector<std::int32_t> links_;   // The short links.
  std::vector<Sent> sent_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_CAPPED_WAYS_H_
