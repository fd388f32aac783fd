// Flows that never run faster than a rate of their own, whatever the links allow: what a library
// reaches alone on its way. A link whose users' rates sum to no more than its capacity can delay
// nobody, whatever the timing; such links are left out, and a flow without other links ends by its
// closed form. Exact for max-min sharing: there every user has its own rate. Links and routes may
// change within the step, from stretch to stretch of time: what is under way then goes on with what
// it has left.
#ifndef MEGATWIN_SIM_FLOW_CAPPED_WAYS_H_
#define MEGATWIN_SIM_FLOW_CAPPED_WAYS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/micro_op.h"
#include "model/topology/router.h"
#include "model/topology/topology.h"
#include "model/units.h"
#include "sim/flow/flow_set.h"

namespace megatwin::sim {

// One that sends: at most one flow at a time.
struct FlowUser {
  enum class Kind { Activation, Gradient, Group, InTasks, Background };
  Kind kind = Kind::Group;
  model::GroupKind group = model::GroupKind::Data;  // Group and InTasks: whose collectives.
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
  double slowdown = 1;   // Of the job's flow that it delayed most: its time over that alone.
  // What closed forms hold is tried with one collective of a standard size: `carried`, `full` and
  // `delay` are of that one, not of the step.
  bool of_one_collective = false;
  int num_users = 0;
  std::vector<std::string> users;  // The first few, ranks that do the same in one.
  std::string first_delayed;       // Of the job's: whose flow it delayed first, with the rank.
};

// Part of the time in which all links of a way are up: those that go down and up often do so
// independently of each other.
double uptime_of(const model::Topology& topology, const model::Route& route);

// The network in one stretch of the step, which ends where the next begins. The first starts at 0.
struct NetworkStretch {
  model::Instant from;
  const model::Topology* topology = nullptr;
};

class CappedWays {
 public:
  using Handle = std::int32_t;
  explicit CappedWays(const model::Topology& topology)
      : CappedWays(std::vector<NetworkStretch>{{.topology = &topology}}) {}
  // Topologies of the same vertices and links, of which bandwidths and what is up may differ.
  // Stretches that begin at `sized_until` or later have no say in how much is sent.
  explicit CappedWays(std::vector<NetworkStretch> stretches,
                      model::Instant sized_until = model::Instant{
                          std::numeric_limits<std::int64_t>::max()});
  // Flows point into changing_ways_, whose nodes stay when it moves.
  CappedWays(CappedWays&&) = default;
  CappedWays& operator=(CappedWays&&) = default;

  // A user on `route` with `rate` when alone, in one stretch; without a rate it is not there.
  struct Way {
    model::Route route;
    model::BytesPerSecond rate;
    // Part of the time that it can send, see uptime_of(); 1 where `rate` is what it has on average.
    double uptime = 1;
  };
  // One way for each stretch. Requires: a rate in one of them.
  Handle add(const std::vector<Way>& ways, const FlowUser& user);
  // Work that holds no link, one piece at a time.
  Handle add_lone();
  // After the last user: finds the links that can be short. Returns the set to add flows to.
  FlowSet settle();

  // By link: whether a user of the job's own is on it, in any stretch.
  const std::vector<bool>& used() const { return used_; }
  bool contended(Handle handle) const { return lanes_[index(handle)].contended; }
  // A flow that takes exactly `alone` when nothing delays it. Requires: settle().
  FlowIndex add_flow(FlowSet& flows, Handle handle, model::Seconds alone,
                     std::vector<FlowIndex> after);
  // The same where that depends on the stretch: one duration for each, of which a flow does in each
  // stretch the part that its time there is of the whole.
  FlowIndex add_changing_flow(FlowSet& flows, Handle handle,
                              const std::vector<model::Seconds>& alone,
                              std::vector<FlowIndex> after);
  // After the last flow, before the set is run: tells it what changes when.
  void add_changes(FlowSet& flows);
  int num_contended_links() const { return static_cast<int>(links_.size()); }

  // By delay, the worst first, at most `count` of those that delayed anybody.
  std::vector<LinkLoad> loads(const FlowSet& flows, const std::vector<model::Seconds>& finish,
                              model::Seconds span, std::size_t count) const;

 private:
  struct Lane {
    FlowUser user;
    // By stretch: of the topology; after settle() only the short ones.
    std::vector<std::vector<std::int32_t>> links;
    std::vector<bool> there;    // By stretch.
    std::vector<double> rates;  // By stretch; the first where it is not there.
    std::vector<double> uptime;
    double rate = 0;  // In the first where it is.
    double latency = 0;
    model::Instant from;
    bool contended = false;
    WayIndex way = 0;
  };
  struct Sent {
    FlowIndex flow;
    Handle lane;
    // One for each stretch, in changing_ways_, which many flows share; nothing: one for all.
    const std::vector<double>* alone;
  };
  WayIndex way_over(FlowSet& flows, const Lane& lane, std::int32_t cap);
  std::int32_t add_cap(FlowSet& flows,
                       const std::function<model::BytesPerSecond(std::size_t stretch)>& capacity);
  FlowIndex add_sized(FlowSet& flows, Handle handle, const std::vector<double>& alone,
                      std::vector<FlowIndex> after);
  double alone_time(const Sent& sent, double start) const;
  struct Carried;
  void carry(const Sent& sent, const Flow& flow, double start, double end, double span,
             Carried& out) const;
  const model::Link& link_in(std::size_t stretch, std::int32_t link) const {
    return stretches_[stretch].topology->link(model::LinkId{link});
  }
  double start_of(std::size_t stretch) const {
    return model::to_seconds(stretches_[stretch].from).value;
  }
  // Bytes that a link lets through until `span`, and the least that it carries on the way there.
  double carries_until(std::int32_t link, double span) const;
  model::BytesPerSecond least_capacity(std::int32_t link, double span) const;
  void name_users(std::int32_t link, LinkLoad& load) const;
  static std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }

  std::vector<NetworkStretch> stretches_;
  std::size_t num_sizing_ = 0;  // Of the stretches: how many say how much is sent.
  std::vector<Lane> lanes_;
  std::vector<std::vector<double>> demand_;  // By stretch and link of the topology.
  std::vector<bool> used_;
  std::vector<bool> at_times_;        // By link: whether it is down for part of a user's time.
  std::vector<std::int32_t> number_;  // Of a short link in the set; −1.
  std::vector<std::int32_t> links_;   // The short links.
  std::vector<Sent> sent_;
  std::vector<FlowChange> changes_;
  std::map<std::pair<Handle, std::vector<double>>, WayIndex> changing_ways_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_CAPPED_WAYS_H_
