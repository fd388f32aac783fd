#include "model/topology/fabric_topology.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/counted.h"
#include "model/numbers.h"
#include "model/topology/machine_topology.h"
#include "model/topology/switch_graph.h"

namespace megatwin::model {
namespace {

constexpr int kSpinesMax = 32;
constexpr int kLeavesPerPod = 8;

int divide_up(int value, int by) { return (value + by - 1) / by; }

// The factors of `machines` nearest to a cube, largest first; a line when it is prime.
std::vector<int> cube_of(int machines) {
  int best_a = machines, best_b = 1, best_c = 1;
  for (int c = 1; c * c * c <= machines; ++c) {
    if (machines % c != 0) continue;
    for (int b = c; c * b * b <= machines; ++b) {
      if (machines / c % b != 0) continue;
      const int a = machines / c / b;
      if (a + b + c < best_a + best_b + best_c) best_a = a, best_b = b, best_c = c;
    }
  }
  std::vector<int> sizes = {best_a, best_b, best_c};
  while (sizes.size() > 1 && sizes.back() == 1) sizes.pop_back();
  return sizes;
}

class FabricBuilder {
 public:
  FabricBuilder(const Cluster& cluster, const FabricShape& shape)
      : cluster_(cluster), shape_(shape) {}

  Result<Topology> build() {
    if (Diagnostics faults = check(); !faults.empty()) return fail(std::move(faults));
    for (const NodeGroup& group : cluster_.groups) {
      for (int i = 0; i < group.count; ++i) {
        add_machine(topology_, group.node, group.gpu, topology_.num_machines());
        nodes_.push_back(&group.node);
      }
    }
    if (num_machines() > 1)
      cluster_.fabric.graph ? add_graph(*cluster_.fabric.graph) : add_fabric();
    if (Diagnostics faults = topology_.check(); !faults.empty()) return fail(std::move(faults));
    return std::move(topology_);
  }

 private:
  Diagnostics check() const {
    int machines = 0;
    Diagnostics faults;
    for (const NodeGroup& group : cluster_.groups) {
      machines += group.count;
      if (group.node.num_gpus < 1) {
        faults.push_back({.message = "the machine " + group.node.name + " has no GPU"});
      }
    }
    if (machines == 0) return {{.message = "the cluster has no machine"}};
    for (const NodeGroup& group : cluster_.groups) {
      if (machines < 2) break;
      if (group.node.num_nics > 0 && group.node.nic_per_direction.value > 0) continue;
      faults.push_back({.message = "the machine " + group.node.name +
                                   " has no network adapter and cannot reach the others",
                        .allowed = "nics and nic_bandwidth greater than 0"});
    }
    if (cluster_.fabric.graph) {
      check_graph(*cluster_.fabric.graph, machines, faults);
    } else if (shape_.kind == FabricKind::Torus) {
      check_torus(machines, faults);
    }
    return faults;
  }

  static void check_graph(const SwitchGraph& graph, int machines, Diagnostics& faults) {
    if (static_cast<int>(graph.ports.size()) >= machines) return;
    faults.push_back({.message = graph.file + " places " +
                                 counted(static_cast<std::int64_t>(graph.ports.size()), "machine") +
                                 ", the cluster has " + std::to_string(machines)});
  }

  void check_torus(int machines, Diagnostics& faults) const {
    std::int64_t product = 1;
    std::string sizes;
    for (const int size : shape_.torus) {
      product *= size;
      sizes += (sizes.empty() ? "" : " × ") + std::to_string(size);
    }
    if (product == machines) return;
    faults.push_back(
        {.message = "a torus of " + sizes + " does not hold " + counted(machines, "machine"),
         .allowed = "sizes whose product is the number of machines"});
  }

  int num_machines() const { return static_cast<int>(nodes_.size()); }

  BytesPerSecond injection(int machine) const {
    const Node& node = *nodes_[as_index(machine)];
    return node.num_nics * node.nic_per_direction;
  }
  BytesPerSecond injection_max() const {
    BytesPerSecond most;
    for (int m = 0; m < num_machines(); ++m) most = std::max(most, injection(m));
    return most;
  }

