#include "sim/flow/collective_pattern.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "model/collective_forms.h"
#include "model/numbers.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::CollectiveAlgorithm;
using model::CollectiveKind;
using model::Link;
using model::LinkId;
using model::RankId;
using model::Route;
using model::Seconds;
using model::VertexId;
using model::VertexKind;

// Channel c visits a machine from its c-th member downwards: c, c − 1, …, c + 1. The last of them
// sends to the c-th of the next machine.
std::vector<RankId> ring_order(const MachineRanks& machines, int channel) {
  std::vector<RankId> order;
  for (const auto& members : machines) {
    const int count = static_cast<int>(members.size());
    for (int i = 0; i < count; ++i) {
      order.push_back(members[as_index(((channel - i) % count + count) % count)]);
    }
  }
  return order;
}

// Highest power of two that divides a positive number.
int lowest_bit(int number) { return number & -number; }

bool gathers(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter;
}

class PatternBuilder {
 public:
  PatternBuilder(const model::Topology& topology, const CommunicatorRanks& group,
                 const PatternWish& wish)
      : topology_(topology),
        group_(group),
        wish_(wish),
        machines_(by_machine(topology, group)),
        n_(static_cast<int>(group.ranks.size())) {
    pattern_.channels = n_ > 0 ? num_channels(group, machines_) : 1;
    pattern_.machines = static_cast<int>(machines_.size());
  }

  model::Result<CollectivePattern> build() {
    if (n_ < 2) return std::move(pattern_);
    for (const RankId rank : group_.ranks) {
      if (rank.value >= 0 && rank.value < topology_.num_gpus()) continue;
      return model::fail(
          {.message = "rank " + std::to_string(rank.value) + " is not in the topology",
           .allowed = "ranks 0 to " + std::to_string(topology_.num_gpus() - 1)});
    }
    if (auto fault = unfit()) return model::fail(*std::move(fault));
    switch (wish_.algorithm) {
      case CollectiveAlgorithm::Ring:
        add_rings();
        break;
      case CollectiveAlgorithm::Tree:
        add_trees(true);
        break;
      case CollectiveAlgorithm::Nvls:
        add_multicast();
        break;
      case CollectiveAlgorithm::NvlsTree:
        add_multicast();
        add_trees(false);
        break;
      case CollectiveAlgorithm::CollNetDirect:
        add_reduction_trees();
        break;
      case CollectiveAlgorithm::Pat:
        add_pat();
        break;
      case CollectiveAlgorithm::CollNetChain:
      case CollectiveAlgorithm::Direct:
        break;
    }
    find_busiest();
    return std::move(pattern_);
  }

 private:
  // Whether it does this kind of collective at all, on whatever machines.
  bool does() const {
    const bool reduces = wish_.kind == CollectiveKind::AllReduce;
    switch (wish_.algorithm) {
      case CollectiveAlgorithm::Ring:
      case CollectiveAlgorithm::Nvls:
        return reduces || gathers(wish_.kind);
      case CollectiveAlgorithm::Tree:
      case CollectiveAlgorithm::NvlsTree:
      case CollectiveAlgorithm::CollNetDirect:
        return reduces;
      case CollectiveAlgorithm::Pat:
        return gathers(wish_.kind);
      case CollectiveAlgorithm::CollNetChain:
      case CollectiveAlgorithm::Direct:
        return false;
    }
    return false;
  }

  std::optional<model::Diagnostic> unfit() const {
    const bool sharp = wish_.algorithm == CollectiveAlgorithm::CollNetDirect;
    const std::string name(sharp ? "sharp" : model::name_of(wish_.algorithm));
    const bool several = machines_.size() > 1;
    if (!does()) {
      return model::Diagnostic{.message = name + " does not do this collective",
                               .allowed =
                                   "ring: all-reduce, all-gather, reduce-scatter; tree, "
                                   "nvls-tree, sharp: all-reduce; nvls: as ring, on one "
                                   "machine; pat: all-gather, reduce-scatter"};
    }
    if (wish_.algorithm == CollectiveAlgorithm::Nvls && several) {
      return model::Diagnostic{.message = "NVLS adds inside one NVSwitch, the ranks are on several",
                               .allowed = "ranks of one machine"};
    }
    if ((sharp || wish_.algorithm == CollectiveAlgorithm::NvlsTree) && !several) {
      return model::Diagnostic{.message = name + " adds between machines, the ranks are on one",
                               .allowed = "ranks of several machines"};
    }
    if (wish_.algorithm == CollectiveAlgorithm::Pat && machines_.size() != group_.ranks.size()) {
      return model::Diagnostic{.message = name + " is of one rank a machine",
                               .allowed = "a group with one member on every machine"};
    }
    return std::nullopt;
  }

