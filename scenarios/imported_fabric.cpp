#include "scenarios/imported_fabric.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/counted.h"
#include "model/topology/switch_graph.h"
#include "scenarios/hostlist.h"
#include "scenarios/ibnetdiscover.h"
#include "scenarios/slurm_topology.h"

namespace megatwin::scenarios {
namespace {

using model::BytesPerSecond;
using model::SwitchGraph;
using model::VertexKind;
using Names = std::vector<std::string>;

constexpr const char* kWantedFabric =
    "Slurm's topology.conf or topology.yaml, or what ibnetdiscover prints";

// What a file tells: the switches, and who hangs on which.
struct ToldFabric {
  SwitchGraph graph;  // Cables of Slurm's without rates; no ports.
  Names hosts;        // In the file's order.
  std::map<std::string, std::vector<SwitchGraph::Port>> ports;  // One of Slurm's: all adapters.
  std::vector<int> hosts_below;                                 // By switch; Slurm's only.
  bool tells_rates = false;
};

// Of several the default; the only one else.
model::Result<SlurmTopology> slurm_tree(const std::string& path, const std::string& text) {
  const bool yaml = text.find("SwitchName=") == std::string::npos &&
                    text.find("switchname=") == std::string::npos &&
                    text.find("BlockName=") == std::string::npos;
  std::vector<SlurmTopology> all;
  if (yaml) {
    MEGATWIN_TRY(all, parse_slurm_topology_yaml(path, text));
  } else {
    MEGATWIN_TRY(SlurmTopology one, parse_slurm_topology(path, text));
    all.push_back(std::move(one));
  }
  const auto chosen = std::find_if(all.begin(), all.end(), [&](const SlurmTopology& topology) {
    return topology.is_default || all.size() == 1;
  });
  if (chosen == all.end()) {
    return model::fail({.file = path,
                        .message = "holds several topologies, none of them the default",
                        .allowed = "cluster_default: true on one of them"});
  }
  if (chosen->kind != "tree") {
    return model::fail(
        {.file = path,
         .message = "is a topology of kind " + chosen->kind + ", which tells of no switches",
         .allowed = "a tree: SwitchName= with Switches= and Nodes="});
  }
  return *chosen;
}

// Nodes in the switches below, by depth first; a switch that two hang above counts for both.
int count_below(const SlurmTopology& tree, const std::map<std::string, int>& index, int at,
                std::vector<int>& below) {
  int& known = below[static_cast<std::size_t>(at)];
  if (known >= 0) return known;
  const SlurmSwitch& one = tree.switches[static_cast<std::size_t>(at)];
  int count = static_cast<int>(one.nodes.size());
  for (const std::string& child : one.switches) {
    count += count_below(tree, index, index.at(child), below);
  }
  return known = count;
}

model::Result<ToldFabric> told_by_slurm(const std::string& path, const std::string& text) {
  MEGATWIN_TRY(const SlurmTopology tree, slurm_tree(path, text));
  ToldFabric told;
  std::map<std::string, int> index;
  for (const SlurmSwitch& one : tree.switches) {
    index.emplace(one.name, static_cast<int>(index.size()));
  }
  for (const SlurmSwitch& one : tree.switches) {
    const bool above_leaf =
        std::any_of(one.switches.begin(), one.switches.end(), [&](const std::string& child) {
          return !tree.switches[static_cast<std::size_t>(index.at(child))].nodes.empty();
        });
    told.graph.switches.push_back({one.name, !one.nodes.empty() ? VertexKind::Leaf
                                             : above_leaf       ? VertexKind::Spine
                                                                : VertexKind::Core});
    const int own = index.at(one.name);
    for (const std::string& child : one.switches) {
      told.graph.cables.push_back({.from = index.at(child), .to = own});
    }
    for (const std::string& node : one.nodes) {
      if (!told.ports.emplace(node, std::vector{SwitchGraph::Port{.at = own}}).second) {
        return model::fail({.file = path,
                            .message = "the node " + quoted(node) + " hangs on two switches",
                            .allowed = "every node once"});
      }
      told.hosts.push_back(node);
    }
  }
  told.hosts_below.assign(tree.switches.size(), -1);
  for (std::size_t i = 0; i < tree.switches.size(); ++i) {
    count_below(tree, index, static_cast<int>(i), told.hosts_below);
  }
  return told;
}

// The number at the end of an adapter's name, "host mlx5_10" after "host mlx5_9".
int adapter_number(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  int number = 0;
  const char* digits = name.data() + (last == std::string::npos ? 0 : last + 1);
  std::from_chars(digits, name.data() + name.size(), number);
  return number;
}

model::Result<ToldFabric> told_by_infiniband(const std::string& path, const std::string& text,
                                             Remarks& remarks) {
  MEGATWIN_TRY(const IbFabric fabric, parse_ibnetdiscover(path, text));
  for (const model::Diagnostic& warning : fabric.warnings) {
    remarks.warnings.push_back(path + ": " + warning.message);
  }
  ToldFabric told{.tells_rates = true};
  const model::Topology& graph = fabric.topology;
  std::map<model::VertexId, int> index;
  std::map<std::string, int> named;
  struct Adapter {
    int number = 0;
    SwitchGraph::Port port;
  };
  std::map<std::string, std::vector<Adapter>> adapters;
  for (model::VertexId id; id.value < graph.num_vertices(); ++id.value) {
    const model::Vertex& vertex = graph.vertex(id);
    if (!is_fabric(vertex.kind)) continue;
    index[id] = static_cast<int>(told.graph.switches.size());
    // Names are the administrator's and need not differ.
    const int same = named[vertex.name]++;
    told.graph.switches.push_back(
        {same == 0 ? vertex.name : vertex.name + " (" + std::to_string(same + 1) + ")",
         vertex.kind});
  }
  for (model::LinkId id; id.value < graph.num_links(); ++id.value) {
    const model::Link& link = graph.link(id);
    if (link.kind == model::LinkKind::Fabric) {
      // Either end tells of the cable.
      if (link.from < link.to) {
        told.graph.cables.push_back({index.at(link.from), index.at(link.to), link.bandwidth});
      }
    } else if (is_fabric(graph.vertex(link.from).kind)) {
      const std::string& name = graph.vertex(link.to).name;  // "host mlx5_0 H-…"
      const std::string device = name.substr(0, name.rfind(' '));
      const std::string host = device.substr(0, device.find(' '));
      if (!adapters.contains(host)) told.hosts.push_back(host);
      adapters[host].push_back(
          {adapter_number(device), {.at = index.at(link.from), .bandwidth = link.bandwidth}});
    }
  }
  for (auto& [host, list] : adapters) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Adapter& a, const Adapter& b) { return a.number < b.number; });
    for (const Adapter& adapter : list) told.ports[host].push_back(adapter.port);
  }
  return told;
}