  VertexId add_switch(VertexKind kind, std::string name, int position) {
    return topology_.add_vertex({.kind = kind, .name = std::move(name), .position = position});
  }

  // No faster than `most`, where that is given.
  void add_port(int machine, int nic, VertexId at, BytesPerSecond most = {}) {
    const Node& node = *nodes_[as_index(machine)];
    const BytesPerSecond own = node.nic_per_direction;
    const Seconds adapter = node.nic_latency / 2;
    const VertexId from = topology_.machine(machine).nics[as_index(nic)];
    const Link up{.from = from,
                  .to = at,
                  .bandwidth = most.value > 0 ? std::min(own, most) : own,
                  .latency = adapter + shape_.switch_latency,
                  .kind = LinkKind::Port};
    topology_.add_link(up);
    Link down = up;
    std::swap(down.from, down.to);
    down.latency = adapter;
    topology_.add_link(down);
  }

  void add_ports(int machine, VertexId at) {
    for (int nic = 0; nic < nodes_[as_index(machine)]->num_nics; ++nic) add_port(machine, nic, at);
  }

  void cable(VertexId from, VertexId to, BytesPerSecond bandwidth) {
    topology_.add_cable({.from = from,
                         .to = to,
                         .bandwidth = bandwidth,
                         .latency = shape_.switch_latency,
                         .kind = LinkKind::Fabric});
  }

  // As a file has it.
  void add_graph(const SwitchGraph& graph) {
    std::vector<VertexId> switches;
    int position = 0;
    for (const SwitchGraph::Switch& one : graph.switches) {
      switches.push_back(add_switch(one.kind, one.name, position++));
    }
    for (int m = 0; m < num_machines(); ++m) {
      const std::vector<SwitchGraph::Port>& ports = graph.ports[as_index(m)];
      const int adapters = nodes_[as_index(m)]->num_nics;
      for (int nic = 0; nic < std::min<int>(adapters, static_cast<int>(ports.size())); ++nic) {
        const SwitchGraph::Port& port = ports[as_index(nic)];
        add_port(m, nic, switches[as_index(port.at)], port.bandwidth);
      }
    }
    for (const SwitchGraph::Cable& one : graph.cables) {
      cable(switches[as_index(one.from)], switches[as_index(one.to)], one.bandwidth);
    }
  }

  void add_fabric() {
    switch (shape_.kind) {
      case FabricKind::SingleSwitch:
      case FabricKind::Ideal: {
        const VertexId one = add_switch(VertexKind::Leaf, "leaf0", 0);
        for (int m = 0; m < num_machines(); ++m) add_ports(m, one);
        return;
      }
      case FabricKind::FatTree:
        return add_tree_above(add_leaves(), shape_.machines_per_leaf * injection_max());
      case FabricKind::RailOptimizedFatTree:
        return add_tree_above(add_rails(),
                              shape_.machines_per_leaf * injection_max() / num_rails(cluster_));
      case FabricKind::Dragonfly:
        return add_dragonfly();
      case FabricKind::Torus:
        return add_torus();
    }
  }

  std::vector<VertexId> add_leaves() {
    std::vector<VertexId> leaves;
    for (int m = 0; m < num_machines(); ++m) {
      const int leaf = m / shape_.machines_per_leaf;
      if (leaf == static_cast<int>(leaves.size())) {
        leaves.push_back(add_switch(VertexKind::Leaf, "leaf" + std::to_string(leaf), leaf));
      }
      add_ports(m, leaves.back());
    }
    return leaves;
  }

  std::vector<VertexId> add_rails() {
    const int rails = num_rails(cluster_);
    std::vector<VertexId> leaves;
    for (int m = 0; m < num_machines(); ++m) {
      const int block = m / shape_.machines_per_leaf;
      while (static_cast<int>(leaves.size()) < (block + 1) * rails) {
        const int position = static_cast<int>(leaves.size());
        leaves.push_back(add_switch(
            VertexKind::Leaf,
            "rail" + std::to_string(position % rails) + "/leaf" + std::to_string(block), position));
      }
      for (int nic = 0; nic < nodes_[as_index(m)]->num_nics; ++nic) {
        add_port(m, nic, leaves[as_index(block * rails + nic)]);
      }
    }
    return leaves;
  }

