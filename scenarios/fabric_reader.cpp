#include "scenarios/fabric_reader.h"

#include <string>

#include "model/counted.h"
#include "scenarios/imported_fabric.h"

namespace megatwin::scenarios {
namespace {

using model::Fabric;
using model::FabricKind;
using model::FabricRouting;

void read_kind(MapReader& reader, Fabric& fabric) {
  const auto kind = reader.choice<FabricKind>(
      "type", {{"fat-tree", FabricKind::FatTree},
               {"rail-optimized-fat-tree", FabricKind::RailOptimizedFatTree},
               {"single-switch", FabricKind::SingleSwitch},
               {"dragonfly+", FabricKind::Dragonfly},
               {"dragonfly", FabricKind::Dragonfly},
               {"torus", FabricKind::Torus},
               {"ideal", FabricKind::Ideal}});
  if (kind) fabric.kind = *kind;
  const auto routing = reader.choice<FabricRouting>(
      "routing", {{"ecmp", FabricRouting::Ecmp}, {"spray", FabricRouting::Spray}});
  if (routing) fabric.routing = *routing;
}

// A count of switches or machines that this kind of fabric has.
void read_count(MapReader& reader, const char* key, std::int64_t max, bool has_it, int& field,
                std::int64_t min = 1) {
  const auto count = reader.integer(key, {.min = min, .max = max});
  if (!count) return;
  if (!has_it) {
    reader.error_at(*reader.find(key), key, "means nothing on this type of fabric",
                    "levels, spines, leaves_per_pod and cores_per_spine: fat trees; spines and "
                    "leaves_per_pod: dragonfly+; torus: a torus");
    return;
  }
  field = static_cast<int>(*count);
}

void read_torus(MapReader& reader, const model::Cluster& cluster, Fabric& fabric) {
  const auto sizes = reader.integers("torus", {.min = 1, .max = 100'000});
  if (!sizes) return;
  const TreeNode& node = *reader.find("torus");
  if (fabric.kind != FabricKind::Torus) {
    reader.error_at(node, "torus", "the fabric is no torus", "type: torus beside it");
    return;
  }
  std::int64_t machines = 0, product = 1;
  for (const model::NodeGroup& group : cluster.groups) machines += group.count;
  for (const std::int64_t size : *sizes) {
    fabric.torus.push_back(static_cast<int>(size));
    if (product <= machines) product *= size;
  }
  if (machines == 0 || product == machines) return;
  reader.error_at(node, "torus", "does not hold " + model::counted(machines, "machine"),
                  "sizes whose product is the number of machines");
}

void read_shape(MapReader& reader, const model::Cluster& cluster, Fabric& fabric) {
  const bool tree =
      fabric.kind == FabricKind::FatTree || fabric.kind == FabricKind::RailOptimizedFatTree;
  const bool groups = fabric.kind == FabricKind::Dragonfly;
  const TreeNode* levels = reader.find("levels");
  if (tree && levels != nullptr && levels->text == "1") {
    reader.error_at(*levels, "levels", "a tree of one level is a single switch",
                    "2 or 3; or type: single-switch");
  } else {
    read_count(reader, "levels", 3, tree, fabric.levels, 2);
  }
  read_count(reader, "spines", 4096, tree || groups, fabric.spines);
  read_count(reader, "leaves_per_pod", 4096, tree || groups, fabric.leaves_per_pod);
  read_count(reader, "cores_per_spine", 4096, tree, fabric.cores_per_spine);
  read_count(reader, "nodes_per_leaf", 100'000, tree || groups, fabric.nodes_per_leaf);
  read_torus(reader, cluster, fabric);
}

// Names are those of a file.
void refuse_names(MapReader& parent) {
  const TreeNode* nodes = parent.find("nodes");
  if (nodes == nullptr || nodes->kind != TreeKind::Sequence) return;
  for (std::size_t i = 0; i < nodes->items.size(); ++i) {
    const TreeNode& item = nodes->items[i];
    const TreeNode* names = item.kind == TreeKind::Map ? item.find("names") : nullptr;
    if (names == nullptr) continue;
    parent.error_at(*names, "nodes[" + std::to_string(i) + "].names",
                    "means nothing where no file has these names", "fabric: {from: topology.conf}");
  }
}

// A file has switches and cables of its own.
void refuse_shape(MapReader& reader) {
  const char* allowed = "from with oversubscription, uplink, switch_latency, sharp, bandwidth";
  for (const char* key : {"type", "levels", "spines", "leaves_per_pod", "cores_per_spine",
                          "nodes_per_leaf", "torus"}) {
    if (const TreeNode* node = reader.find(key)) {
      reader.error_at(*node, key, "is what the file of from tells", allowed);
    }
  }
  if (const TreeNode* node = reader.find("routing")) {
    reader.error_at(*node, "routing",
                    "is not chosen with from: of equal ways between the file's switches each flow "
                    "takes one by its hash",
                    allowed);
  }
}

void refuse_uplink(MapReader& reader) {
  if (const TreeNode* node = reader.find("uplink")) {
    reader.error_at(*node, "uplink", "means nothing without from",
                    "from: topology.conf beside it; oversubscription, of a fabric by type");
  }
}

}  // namespace

void read_fabric(MapReader& parent, const std::string& folder, model::Cluster& cluster,
                 Remarks& remarks) {
  const TreeNode* node = parent.find("fabric");
  if (node == nullptr) {
    refuse_names(parent);
    if (cluster.num_gpus() > 0 && (cluster.groups.size() > 1 || cluster.groups[0].count > 1)) {
      remarks.assumptions.push_back(
          "The fabric was not given: a rail-optimised fat tree without oversubscription is taken.");
    }
    return;
  }
  MapReader reader(parent.context(), *node, parent.path_of("fabric"));
  Fabric& fabric = cluster.fabric;
  fabric.is_given = true;
  const bool from_file = reader.has("from");
  if (from_file) refuse_shape(reader);
  if (!from_file) refuse_uplink(reader);
  if (!from_file) refuse_names(parent);
  if (!from_file) read_kind(reader, fabric);
  if (!from_file) read_shape(reader, cluster, fabric);
  if (const auto ratio = reader.number("oversubscription", {.min = 1, .max = 1000})) {
    fabric.oversubscription = *ratio;
  }
  if (const auto latency = reader.read("switch_latency", parse_time, Zero::Allowed)) {
    fabric.switch_latency = *latency;
  }
  if (const auto sharp = reader.boolean("sharp")) fabric.sharp = *sharp;
  if (const auto bandwidth = reader.read("bandwidth", parse_bandwidth)) {
    for (model::NodeGroup& group : cluster.groups) group.node.nic_per_direction = *bandwidth;
  }
  if (from_file) read_switches(reader, parent.find("nodes"), folder, cluster, remarks);
  reader.finish();
}

}  // namespace megatwin::scenarios
