#include "model/topology/machine_topology.h"

#include <algorithm>
#include <string>
#include <vector>

namespace megatwin::model {
namespace {

constexpr int kGpusOfDgx2 = 16;

class MachineBuilder {
 public:
  MachineBuilder(Topology& topology, const Node& node, const Gpu& gpu, int machine)
      : topology_(topology), node_(node), gpu_(gpu), machine_(machine) {}

  void build() {
    for (int g = 0; g < node_.num_gpus; ++g) gpus_.push_back(add(VertexKind::Gpu, g));
    add_nvlink();
    add_pcie();
  }

  void add_nvlink_alone() {
    gpus_ = topology_.machine(machine_).gpus;
    add_nvlink();
  }

 private:
  VertexId add(VertexKind kind, int position) {
    return topology_.add_vertex({.kind = kind,
                                 .name = "n" + std::to_string(machine_) + "/" +
                                         std::string(name_of(kind)) + std::to_string(position),
                                 .machine = machine_,
                                 .position = position});
  }

  void cable(VertexId from, VertexId to, BytesPerSecond bandwidth, LinkKind kind) {
    topology_.add_cable({.from = from, .to = to, .bandwidth = bandwidth, .kind = kind});
  }

  void add_nvlink() {
    if (gpu_.nvlink_per_direction.value <= 0) return;
    switch (node_.nvlink_topology) {
      case NvlinkTopology::Switch:
        add_nvswitch();
        return;
      case NvlinkTopology::HybridCubeMesh:
        add_mesh();
        return;
      case NvlinkTopology::None:
      case NvlinkTopology::PcieOnly:
        return;
    }
  }

  void add_nvswitch() {
    if (node_.num_gpus < 2) return;
    // DGX-2: six switches on each of two boards; every switch has eight links to its twin.
    // Source: NVIDIA DGX-2 system architecture: bisection 2.4 TB/s both ways.
    const bool two_boards =
        gpu_.architecture == GpuArchitecture::Volta && node_.num_gpus == kGpusOfDgx2;
    const int num_boards = two_boards ? 2 : 1;
    std::vector<VertexId> boards;
    boards.reserve(static_cast<std::size_t>(num_boards));
    for (int b = 0; b < num_boards; ++b) boards.push_back(add(VertexKind::NvSwitch, b));
    for (int g = 0; g < node_.num_gpus; ++g) {
      const auto board = static_cast<std::size_t>(g * num_boards / node_.num_gpus);
      cable(gpus_[static_cast<std::size_t>(g)], boards[board], gpu_.nvlink_per_direction,
            LinkKind::Nvlink);
    }
    if (two_boards) {
      constexpr int kGpusOfBoard = kGpusOfDgx2 / 2;
      cable(boards[0], boards[1], kGpusOfBoard * gpu_.nvlink_per_direction, LinkKind::Nvlink);
    }
  }

  void add_mesh() {
    const BytesPerSecond one = gpu_.nvlink_per_direction / std::max(1, gpu_.nvlink_links);
    const auto& matrix = node_.nvlink_matrix;
    for (std::size_t a = 0; a < matrix.size() && a < gpus_.size(); ++a) {
      for (std::size_t b = a + 1; b < matrix[a].size() && b < gpus_.size(); ++b) {
        if (matrix[a][b] > 0) cable(gpus_[a], gpus_[b], matrix[a][b] * one, LinkKind::Nvlink);
      }
    }
  }

  int num_pcie_switches() const {
    const bool one_each = gpu_.architecture == GpuArchitecture::Hopper ||
                          gpu_.architecture == GpuArchitecture::Blackwell ||
                          gpu_.architecture == GpuArchitecture::Cdna3;
    return std::max(1, one_each ? node_.num_gpus : (node_.num_gpus + 1) / 2);
  }

  void add_pcie() {
    const int num_switches = num_pcie_switches();
    // A rack of trays has a Grace for every two GPUs and no link between trays but NVLink.
    const bool rack = node_.num_gpus > kGpusOfDgx2;
    const int num_sockets = rack ? node_.num_gpus / 2 : std::min(2, num_switches);
    std::vector<VertexId> sockets, switches;
    for (int s = 0; s < num_sockets; ++s) sockets.push_back(add(VertexKind::Socket, s));
    for (int s = 0; s < num_switches; ++s) {
      switches.push_back(add(VertexKind::PcieSwitch, s));
      const auto socket = static_cast<std::size_t>(s * num_sockets / num_switches);
      cable(switches.back(), sockets[socket], pcie(), LinkKind::Pcie);
    }
    for (int g = 0; g < node_.num_gpus; ++g) {
      const auto at = static_cast<std::size_t>(g * num_switches / node_.num_gpus);
      cable(gpus_[static_cast<std::size_t>(g)], switches[at], pcie(), LinkKind::Pcie);
    }
    for (int n = 0; n < node_.num_nics; ++n) {
      const VertexId nic = add(VertexKind::Nic, n);
      const auto at = static_cast<std::size_t>(n * num_switches / node_.num_nics);
      // An adapter's slot takes what its port does, wherever data sheets sell the two together.
      const BytesPerSecond slot = std::max(pcie(), node_.nic_per_direction);
      cable(nic, switches[at], slot, LinkKind::Pcie);
    }
    if (rack) return;
    for (std::size_t s = 1; s < sockets.size(); ++s) {
      cable(sockets[s - 1], sockets[s], socket_link_bandwidth(node_, gpu_), LinkKind::Socket);
    }
  }

  BytesPerSecond pcie() const {
    return gpu_.pcie_per_direction.value > 0 ? gpu_.pcie_per_direction : node_.nic_per_direction;
  }

  Topology& topology_;
  const Node& node_;
  const Gpu& gpu_;
  int machine_;
  std::vector<VertexId> gpus_;
};

// The parts of a machine "n0/…" as those of machine number `machine`.
void copy_machine(Topology& topology, const Topology& inside, int machine) {
  const int first = topology.num_vertices();
  for (VertexId id; id.value < inside.num_vertices(); ++id.value) {
    Vertex vertex = inside.vertex(id);
    vertex.name = "n" + std::to_string(machine) + vertex.name.substr(vertex.name.find('/'));
    vertex.machine = machine;
    topology.add_vertex(std::move(vertex));
  }
  for (LinkId id; id.value < inside.num_links(); ++id.value) {
    Link link = inside.link(id);
    link.from.value += first;
    link.to.value += first;
    topology.add_link(link);
  }
}

}  // namespace

void add_nvlinks(Topology& topology, const Node& node, const Gpu& gpu, int machine) {
  MachineBuilder(topology, node, gpu, machine).add_nvlink_alone();
}

void add_machine(Topology& topology, const Node& node, const Gpu& gpu, int machine) {
  if (node.inside) return copy_machine(topology, *node.inside, machine);
  MachineBuilder(topology, node, gpu, machine).build();
}

BytesPerSecond socket_link_bandwidth(const Node& node, const Gpu& gpu) {
  switch (gpu.architecture) {
    case GpuArchitecture::Volta:
      return node.nvlink_topology == NvlinkTopology::Switch ? 10_GBps : 6_GBps;
    case GpuArchitecture::Ampere:
      return 16_GBps;
    case GpuArchitecture::Ada:
    case GpuArchitecture::Hopper:
    case GpuArchitecture::Blackwell:
    case GpuArchitecture::Cdna3:
    case GpuArchitecture::Other:
      return 22_GBps;
  }
  return 22_GBps;
}

int nic_of_gpu(int gpu, int num_gpus, int num_nics) { return gpu * num_nics / num_gpus; }

}  // namespace megatwin::model