  // Spines above leaves that take `down` each from their machines; and cores in a third level.
  void add_tree_above(const std::vector<VertexId>& leaves, BytesPerSecond down) {
    const int num_leaves = static_cast<int>(leaves.size());
    if (num_leaves == 1) return;
    const BytesPerSecond up = down / shape_.oversubscription;
    const int num_spines = spines_for(up);
    const int per_pod = shape_.levels >= 3 ? pod_leaves(shape_) : num_leaves;
    const int num_pods = divide_up(num_leaves, per_pod);
    std::vector<std::vector<VertexId>> spines(as_index(num_pods));
    for (int leaf = 0; leaf < num_leaves; ++leaf) {
      auto& pod = spines[as_index(leaf / per_pod)];
      if (pod.empty()) pod = add_spines(num_pods > 1 ? leaf / per_pod : -1, num_spines);
      for (const VertexId spine : pod) cable(leaves[as_index(leaf)], spine, up / num_spines);
    }
    if (num_pods > 1) add_cores(spines, per_pod * up / num_spines);
  }

  int spines_for(BytesPerSecond up) const {
    if (shape_.spray) return 1;
    if (shape_.spines > 0) return shape_.spines;
    const double ports = std::ceil(ratio(up / nodes_.front()->nic_per_direction) - 1e-9);
    return static_cast<int>(std::clamp(ports, 1.0, double{kSpinesMax}));
  }

  std::vector<VertexId> add_spines(int pod, int count) {
    const std::string prefix = pod < 0 ? "" : "pod" + std::to_string(pod) + "/";
    std::vector<VertexId> spines;
    spines.reserve(static_cast<std::size_t>(count));
    for (int s = 0; s < count; ++s) {
      spines.push_back(add_switch(VertexKind::Spine, prefix + "spine" + std::to_string(s), s));
    }
    return spines;
  }

  // Spine s of every pod meets the cores of its own plane, which carry all it takes from below.
  void add_cores(const std::vector<std::vector<VertexId>>& spines, BytesPerSecond below) {
    const int per_spine = shape_.spray ? 1 : shape_.cores_per_spine;
    const int num_planes = static_cast<int>(spines.front().size());
    for (int plane = 0; plane < num_planes; ++plane) {
      for (int c = 0; c < per_spine; ++c) {
        const int position = plane * per_spine + c;
        const VertexId core =
            add_switch(VertexKind::Core, "core" + std::to_string(position), position);
        for (const auto& pod : spines) cable(pod[as_index(plane)], core, below / per_spine);
      }
    }
  }

  void add_dragonfly() {
    const int per_group = pod_leaves(shape_);
    const std::vector<VertexId> leaves = add_leaves();
    const int num_groups = divide_up(static_cast<int>(leaves.size()), per_group);
    const BytesPerSecond up = shape_.machines_per_leaf * injection_max();
    const int num_spines = spines_for(up);
    std::vector<std::vector<VertexId>> spines;
    for (int g = 0; g < num_groups; ++g) {
      spines.push_back(add_spines(g, num_spines));
      const int last = std::min<int>((g + 1) * per_group, static_cast<int>(leaves.size()));
      for (int leaf = g * per_group; leaf < last; ++leaf) {
        for (const VertexId spine : spines.back()) {
          cable(leaves[as_index(leaf)], spine, up / num_spines);
        }
      }
    }
    add_global_cables(spines, per_group * up / shape_.oversubscription);
  }

