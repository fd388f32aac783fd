#include "scenarios/cluster_reader.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/counted.h"
#include "scenarios/fabric_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/hardware_reader.h"
#include "scenarios/hostlist.h"
#include "scenarios/imported_machine.h"

namespace megatwin::scenarios {
namespace {

using model::Gpu;
using model::HardwareCatalogue;
using model::Node;
using model::NodeGroup;
using model::NvlinkTopology;

constexpr IntegerRange kMachines{.min = 1, .max = 1'000'000};

std::vector<std::string> node_names(const HardwareCatalogue& catalogue) {
  std::vector<std::string> names;
  for (const auto& entry : catalogue.nodes) names.push_back(entry.first);
  return names;
}

// The machine that is usually built around a GPU: NVIDIA's own before the clouds'.
const Node* usual_node(const HardwareCatalogue& catalogue, const std::string& gpu_name) {
  for (const char* maker : {"dgx-", "hgx-", "gb"}) {
    for (const auto& [name, node] : catalogue.nodes) {
      if (node.gpu_name == gpu_name && name.starts_with(maker)) return &node;
    }
  }
  return nullptr;
}

NvlinkTopology usual_topology(const Gpu& gpu) {
  if (gpu.nvlink_per_direction.value <= 0) return NvlinkTopology::PcieOnly;
  return gpu.architecture == model::GpuArchitecture::Volta ? NvlinkTopology::HybridCubeMesh
                                                           : NvlinkTopology::Switch;
}

// A machine around a GPU when the scenario names no machine: the usual one, its NICs in proportion
// to the GPUs.
Node node_around(const Gpu& gpu, std::int64_t num_gpus, const HardwareCatalogue& catalogue,
                 Remarks& remarks) {
  Node node;
  const Node* usual = usual_node(catalogue, gpu.name);
  if (usual != nullptr) {
    node = *usual;
    node.num_nics = static_cast<int>(
        (std::int64_t{usual->num_nics} * num_gpus + usual->num_gpus - 1) / usual->num_gpus);
    remarks.assumptions.push_back("The machine around " + gpu.name + " was not named: that of " +
                                  usual->name +
                                  " is taken, its network adapters in proportion to the GPUs.");
  } else {
    node.nvlink_topology = usual_topology(gpu);
    node.num_nics = static_cast<int>(num_gpus);
    node.nic_per_direction = {50e9};
    node.nic_type = "NDR IB";
    node.nic_latency = {0.6e-6};
    remarks.assumptions.push_back("The machine around " + gpu.name +
                                  " was not named: one adapter of 400 Gbit/s a GPU is taken.");
  }
  node.name = std::to_string(num_gpus) + " × " + gpu.name;
  node.gpu_name = gpu.name;
  node.num_gpus = static_cast<int>(num_gpus);
  return node;
}

void remark_ambiguous_gpu(MapReader& reader, const Gpu& gpu, Remarks& remarks) {
  const TreeNode* word = reader.find("gpu");
  if (word == nullptr || word->text == gpu.name || !is_ambiguous_gpu_name(word->text)) return;
  remarks.assumptions.push_back("'" + word->text + "' names more than one part: " + gpu.name +
                                " is taken.");
}

// The machine that `type` names or that is built around `gpu`; nothing when neither is known.
std::optional<Node> read_machine(MapReader& reader, const HardwareCatalogue& catalogue,
                                 Remarks& remarks) {
  const TreeNode* type = reader.find("type");
  const std::optional<std::string> gpu_name = resolve_gpu(reader, "gpu", catalogue);
  if (type != nullptr) {
    if (!reader.is_scalar(*type, "type")) return std::nullopt;
    const auto found = catalogue.nodes.find(type->text);
    if (found == catalogue.nodes.end()) {
      reader.unknown_word(*type, "type", node_names(catalogue), "node type");
      return std::nullopt;
    }
    Node node = found->second;
    if (gpu_name) node.gpu_name = *gpu_name;
    return node;
  }
  if (!gpu_name) {
    if (!reader.has("gpu")) reader.require("type", "a node type, or gpu with what is around it");
    return std::nullopt;
  }
  // What is wrong with it is told where the machine's own keys are read.
  const TreeNode* gpus = reader.find("gpus");
  const auto given = parse_integer(gpus != nullptr ? gpus->text : "", {.min = 1, .max = 100'000});
  const std::int64_t num_gpus = given ? *given : 8;
  if (gpus == nullptr) {
    remarks.assumptions.push_back("The GPUs of one machine were not counted: 8 are taken.");
  }
  return node_around(catalogue.gpus.at(*gpu_name), num_gpus, catalogue, remarks);
}

// Names of the machines, as many as there are; what they are for is read with the fabric.
void check_names(MapReader& item, std::int64_t count) {
  const auto names = item.text("names");
  if (!names) return;
  const TreeNode& node = *item.find("names");
  const auto hosts = expand_hostlist(*names);
  if (!hosts) return item.error_at(node, "names", hosts.error().front().message, "node[1-4],node7");
  if (std::ssize(*hosts) == count) return;
  item.error_at(
      node, "names",
      "names " + std::to_string(hosts->size()) + " of " + model::counted(count, "machine"),
      "as many names as count");
}

void read_node_list(MapReader& reader, const TreeNode& list, const HardwareCatalogue& catalogue,
                    const std::string& folder, model::Cluster& cluster, Remarks& remarks) {
  if (list.items.empty()) reader.error_at(list, "nodes", "is empty", "at least one machine");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    MapReader item(reader.context(), list.items[i],
                   reader.path_of("nodes[" + std::to_string(i) + "]"));
    if (list.items[i].kind != TreeKind::Map) {
      if (list.items[i].kind == TreeKind::Null) item.require("type", "a node type");
      continue;
    }
    const std::optional<std::int64_t> count = item.integer("count", kMachines);
    std::optional<NodeGroup> group = read_machine_group(item, catalogue, folder, remarks);
    check_names(item, count.value_or(1));
    item.finish();
    if (!group) continue;
    group->count = static_cast<int>(count.value_or(1));
    cluster.groups.push_back(*std::move(group));
  }
}

// "64 of dgx-h100" → 64 and the type, as a map that read_machine_group() understands.
std::optional<std::pair<TreeNode, TreeNode>> split_count_of_type(const TreeNode& node) {
  const std::size_t of = node.text.find(" of ");
  if (of == std::string::npos) return std::nullopt;
  TreeNode count = node;
  count.text = node.text.substr(0, of);
  TreeNode type = node;
  type.text = node.text.substr(of + 4);
  TreeNode map{.kind = TreeKind::Map, .position = node.position};
  map.entries.push_back({"type", node.position, std::move(type)});
  return std::pair{std::move(count), std::move(map)};
}

void read_counted_nodes(MapReader& reader, const TreeNode& nodes,
                        const HardwareCatalogue& catalogue, const std::string& folder,
                        model::Cluster& cluster, Remarks& remarks) {
  const auto split = split_count_of_type(nodes);
  const TreeNode& count_node = split ? split->first : nodes;
  const model::Result<std::int64_t> count = parse_integer(count_node.text, kMachines);
  if (!count) {
    reader.error_at(nodes, "nodes", count.error().front().message,
                    "a number of machines, a list of them, or a word such as '64 of dgx-h100'");
  }
  std::optional<NodeGroup> group;
  if (split) {
    MapReader type(reader.context(), split->second, reader.path_of("nodes"));
    group = read_machine_group(type, catalogue, folder, remarks);
  } else {
    group = read_machine_group(reader, catalogue, folder, remarks);
  }
  if (!group || !count) return;
  group->count = static_cast<int>(*count);
  cluster.groups.push_back(*std::move(group));
}

// Keeps every product of sizes far from overflow, and machines joined.
void check_size(MapReader& reader, model::Cluster& cluster) {
  constexpr std::int64_t kGpusMax = 10'000'000;
  std::int64_t total = 0;
  for (const NodeGroup& group : cluster.groups) {
    total += std::int64_t{group.count} * group.node.num_gpus;
  }
  const bool alone = cluster.groups.size() == 1 && cluster.groups.front().count == 1;
  for (const NodeGroup& group : cluster.groups) {
    if (alone || group.node.num_nics > 0) continue;
    reader.error_at(*reader.find("nodes"), "nodes",
                    "several machines, but no adapters in a machine",
                    "nics greater than 0, or one machine");
    break;
  }
  if (total <= kGpusMax) return;
  reader.error_at(*reader.find("nodes"), "nodes",
                  "the cluster has " + std::to_string(total) + " GPUs",
                  "at most " + std::to_string(kGpusMax) + " GPUs");
  cluster.groups.clear();
}

}  // namespace

// Its other keys are read, and hence checked, in any case.
std::optional<NodeGroup> read_machine_group(MapReader& reader, const HardwareCatalogue& catalogue,
                                            const std::string& folder, Remarks& remarks) {
  const std::optional<Node> machine = read_machine(reader, catalogue, remarks);
  NodeGroup group;
  group.node = machine.value_or(Node{});
  read_node_fields(reader, group.node);
  if (!machine) {
    reader.find("topology");
    return std::nullopt;
  }
  fit_nvlink_matrix(group.node, catalogue);
  const auto gpu = catalogue.gpus.find(group.node.gpu_name);
  // A machine of the user's that has no GPU was reported where it is described.
  if (gpu == catalogue.gpus.end()) return std::nullopt;
  group.gpu = gpu->second;
  remark_ambiguous_gpu(reader, group.gpu, remarks);
  read_inside(reader, folder, group, remarks);
  return group;
}

model::Cluster read_cluster(MapReader& reader, const HardwareCatalogue& catalogue,
                            const std::string& folder, Remarks& remarks) {
  model::Cluster cluster;
  const TreeNode* nodes = reader.find("nodes");
  if (nodes == nullptr) {
    reader.require("nodes", "a list of machines, or their number with type or gpu beside it");
  } else if (nodes->kind == TreeKind::Sequence) {
    read_node_list(reader, *nodes, catalogue, folder, cluster, remarks);
  } else if (reader.is_scalar(*nodes, "nodes")) {
    read_counted_nodes(reader, *nodes, catalogue, folder, cluster, remarks);
  }
  check_size(reader, cluster);
  read_fabric(reader, folder, cluster, remarks);
  reader.finish();
  return cluster;
}

}  // namespace megatwin::scenarios
