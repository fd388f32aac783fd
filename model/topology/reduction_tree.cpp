#include "model/topology/reduction_tree.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace megatwin::model {
namespace {

std::size_t vertex_index(VertexId id) { return static_cast<std::size_t>(id.value); }

class TreeBuilder {
 public:
  TreeBuilder(Router& router, const TreeMembers& members)
      : router_(router), topology_(router.topology()), members_(members) {}

  Result<ReductionTree> build() {
    MEGATWIN_TRY([[maybe_unused]] const bool joined, find_ends());
    if (!find_root()) return fail({.message = torn()});
    ReductionTree tree{.root = root_};
    Seconds up_max, down_max;
    for (const End& end : ends_) {
      MEGATWIN_TRY(Climb climb, climb_from(end.leaf));
      up_max = std::max(up_max, latency_of(end.up) + climb.up_latency);
      down_max = std::max(down_max, climb.down_latency + latency_of(end.down));
      std::vector<LinkId> up = end.up, down = climb.down;
      up.insert(up.end(), climb.up.begin(), climb.up.end());
      down.insert(down.end(), end.down.begin(), end.down.end());
      tree.members.push_back({as_route(std::move(up)), as_route(std::move(down))});
    }
    tree.latency = up_max + down_max;
    return tree;
  }

 private:
  // A member, its way to its switch and back from there.
  struct End {
    RankId rank;
    VertexId nic, leaf;
    std::vector<LinkId> up, down;
  };
  // What of the way from a switch to the root and back nobody before has.
  struct Climb {
    std::vector<LinkId> up, down;      // Each in the order in which bytes cross it.
    Seconds up_latency, down_latency;  // Of the whole way.
  };

  // By each member's own adapter, or what stands in for one that is down: not by that of another
  // member's rail, as a message to that one would leave.
  Result<bool> find_ends() {
    std::map<int, RankId> by_machine;
    for (const RankId rank : members_.ranks) {
      MEGATWIN_TRY(Router::Uplink way, router_.uplink(rank, members_.adapter));
      const Vertex& gpu = topology_.vertex(topology_.gpu(rank));
      const auto [other, is_new] = by_machine.emplace(gpu.machine, rank);
      if (!is_new) {
        return fail({.message = "the network adds between machines; " +
                                topology_.vertex(topology_.gpu(other->second)).name + " and " +
                                gpu.name + " are on one",
                     .allowed = "members on several machines, one each"});
      }
      ends_.push_back({.rank = rank,
                       .nic = way.nic,
                       .leaf = topology_.link(way.up.back()).to,
                       .up = std::move(way.up),
                       .down = std::move(way.down)});
    }
    return true;
  }

  // Nearest to the farthest leaf, then to all of them.
  bool find_root() {
    std::set<VertexId> leaves;
    for (const End& end : ends_) leaves.insert(end.leaf);
    struct Best {
      int farthest = 0, sum = 0;
    };
    std::optional<Best> best;
    std::vector<VertexId> roots;
    std::vector<int> farthest(static_cast<std::size_t>(topology_.num_vertices()), 0);
    std::vector<int> sum(farthest.size(), 0);
    for (const VertexId leaf : leaves) {
      const std::vector<std::uint16_t>& hops = router_.hops_to(leaf);
      for (std::size_t v = 0; v < farthest.size(); ++v) {
        farthest[v] = std::max<int>(farthest[v], hops[v]);
        sum[v] += hops[v];
      }
    }
    for (VertexId v; v.value < topology_.num_vertices(); ++v.value) {
      const Best its{farthest[vertex_index(v)], sum[vertex_index(v)]};
      if (!is_fabric(topology_.vertex(v).kind) || its.farthest == FabricDistances::kUnreachable) {
        continue;
      }
      const bool better = !best || its.farthest < best->farthest ||
                          (its.farthest == best->farthest && its.sum < best->sum);
      if (better) roots.clear(), best = its;
      if (its.farthest == best->farthest && its.sum == best->sum) roots.push_back(v);
    }
    if (roots.empty()) return false;
    turn_ = static_cast<std::size_t>(members_.ranks.front().value);
    root_ = roots[turn_ % roots.size()];
    return true;
  }