  // Group i's way to group j leaves at the spines (j − i − 1)·k … of its own counting, so that its
  // cables spread evenly over its spines.
  void add_global_cables(const std::vector<std::vector<VertexId>>& spines, BytesPerSecond out) {
    const int groups = static_cast<int>(spines.size());
    if (groups < 2) return;
    const int num_spines = static_cast<int>(spines.front().size());
    const int per_pair = std::max(1, num_spines / (groups - 1));
    const BytesPerSecond bandwidth = out / (groups - 1) / per_pair;
    const auto spine_of = [&](int from, int to, int c) {
      const int offset = (to - from - 1 + groups) % groups;
      return spines[as_index(from)][as_index((offset * per_pair + c) % num_spines)];
    };
    for (int i = 0; i < groups; ++i) {
      for (int j = i + 1; j < groups; ++j) {
        for (int c = 0; c < per_pair; ++c) cable(spine_of(i, j, c), spine_of(j, i, c), bandwidth);
      }
    }
  }

  void add_torus() {
    std::vector<VertexId> routers;
    for (int m = 0; m < num_machines(); ++m) {
      routers.push_back(add_switch(VertexKind::Router, "router" + std::to_string(m), m));
      add_ports(m, routers.back());
    }
    int stride = 1;
    // Cables of the first dimension come first: router.h's fixed choice is then dimension order.
    for (const int size : shape_.torus) {
      for (int m = 0; m < num_machines(); ++m) {
        const int at = m / stride % size;
        const int next = m + ((at + 1) % size - at) * stride;
        // A ring of two has one cable each way, not two.
        if (size == 1 || (size == 2 && at == 1)) continue;
        cable(routers[as_index(m)], routers[as_index(next)], torus_cable(cluster_, shape_));
      }
      stride *= size;
    }
  }

  const Cluster& cluster_;
  const FabricShape& shape_;
  Topology topology_;
  std::vector<const Node*> nodes_;  // By machine.
};

}  // namespace

FabricShape fabric_shape(const Cluster& cluster) {
  FabricShape shape;
  shape.kind = cluster.fabric.kind;
  shape.machines_per_leaf = std::max(1, cluster.fabric.nodes_per_leaf);
  shape.oversubscription = cluster.fabric.oversubscription;
  shape.switch_latency = cluster.fabric.switch_latency;
  int machines = 0;
  for (const NodeGroup& group : cluster.groups) machines += group.count;
  shape.levels = cluster.fabric.levels;
  shape.spines = cluster.fabric.spines;
  shape.leaves_per_pod = cluster.fabric.leaves_per_pod;
  if (cluster.fabric.cores_per_spine > 0) shape.cores_per_spine = cluster.fabric.cores_per_spine;
  shape.spray = routing_of(cluster) == FabricRouting::Spray;
  shape.torus = cluster.fabric.torus;
  if (shape.kind == FabricKind::Torus && shape.torus.empty()) {
    shape.torus = cube_of(std::max(1, machines));
  }
  return shape;
}

RoutingOptions routing_options(const Cluster& cluster) {
  const bool torus = cluster.fabric.kind == FabricKind::Torus && !cluster.fabric.graph;
  return {.choice = torus ? WayChoice::First : WayChoice::Hash};
}

BytesPerSecond torus_cable(const Cluster& cluster, const FabricShape& shape) {
  BytesPerSecond most;
  for (const NodeGroup& group : cluster.groups) {
    most = std::max(most, group.node.num_nics * group.node.nic_per_direction);
  }
  return most / (2 * static_cast<double>(shape.torus.size())) / shape.oversubscription;
}

int pod_leaves(const FabricShape& shape) {
  return shape.leaves_per_pod > 0 ? shape.leaves_per_pod : kLeavesPerPod;
}

int num_rails(const Cluster& cluster) {
  int rails = 1;
  for (const NodeGroup& group : cluster.groups) rails = std::max(rails, group.node.num_nics);
  return rails;
}

Result<Topology> build_topology(const Cluster& cluster, const FabricShape& shape) {
  return FabricBuilder(cluster, shape).build();
}

Result<Topology> build_topology(const Cluster& cluster) {
  return build_topology(cluster, fabric_shape(cluster));
}

}  // namespace megatwin::model