model::Result<ToldFabric> read_told_fabric(const std::string& path, Remarks& remarks) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    return model::fail({.file = path, .message = "is empty", .allowed = kWantedFabric});
  }
  if (text[first] == '<') {
    return model::fail({.file = path,
                        .message = "is XML, which tells of one machine and not of switches",
                        .allowed = kWantedFabric});
  }
  const bool infiniband =
      text.find("vendid=") != std::string::npos || text.find("caguid=") != std::string::npos;
  return infiniband ? told_by_infiniband(path, text, remarks) : told_by_slurm(path, text);
}

// Which root's island each switch is part of.
std::vector<int> islands_of(const SwitchGraph& graph) {
  std::vector<int> parent;
  for (std::size_t i = 0; i < graph.switches.size(); ++i) parent.push_back(static_cast<int>(i));
  const auto root = [&](int at) {
    while (parent[static_cast<std::size_t>(at)] != at) at = parent[static_cast<std::size_t>(at)];
    return at;
  };
  for (const SwitchGraph::Cable& cable : graph.cables) {
    const int a = root(cable.from), b = root(cable.to);
    parent[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
  }
  for (std::size_t i = 0; i < parent.size(); ++i) parent[i] = root(static_cast<int>(i));
  return parent;
}

class SwitchReader {
 public:
  SwitchReader(MapReader& fabric, const TreeNode& at, ToldFabric told, model::Cluster& cluster)
      : fabric_(fabric), at_(at), told_(std::move(told)), cluster_(cluster) {}

  // The machines by name, as many as the cluster's; nothing when that was reported.
  bool place(const TreeNode* nodes) {
    std::size_t machines = 0;
    for (const model::NodeGroup& group : cluster_.groups) {
      machines += static_cast<std::size_t>(group.count);
    }
    Names names = given_names(nodes);
    if (names.empty()) {
      if (told_.hosts.size() != machines) {
        fabric_.error_at(at_, "from",
                         quoted(at_.text) + " has " +
                             model::counted(static_cast<std::int64_t>(told_.hosts.size()), "node") +
                             ", the cluster " +
                             model::counted(static_cast<std::int64_t>(machines), "machine"),
                         "as many, or names beside count: " + told_.hosts.front() + ",…");
        return false;
      }
      names = told_.hosts;
    }
    if (names.size() != machines) {
      fabric_.error_at(at_, "from", "some machines have names and others none",
                       "names beside every count, or beside none");
      return false;
    }
    return add_ports(names);
  }

  void finish(std::optional<BytesPerSecond> uplink) {
    model::Fabric& fabric = cluster_.fabric;
    if (!told_.tells_rates) {
      BytesPerSecond injection;
      for (const model::NodeGroup& group : cluster_.groups) {
        injection = std::max(injection, group.node.num_nics * group.node.nic_per_direction);
      }
      for (SwitchGraph::Cable& cable : told_.graph.cables) {
        const int below = told_.hosts_below[static_cast<std::size_t>(cable.from)];
        cable.bandwidth =
            uplink ? *uplink : std::max(1, below) * injection / fabric.oversubscription;
      }
    }
    std::map<int, int> on_leaf;
    for (const auto& ports : told_.graph.ports) ++on_leaf[ports.front().at];
    int most = 1;
    for (const auto& [leaf, machines] : on_leaf) most = std::max(most, machines);
    fabric.kind = model::FabricKind::FatTree;
    fabric.nodes_per_leaf = most;
    told_.graph.file = at_.text;
    fabric.graph = std::make_shared<const SwitchGraph>(std::move(told_.graph));
  }

 private:
  Names given_names(const TreeNode* nodes) {
    Names names;
    if (nodes == nullptr || nodes->kind != TreeKind::Sequence) return names;
    for (const TreeNode& item : nodes->items) {
      const TreeNode* list = item.kind == TreeKind::Map ? item.find("names") : nullptr;
      if (list == nullptr || list->kind != TreeKind::Scalar) continue;
      const auto hosts = expand_hostlist(list->text);
      if (hosts) names.insert(names.end(), hosts->begin(), hosts->end());
    }
    return names;
  }

  bool add_ports(const Names& names) {
    const std::vector<int> islands = islands_of(told_.graph);
    std::size_t machine = 0;
    std::map<std::string, int> seen;
    for (const model::NodeGroup& group : cluster_.groups) {
      for (int i = 0; i < group.count; ++i, ++machine) {
        const std::string& name = names[machine];
        const auto found = told_.ports.find(name);
        if (found == told_.ports.end()) {
          fabric_.error_at(at_, "from", quoted(at_.text) + " has no node " + quoted(name),
                           allowed_names(name, told_.hosts));
          return false;
        }
        if (!seen.emplace(name, 1).second) {
          fabric_.error_at(at_, "from", "the node " + quoted(name) + " is named twice",
                           "every machine once");
          return false;
        }
        std::vector<SwitchGraph::Port> ports = found->second;
        const auto wanted = static_cast<std::size_t>(group.node.num_nics);
        if (!told_.tells_rates) ports.assign(wanted, ports.front());
        if (ports.size() != wanted) {
          fabric_.error_at(at_, "from",
                           quoted(name) + " has " +
                               model::counted(static_cast<std::int64_t>(ports.size()), "adapter") +
                               " in " + quoted(at_.text) + ", " + group.node.name + " has " +
                               std::to_string(wanted),
                           "nics: " + std::to_string(ports.size()) + " beside its type");
          return false;
        }
        told_.graph.ports.push_back(std::move(ports));
      }
    }
    for (std::size_t m = 0; m < names.size(); ++m) {
      const int own = islands[static_cast<std::size_t>(told_.graph.ports[m].front().at)];
      const int first = islands[static_cast<std::size_t>(told_.graph.ports[0].front().at)];
      if (own == first) continue;
      fabric_.error_at(at_, "from",
                       "no switch of " + quoted(at_.text) + " joins " + quoted(names[0]) + " and " +
                           quoted(names[m]),
                       "machines below one switch; name them by names");
      return false;
    }
    return true;
  }

  MapReader& fabric_;
  const TreeNode& at_;
  ToldFabric told_;
  model::Cluster& cluster_;
};

}  // namespace