  // Names the member that fewest others reach, and one that does not reach it.
  std::string torn() {
    std::size_t least = ends_.size(), apart = 0, from = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      const std::vector<std::uint16_t>& hops = router_.hops_to(ends_[i].leaf);
      std::size_t reached = 0, missed = i;
      for (std::size_t j = 0; j < ends_.size(); ++j) {
        const bool joined = hops[vertex_index(ends_[j].leaf)] != FabricDistances::kUnreachable;
        joined ? ++reached : missed = j;
      }
      if (reached < least) least = reached, apart = i, from = missed;
    }
    return "no switch joins " + text_of(ends_[apart]) + ", and " + text_of(ends_[from]);
  }
  // "rail1/leaf0, where n0/gpu0 leaves by n0/nic1"
  std::string text_of(const End& end) const {
    return topology_.vertex(end.leaf).name + ", where " +
           topology_.vertex(topology_.gpu(end.rank)).name + " leaves by " +
           topology_.vertex(end.nic).name;
  }

  // The cables of one switch and the next nearer to the root.
  struct Step {
    LinkId up, down;
    VertexId above;
  };
  Result<Step> step_from(VertexId at) {
    const auto known = steps_.find(at);
    if (known != steps_.end()) return known->second;
    const std::vector<std::uint16_t>& hops = router_.hops_to(root_);
    std::vector<Step> steps;
    for (const LinkId up : topology_.links_from(at)) {
      const Link& link = topology_.link(up);
      if (!link.up || hops[vertex_index(link.to)] + 1 != hops[vertex_index(at)]) continue;
      std::vector<LinkId> back;
      for (const LinkId down : topology_.links_from(link.to)) {
        if (topology_.link(down).up && topology_.link(down).to == at) back.push_back(down);
      }
      if (back.empty()) continue;
      // Both directions of a cable are added one after the other.
      const auto nearest = std::min_element(back.begin(), back.end(), [&](LinkId a, LinkId b) {
        return std::abs(a.value - up.value) < std::abs(b.value - up.value);
      });
      steps.push_back({up, *nearest, link.to});
    }
    if (steps.empty()) {
      return fail({.message = "no cable leads from " + topology_.vertex(at).name + " towards " +
                              topology_.vertex(root_).name + " and back"});
    }
    return steps_.emplace(at, steps[turn_ % steps.size()]).first->second;
  }

  Result<Climb> climb_from(VertexId leaf) {
    Climb climb;
    bool carried = false;
    for (VertexId at = leaf; at != root_;) {
      MEGATWIN_TRY(const Step step, step_from(at));
      climb.up_latency += topology_.link(step.up).latency;
      climb.down_latency += topology_.link(step.down).latency;
      carried = carried || !carried_.insert(at).second;
      if (!carried) {
        climb.up.push_back(step.up);
        climb.down.insert(climb.down.begin(), step.down);
      }
      at = step.above;
    }
    return climb;
  }

  Seconds latency_of(const std::vector<LinkId>& links) const {
    Seconds latency;
    for (const LinkId id : links) latency += topology_.link(id).latency;
    return latency;
  }
  Route as_route(std::vector<LinkId> links) const {
    Route route{.links = std::move(links)};
    route.latency = latency_of(route.links);
    for (const LinkId id : route.links) {
      const BytesPerSecond bandwidth = topology_.link(id).bandwidth;
      route.bandwidth =
          id == route.links.front() ? bandwidth : std::min(route.bandwidth, bandwidth);
    }
    return route;
  }

  Router& router_;
  const Topology& topology_;
  const TreeMembers& members_;
  std::vector<End> ends_;
  VertexId root_;
  std::size_t turn_ = 0;
  std::map<VertexId, Step> steps_;
  std::set<VertexId> carried_;  // Whose step up is in somebody's way.
};

}  // namespace

Result<ReductionTree> reduction_tree(Router& router, const TreeMembers& members) {
  if (members.ranks.size() < 2) {
    return fail(Diagnostic{.message = "the network adds between machines, and there is one member",
                           .allowed = "members on several machines, one each"});
  }
  return TreeBuilder(router, members).build();
}

}  // namespace megatwin::model
