// A cluster as a directed graph: GPUs, NVSwitches, PCIe switches, sockets, adapters and network
// switches are vertices; every direction of every cable is a link of its own with a capacity and a
// latency. Built by machine_topology.h and fabric_topology.h or by an importer; read by router.h,
// which finds the way from GPU to GPU. Plain data, no routes.
#ifndef MEGATWIN_MODEL_TOPOLOGY_TOPOLOGY_H_
#define MEGATWIN_MODEL_TOPOLOGY_TOPOLOGY_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/diagnostic.h"
#include "model/ids.h"
#include "model/units.h"

namespace megatwin::model {

using VertexId = Id<struct VertexTag>;
using LinkId = Id<struct LinkTag>;  // One direction of a cable.

enum class VertexKind { Gpu, NvSwitch, PcieSwitch, Socket, Nic, Router, Leaf, Spine, Core };
enum class LinkKind { Nvlink, Pcie, Socket, Port, Fabric };  // Port: an adapter to its switch.

std::string_view name_of(VertexKind kind);
std::string_view name_of(LinkKind kind);
// Leaf, Spine, Core or Router: what the network between machines is made of.
bool is_fabric(VertexKind kind);

struct Vertex {
  VertexKind kind = VertexKind::Gpu;
  std::string name;  // "n3/gpu2", "leaf0": unique, and the same in every run.
  int machine = -1;  // Which machine it is a part of; -1: the network.
  int position = 0;  // Which GPU or adapter of its machine, which switch of its kind.
};

struct Link {
  VertexId from, to;
  BytesPerSecond bandwidth;  // Of this direction.
  Seconds latency;
  LinkKind kind = LinkKind::Fabric;
  bool up = true;  // False: cut. Identities stay, so that other routes stay as they are.
  // Part of the time that it is up, where it goes down and up often; `bandwidth` is then the mean.
  // What waits for it goes on average no faster than that part of its own rate.
  double uptime = 1;
};

class Topology {
 public:
  VertexId add_vertex(Vertex vertex);
  LinkId add_link(Link link);
  // Both directions; the way back is the next identity. Returns the way there.
  LinkId add_cable(Link there);

  // The link and, where there is one, the link between the same ends the other way.
  void cut_cable(LinkId link);
  void set_bandwidth(LinkId link, BytesPerSecond bandwidth);
  // Requires: 0 < uptime <= 1.
  void set_uptime(LinkId link, double uptime);

  int num_vertices() const { return static_cast<int>(vertices_.size()); }
  int num_links() const { return static_cast<int>(links_.size()); }
  int num_gpus() const { return static_cast<int>(gpus_.size()); }
  int num_machines() const { return static_cast<int>(machines_.size()); }

  const Vertex& vertex(VertexId id) const { return vertices_[index(id)]; }
  const Link& link(LinkId id) const { return links_[index(id)]; }
  std::span<const LinkId> links_from(VertexId id) const { return out_[index(id)]; }
  // GPUs are numbered in the order in which they were added.
  VertexId gpu(RankId rank) const { return gpus_[static_cast<std::size_t>(rank.value)]; }

  struct Machine {
    std::vector<VertexId> gpus, nics;
  };
  const Machine& machine(int index) const { return machines_[static_cast<std::size_t>(index)]; }

  // "n0/gpu1 -> n0/nvswitch0"
  std::string link_name(LinkId id) const;
  // The first that is up, or -1.
  LinkId find_link(std::string_view from, std::string_view to) const;

  // What makes the graph no cluster: no GPU, a link without bandwidth, two vertices of one name,
  // GPUs that no cable joins.
  Diagnostics check() const;

 private:
  template <class Tag>
  static std::size_t index(Id<Tag> id) {
    return static_cast<std::size_t>(id.value);
  }
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<std::vector<LinkId>> out_;
  std::vector<VertexId> gpus_;
  std::vector<Machine> machines_;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_TOPOLOGY_H_