  void between(RankId from, RankId to, int channel, double share) {
    pattern_.streams.push_back(
        {.way = Stream::Way::Between, .from = from, .to = to, .channel = channel, .share = share});
  }
  void at(Stream::Way way, RankId rank, int channel, double share, int member = 0) {
    pattern_.streams.push_back({.way = way,
                                .from = rank,
                                .to = rank,
                                .channel = channel,
                                .share = share,
                                .member = member});
  }

  void add_rings() {
    const Rings rings = rings_of(topology_, group_);
    const double share = model::busbw_factor(wish_.kind, n_) / rings.channels;
    for (const RingEdge& edge : rings.edges) between(edge.from, edge.to, edge.channel, share);
    pattern_.steps = pattern_.network_steps = model::nccl_steps(wish_.kind, n_);
  }

  // The trees over the machines, from head to head; with the chains below the heads.
  void add_trees(bool chains) {
    const int count = pattern_.machines;
    const double share = 0.5 / pattern_.channels;
    int chain = 0, depth = 0;
    for (int c = 0; c < pattern_.channels; ++c) {
      for (const bool second : {false, true}) {
        const int channel = 2 * c + (second ? 1 : 0);
        const auto both_ways = [&](RankId lower, RankId upper) {
          between(lower, upper, channel, share);
          between(upper, lower, channel, share);
        };
        const std::vector<int> parent = binary_tree(count, second);
        for (int m = 0; m < count; ++m) {
          const MachineRanks::value_type& members = machines_[as_index(m)];
          const int size = static_cast<int>(members.size());
          for (int i = 1; chains && i < size; ++i) {
            both_ways(members[as_index((c + i) % size)], members[as_index((c + i - 1) % size)]);
          }
          if (chains) chain = std::max(chain, size - 1);
          int above = 0;
          for (int up = m; parent[as_index(up)] >= 0; up = parent[as_index(up)]) ++above;
          depth = std::max(depth, above);
          if (parent[as_index(m)] < 0) continue;
          both_ways(head(m, c), head(parent[as_index(m)], c));
        }
      }
    }
    pattern_.steps += 2 * (chain + depth);
    pattern_.network_steps = 2 * (chain + depth);
  }

  RankId head(int machine, int channel) const {
    const auto& members = machines_[as_index(machine)];
    return members[as_index(channel) % members.size()];
  }

  // All bytes of every rank to its NVSwitch and the sum back; where machines have heads, these get
  // the machine's sum of their part and give the whole one's to all. A gather gives each rank's
  // part to all, a scatter the sum of it to the rank.
  void add_multicast() {
    const double own = wish_.kind == CollectiveKind::AllReduce ? 1 : 1.0 / n_;
    const double up = wish_.kind == CollectiveKind::AllGather ? own : 1;
    const double down = wish_.kind == CollectiveKind::ReduceScatter ? own : 1;
    bool any = false;
    for (const auto& members : machines_) {
      if (members.size() < 2) continue;
      any = true;
      for (const RankId rank : members) {
        at(Stream::Way::ToSwitch, rank, 0, up);
        at(Stream::Way::FromSwitch, rank, 0, down);
      }
    }
    if (any) pattern_.steps += wish_.kind == CollectiveKind::AllReduce ? 2 : 1;
    if (pattern_.machines == 1) return;
    const double part = 1.0 / pattern_.channels;
    for (int m = 0; m < pattern_.machines; ++m) {
      if (machines_[as_index(m)].size() < 2) continue;
      for (int c = 0; c < pattern_.channels; ++c) {
        at(Stream::Way::FromSwitch, head(m, c), c, part);
        at(Stream::Way::ToSwitch, head(m, c), c, part);
      }
    }
  }

