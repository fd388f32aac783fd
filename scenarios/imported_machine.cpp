#include "scenarios/imported_machine.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "model/counted.h"
#include "model/topology/machine_topology.h"
#include "model/topology/topology.h"
#include "scenarios/nccl_topology.h"
#include "scenarios/nvidia_smi_topology.h"

namespace megatwin::scenarios {
namespace {

using model::BytesPerSecond;
using model::LinkKind;
using model::Topology;
using model::VertexId;
using model::VertexKind;

constexpr const char* kWanted = "an NCCL topology XML, or what nvidia-smi topo -m prints";

// What a file tells of one machine.
struct Told {
  Topology topology;
  bool tells_nvlinks = true;
  std::set<BytesPerSecond> adapters;  // Rates.
  model::Diagnostics warnings;
};

// The same machine with its parts of this kind in this order, named by it.
Topology reordered(const Topology& topology, VertexKind kind, const std::vector<VertexId>& order) {
  Topology sorted;
  std::map<VertexId, VertexId> new_id;
  const auto add = [&](VertexId id, int position) {
    model::Vertex vertex = topology.vertex(id);
    vertex.position = position;
    vertex.name = "n0/" + std::string(name_of(vertex.kind)) + std::to_string(position);
    new_id[id] = sorted.add_vertex(std::move(vertex));
  };
  for (VertexId id; id.value < topology.num_vertices(); ++id.value) {
    if (topology.vertex(id).kind != kind) add(id, topology.vertex(id).position);
  }
  for (std::size_t n = 0; n < order.size(); ++n) add(order[n], static_cast<int>(n));
  for (model::LinkId id; id.value < topology.num_links(); ++id.value) {
    model::Link link = topology.link(id);
    link.from = new_id.at(link.from);
    link.to = new_id.at(link.to);
    sorted.add_link(link);
  }
  return sorted;
}

// GPU i is the device i of CUDA, where every GPU has a number of its own.
void sort_gpus(const std::vector<std::optional<long>>& devices, Topology& topology) {
  const std::set<std::optional<long>> known(devices.begin(), devices.end());
  const auto num_gpus = static_cast<std::size_t>(topology.num_gpus());
  if (devices.size() != num_gpus || known.size() != num_gpus) return;
  if (known.contains(std::nullopt)) return;
  if (std::is_sorted(devices.begin(), devices.end())) return;
  std::vector<VertexId> order;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    order.push_back(topology.gpu({static_cast<int>(i)}));
  }
  std::stable_sort(order.begin(), order.end(), [&](VertexId a, VertexId b) {
    const auto device = [&](VertexId id) {
      return devices[static_cast<std::size_t>(topology.vertex(id).position)];
    };
    return device(a) < device(b);
  });
  topology = reordered(topology, VertexKind::Gpu, order);
}

model::Result<Told> read_told(const std::string& path) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '<') {
    MEGATWIN_TRY(NvidiaSmiTopology matrix, parse_nvidia_smi_topology(path, text));
    return Told{.topology = std::move(matrix.topology), .warnings = std::move(matrix.warnings)};
  }
  MEGATWIN_TRY(NcclTopology xml, parse_nccl_topology(path, text));
  Told told{.topology = std::move(xml.topology),
            .tells_nvlinks = xml.num_gpu_elements > 0,
            .warnings = std::move(xml.warnings)};
  for (const NcclTopology::Net& net : xml.nets) told.adapters.insert(net.rate);
  sort_gpus(xml.gpu_devices, told.topology);
  return told;
}

// Hops from a part to every other, NVLink left out.
std::vector<int> pcie_hops(const Topology& topology, VertexId from) {
  std::vector<int> hops(static_cast<std::size_t>(topology.num_vertices()), -1);
  std::deque<VertexId> next = {from};
  hops[static_cast<std::size_t>(from.value)] = 0;
  while (!next.empty()) {
    const VertexId at = next.front();
    next.pop_front();
    for (const model::LinkId id : topology.links_from(at)) {
      const model::Link& link = topology.link(id);
      int& there = hops[static_cast<std::size_t>(link.to.value)];
      if (link.kind == LinkKind::Nvlink || there >= 0) continue;
      there = hops[static_cast<std::size_t>(at.value)] + 1;
      next.push_back(link.to);
    }
  }
  return hops;
}

// Adapters in the order of the first of the GPUs that they are nearest to.
std::vector<VertexId> sorted_adapters(const Topology& topology) {
  if (topology.num_machines() == 0) return {};  // Refused for want of GPUs.
  std::vector<std::pair<int, VertexId>> order;
  const Topology::Machine& machine = topology.machine(0);
  for (const VertexId nic : machine.nics) {
    const std::vector<int> hops = pcie_hops(topology, nic);
    int nearest = -1, best = 0;
    for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
      const int its = hops[static_cast<std::size_t>(machine.gpus[g].value)];
      if (its >= 0 && (nearest < 0 || its < best)) nearest = static_cast<int>(g), best = its;
    }
    order.emplace_back(nearest, nic);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<VertexId> sorted;
  sorted.reserve(order.size());
  for (const auto& [nearest, nic] : order) sorted.push_back(nic);
  return sorted;
}