void read_switches(MapReader& fabric, const TreeNode* nodes, const std::string& folder,
                   model::Cluster& cluster, Remarks& remarks) {
  const TreeNode& at = *fabric.find("from");
  const auto uplink = fabric.read("uplink", parse_bandwidth);
  if (uplink && fabric.has("oversubscription")) {
    fabric.error_at(*fabric.find("uplink"), "uplink",
                    "and oversubscription both say how wide the way up of a switch is",
                    "one of uplink and oversubscription");
  }
  if (!fabric.is_scalar(at, "from") || cluster.groups.empty()) return;
  if (at.text.empty()) return fabric.error_at(at, "from", "names no file", kWantedFabric);
  model::Result<ToldFabric> told = read_told_fabric(resolved_path(at, folder), remarks);
  if (!told) {
    fabric.error_at(at, "from", quoted(at.text) + " cannot be read as a network", kWantedFabric);
    return fabric.context().append(told.error());
  }
  if (uplink && told->tells_rates) {
    fabric.error_at(*fabric.find("uplink"), "uplink",
                    quoted(at.text) + " tells the rate of every cable", "no uplink");
    return;
  }
  if (told->hosts.empty()) {
    fabric.error_at(at, "from", quoted(at.text) + " has no nodes", "switches with nodes on them");
    return;
  }
  const bool rates = told->tells_rates;
  SwitchReader reader(fabric, at, *std::move(told), cluster);
  if (!reader.place(nodes)) return;
  reader.finish(uplink);
  if (rates || uplink) return;
  remarks.assumptions.push_back(at.text +
                                " tells no rates: the way up of every switch is taken as wide as "
                                "what its nodes inject, over fabric.oversubscription.");
}

}  // namespace megatwin::scenarios