  void add_reduction_trees() {
    const double part = 1.0 / pattern_.channels;
    if (wish_.multicast) add_multicast();
    if (!wish_.multicast) add_direct(part);
    for (int c = 0; c < pattern_.channels; ++c) {
      auto& heads = pattern_.tree_heads.emplace_back();
      for (int m = 0; m < pattern_.machines; ++m) {
        heads.push_back(head(m, c));
        at(Stream::Way::TreeUp, heads.back(), c, part, m);
        at(Stream::Way::TreeDown, heads.back(), c, part, m);
      }
    }
    pattern_.steps += 1;
  }

  // Every rank's part of each head's share to that head, and the sum back.
  void add_direct(double part) {
    bool any = false;
    for (int m = 0; m < pattern_.machines; ++m) {
      for (int c = 0; c < pattern_.channels; ++c) {
        for (const RankId rank : machines_[as_index(m)]) {
          if (rank == head(m, c)) continue;
          between(rank, head(m, c), c, part);
          between(head(m, c), rank, c, part);
          any = true;
        }
      }
    }
    if (any) pattern_.steps = pattern_.network_steps = 2;
  }

  // Block r is at r + x after its last hop of lowest_bit(x): how many blocks each distance carries.
  // A scatter adds up along the same hops the other way.
  void add_pat() {
    std::map<int, int> blocks;
    for (int x = 1; x < n_; ++x) ++blocks[lowest_bit(x)];
    for (const auto& [distance, count] : blocks) {
      for (int i = 0; i < n_; ++i) {
        const RankId from = group_.ranks[as_index(i)];
        const RankId to = group_.ranks[as_index((i + distance) % n_)];
        const double share = static_cast<double>(count) / n_;
        if (wish_.kind == CollectiveKind::ReduceScatter) {
          between(to, from, 0, share);
        } else {
          between(from, to, 0, share);
        }
      }
      pattern_.steps = ++pattern_.network_steps;
    }
  }

  void find_busiest() {
    std::map<int, double> sent;
    for (const Stream& stream : pattern_.streams) {
      const int machine = topology_.vertex(topology_.gpu(stream.from)).machine;
      if (pattern_.machines == 1) {
        if (stream.way != Stream::Way::FromSwitch) sent[stream.from.value] += stream.share;
        continue;
      }
      const bool leaves = stream.way == Stream::Way::TreeUp ||
                          (stream.way == Stream::Way::Between &&
                           topology_.vertex(topology_.gpu(stream.to)).machine != machine);
      if (leaves) sent[machine] += stream.share;
    }
    for (const auto& [who, share] : sent) pattern_.busiest = std::max(pattern_.busiest, share);
  }

  const model::Topology& topology_;
  const CommunicatorRanks& group_;
  const PatternWish& wish_;
  MachineRanks machines_;
  int n_;
  CollectivePattern pattern_;
};

}  // namespace

MachineRanks by_machine(const model::Topology& topology, const CommunicatorRanks& group) {
  MachineRanks machines;
  int last = -1;
  for (const RankId rank : group.ranks) {
    const bool known = rank.value >= 0 && rank.value < topology.num_gpus();
    const int machine = known ? topology.vertex(topology.gpu(rank)).machine : -2;
    if (machines.empty() || machine != last) machines.emplace_back();
    machines.back().push_back(rank);
    last = machine;
  }
  return machines;
}

int num_channels(const CommunicatorRanks& group, const MachineRanks& machines) {
  std::size_t least = machines.front().size();
  for (const auto& members : machines) least = std::min(least, members.size());
  return group.channels > 0 ? group.channels : static_cast<int>(least);
}