// The node's adapters on the switches of their GPUs.
void add_adapters(const model::Node& node, const model::Gpu& gpu, Topology& topology) {
  const std::vector<VertexId> gpus = topology.machine(0).gpus;
  for (int n = 0; n < node.num_nics; ++n) {
    const VertexId beside =
        gpus[static_cast<std::size_t>(n * node.num_gpus / std::max(node.num_nics, 1))];
    for (const model::LinkId id : topology.links_from(beside)) {
      const model::Link link = topology.link(id);
      if (link.kind != LinkKind::Pcie) continue;
      const VertexId nic = topology.add_vertex({.kind = VertexKind::Nic,
                                                .name = "n0/nic" + std::to_string(n),
                                                .machine = 0,
                                                .position = n});
      topology.add_cable({.from = nic,
                          .to = link.to,
                          .bandwidth = std::max(gpu.pcie_per_direction, node.nic_per_direction),
                          .kind = LinkKind::Pcie});
      break;
    }
  }
}

// A machine's adapters are as fast as each other here.
void take_rates(const TreeNode& at, const std::set<BytesPerSecond>& rates, model::Node& node,
                Remarks& remarks) {
  if (rates.size() == 1) node.nic_per_direction = *rates.begin();
  if (rates.size() < 2) return;
  char text[160];
  std::snprintf(text, sizeof text,
                ": its adapters are of %.4g to %.4g Gbit/s; all are taken to be as fast as those "
                "of %s, %.4g Gbit/s; nic_bandwidth beside it says otherwise",
                8e-9 * rates.begin()->value, 8e-9 * rates.rbegin()->value, node.name.c_str(),
                8e-9 * node.nic_per_direction.value);
  remarks.warnings.push_back(at.text + text);
}

}  // namespace

void read_inside(MapReader& reader, const std::string& folder, model::NodeGroup& group,
                 Remarks& remarks) {
  const TreeNode* at = reader.find("topology");
  if (at == nullptr || !reader.is_scalar(*at, "topology")) return;
  if (at->text.empty()) return reader.error_at(*at, "topology", "names no file", kWanted);
  model::Result<Told> told = read_told(resolved_path(*at, folder));
  if (!told) {
    reader.error_at(*at, "topology", quoted(at->text) + " cannot be read as a machine", kWanted);
    return reader.context().append(told.error());
  }
  model::Node& node = group.node;
  Topology topology = reordered(told->topology, VertexKind::Nic, sorted_adapters(told->topology));
  const int adapters =
      topology.num_machines() > 0 ? static_cast<int>(topology.machine(0).nics.size()) : 0;
  const auto unlike = [&](int found, int wanted, const char* what, const char* key) {
    reader.error_at(*at, "topology",
                    quoted(at->text) + " has " + model::counted(found, what) + ", " + node.name +
                        " has " + std::to_string(wanted),
                    (found > 0 ? std::string(key) + ": " + std::to_string(found) + " beside it, or "
                               : std::string()) +
                        "a file with " + std::to_string(wanted));
  };
  if (topology.num_gpus() != node.num_gpus) {
    return unlike(topology.num_gpus(), node.num_gpus, "GPU", "gpus");
  }
  if (adapters > 0 && adapters != node.num_nics) {
    return unlike(adapters, node.num_nics, "adapter", "nics");
  }
  if (adapters == 0 && node.num_nics > 0) {
    add_adapters(node, group.gpu, topology);
    remarks.assumptions.push_back(at->text + " tells of no network adapters: those of " +
                                  node.name + " are taken, each beside its GPUs.");
  }
  if (!told->tells_nvlinks && group.gpu.nvlink_per_direction.value > 0) {
    add_nvlinks(topology, node, group.gpu, 0);
    remarks.assumptions.push_back(at->text + " tells of no NVLinks: those of " + node.name +
                                  " are taken.");
  }
  if (!reader.has("nic_bandwidth")) take_rates(*at, told->adapters, node, remarks);
  if (model::Diagnostics faults = topology.check(); !faults.empty()) {
    for (model::Diagnostic& fault : faults) fault.file = at->text;
    return reader.context().append(faults);
  }
  for (const model::Diagnostic& warning : told->warnings) {
    remarks.warnings.push_back(
        at->text + (warning.line > 0 ? ":" + std::to_string(warning.line) : std::string()) +
        (warning.column > 0 ? ":" + std::to_string(warning.column) : std::string()) + ": " +
        warning.message);
  }
  node.inside = std::make_shared<const Topology>(std::move(topology));
}

}  // namespace megatwin::scenarios
