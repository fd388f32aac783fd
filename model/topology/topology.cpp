#include "model/topology/topology.h"

#include <algorithm>
#include <utility>

#include "model/assert.h"
#include "model/topology/graph_search.h"

namespace megatwin::model {
namespace {

// Names at most a handful, so that a message about thousands stays readable.
constexpr std::size_t kNamesMax = 4;

std::string join_names(const Topology& topology, const std::vector<VertexId>& vertices) {
  std::string text;
  for (std::size_t i = 0; i < vertices.size() && i < kNamesMax; ++i) {
    text += (i > 0 ? ", " : "") + topology.vertex(vertices[i]).name;
  }
  if (vertices.size() > kNamesMax) {
    text += " and " + std::to_string(vertices.size() - kNamesMax) + " more";
  }
  return text;
}

void check_bandwidths(const Topology& topology, Diagnostics& faults) {
  int count = 0;
  LinkId first;
  for (LinkId link; link.value < topology.num_links(); ++link.value) {
    if (topology.link(link).bandwidth.value > 0) continue;
    if (count++ == 0) first = link;
  }
  if (count == 0) return;
  std::string message = "the link " + topology.link_name(first) + " has no bandwidth";
  if (count > 1) message += ", nor have " + std::to_string(count - 1) + " others";
  faults.push_back({.message = message, .allowed = "more than 0 B/s; a cut link is left out"});
}

void check_names(const Topology& topology, Diagnostics& faults) {
  std::vector<std::string_view> names;
  for (VertexId v; v.value < topology.num_vertices(); ++v.value) {
    names.push_back(topology.vertex(v).name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  faults.push_back({.message = "two parts are named '" + std::string(*twice) + "'",
                    .allowed = "one name a part"});
}

void check_islands(const Topology& topology, Diagnostics& faults) {
  const std::vector<int> component = connected_components(topology);
  std::vector<VertexId> apart;
  const auto home = component[static_cast<std::size_t>(topology.gpu(RankId{0}).value)];
  for (RankId rank; rank.value < topology.num_gpus(); ++rank.value) {
    const VertexId gpu = topology.gpu(rank);
    if (component[static_cast<std::size_t>(gpu.value)] != home) apart.push_back(gpu);
  }
  if (apart.empty()) return;
  faults.push_back({.message = "no cable joins " + topology.vertex(topology.gpu(RankId{0})).name +
                               " with " + join_names(topology, apart),
                    .allowed = "a network in which every GPU reaches every other"});
}

}  // namespace

std::string_view name_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::Gpu:
      return "gpu";
    case VertexKind::NvSwitch:
      return "nvswitch";
    case VertexKind::PcieSwitch:
      return "pcie";
    case VertexKind::Socket:
      return "socket";
    case VertexKind::Nic:
      return "nic";
    case VertexKind::Router:
      return "router";
    case VertexKind::Leaf:
      return "leaf";
    case VertexKind::Spine:
      return "spine";
    case VertexKind::Core:
      return "core";
  }
  return "gpu";
}

std::string_view name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::Nvlink:
      return "nvlink";
    case LinkKind::Pcie:
      return "pcie";
    case LinkKind::Socket:
      return "socket";
    case LinkKind::Port:
      return "port";
    case LinkKind::Fabric:
      return "fabric";
  }
  return "fabric";
}

bool is_fabric(VertexKind kind) {
  return kind == VertexKind::Router || kind == VertexKind::Leaf || kind == VertexKind::Spine ||
         kind == VertexKind::Core;
}

VertexId Topology::add_vertex(Vertex vertex) {
  const VertexId id{num_vertices()};
  if (vertex.machine >= num_machines()) {
    machines_.resize(static_cast<std::size_t>(vertex.machine) + 1);
  }
  if (vertex.kind == VertexKind::Gpu) gpus_.push_back(id);
  if (vertex.machine >= 0) {
    Machine& machine = machines_[static_cast<std::size_t>(vertex.machine)];
    if (vertex.kind == VertexKind::Gpu) machine.gpus.push_back(id);
    if (vertex.kind == VertexKind::Nic) machine.nics.push_back(id);
  }
  vertices_.push_back(std::move(vertex));
  out_.emplace_back();
  return id;
}

LinkId Topology::add_link(Link link) {
  MEGATWIN_ASSERT(link.from.value < num_vertices() && link.to.value < num_vertices(),
                  "link between vertices ", link.from.value, " and ", link.to.value);
  const LinkId id{num_links()};
  links_.push_back(link);
  out_[index(link.from)].push_back(id);
  return id;
}

LinkId Topology::add_cable(Link there) {
  const LinkId id = add_link(there);
  std::swap(there.from, there.to);
  add_link(there);
  return id;
}

void Topology::cut_cable(LinkId id) {
  Link& there = links_[index(id)];
  there.up = false;
  // add_cable() gives the two directions neighbouring identities; an importer may not.
  for (const LinkId back : out_[index(there.to)]) {
    if (links_[index(back)].to == there.from && links_[index(back)].up) {
      links_[index(back)].up = false;
      return;
    }
  }
}

void Topology::set_bandwidth(LinkId link, BytesPerSecond bandwidth) {
  links_[index(link)].bandwidth = bandwidth;
}

void Topology::set_uptime(LinkId link, double uptime) {
  MEGATWIN_ASSERT(0 < uptime && uptime <= 1, uptime);
  links_[index(link)].uptime = uptime;
}

std::string Topology::link_name(LinkId id) const {
  return vertex(link(id).from).name + " -> " + vertex(link(id).to).name;
}

LinkId Topology::find_link(std::string_view from, std::string_view to) const {
  for (LinkId id; id.value < num_links(); ++id.value) {
    if (link(id).up && vertex(link(id).from).name == from && vertex(link(id).to).name == to) {
      return id;
    }
  }
  return LinkId{-1};
}

Diagnostics Topology::check() const {
  if (num_gpus() == 0) {
    return {{.message = "the topology has no GPU", .allowed = "at least one"}};
  }
  Diagnostics faults;
  check_bandwidths(*this, faults);
  check_names(*this, faults);
  check_islands(*this, faults);
  return faults;
}

}  // namespace megatwin::model