// Source: NVIDIA/nccl v2.30.7, src/graph/trees.cc. Machine 0 is the root and has one child; the
// parent of another is found by its lowest set bit. The second tree is the first one shifted up by
// one machine when their number is odd (machine 1 is its root), mirrored when it is even.
std::vector<int> binary_tree(int count, bool second) {
  std::vector<int> parent(as_index(count), -1);
  for (int i = 1; i < count; ++i) {
    const int bit = lowest_bit(i);
    int up = (i ^ bit) | (bit << 1);
    if (up >= count) up = i ^ bit;
    parent[as_index(i)] = up;
  }
  if (!second) return parent;
  std::vector<int> other(as_index(count), -1);
  for (int i = 0; i < count; ++i) {
    const int from = count % 2 == 0 ? count - 1 - i : (i - 1 + count) % count;
    const int up = parent[as_index(from)];
    if (up < 0) continue;
    other[as_index(i)] = count % 2 == 0 ? count - 1 - up : (up + 1) % count;
  }
  return other;
}

Rings rings_of(const model::Topology& topology, const CommunicatorRanks& group) {
  const MachineRanks machines = by_machine(topology, group);
  Rings rings{.channels = num_channels(group, machines)};
  for (int c = 0; c < rings.channels; ++c) {
    const std::vector<RankId> order = ring_order(machines, c);
    for (std::size_t i = 0; i < order.size(); ++i) {
      rings.edges.push_back({order[i], order[(i + 1) % order.size()], c});
    }
  }
  return rings;
}

model::Result<CollectivePattern> collective_pattern(const model::Topology& topology,
                                                    const CommunicatorRanks& group,
                                                    const PatternWish& wish) {
  return PatternBuilder(topology, group, wish).build();
}

model::Result<Route> PatternRoutes::inside(const Stream& stream) const {
  const model::Topology& topology = router_.topology();
  const VertexId gpu = topology.gpu(stream.from);
  const auto over = [](const Link& link, LinkId id) {
    return Route{.links = {id}, .latency = link.latency, .bandwidth = link.bandwidth};
  };
  for (const LinkId id : topology.links_from(gpu)) {
    const Link& link = topology.link(id);
    if (!link.up || topology.vertex(link.to).kind != VertexKind::NvSwitch) continue;
    if (stream.way == Stream::Way::ToSwitch) return over(link, id);
    for (const LinkId back : topology.links_from(link.to)) {
      const Link& down = topology.link(back);
      if (down.to == gpu && down.up) return over(down, back);
    }
  }
  return model::fail({.message = topology.vertex(gpu).name + " has no NVSwitch to add in"});
}

model::Result<const model::ReductionTree*> PatternRoutes::tree(int channel, int adapter) {
  const std::size_t num_channels_of_trees = pattern_.tree_heads.size();
  if (trees_.size() < num_channels_of_trees) trees_.resize(num_channels_of_trees);
  auto& by_adapter = trees_[as_index(channel)];
  if (by_adapter.size() <= as_index(adapter)) by_adapter.resize(as_index(adapter) + 1);
  auto& known = by_adapter[as_index(adapter)];
  if (!known) {
    MEGATWIN_TRY(
        known, model::reduction_tree(
                   router_, {.ranks = pattern_.tree_heads[as_index(channel)], .adapter = adapter}));
  }
  return &*known;
}

model::Result<Route> PatternRoutes::route(const Stream& stream, int adapter) {
  switch (stream.way) {
    case Stream::Way::Between:
      return router_.route({stream.from, stream.to, stream.channel, adapter});
    case Stream::Way::ToSwitch:
    case Stream::Way::FromSwitch:
      return inside(stream);
    case Stream::Way::TreeUp:
    case Stream::Way::TreeDown: {
      MEGATWIN_TRY(const model::ReductionTree* whole, tree(stream.channel, adapter));
      const model::ReductionTree::Ways& ways = whole->members[as_index(stream.member)];
      return stream.way == Stream::Way::TreeUp ? ways.up : ways.down;
    }
  }
  return Route{};
}

model::Result<Seconds> PatternRoutes::tree_latency() {
  Seconds longest;
  for (int c = 0; c < static_cast<int>(pattern_.tree_heads.size()); ++c) {
    MEGATWIN_TRY(const model::ReductionTree* whole, tree(c, 0));
    longest = std::max(longest, whole->latency);
  }
  return longest;
}

}  // namespace megatwin::sim
