// The way of a message through a Topology, link by link. Inside a machine: NVLink where it joins
// the two GPUs (over one GPU between, if need be), else PCIe. Between machines: to an adapter, by
// the fewest hops through the network, and in. Deterministic: the same question has the same
// answer in every run, and cutting a cable changes only the routes that held it.
#ifndef MEGATWIN_MODEL_TOPOLOGY_ROUTER_H_
#define MEGATWIN_MODEL_TOPOLOGY_ROUTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/result.h"
#include "model/topology/graph_search.h"
#include "model/topology/topology.h"

namespace megatwin::model {

// How one of several shortest ways is taken.
//   Hash: the cable of the highest hash of (flow, cable), as ECMP does it with resilient hashing.
//   First: the cable that was added first; on a torus that is dimension order.
enum class WayChoice { Hash, First };

struct RoutingOptions {
  WayChoice choice = WayChoice::Hash;
  std::uint64_t seed = 1;  // Of the hash: another seed is another draw of collisions.
  // NCCL's PXN: a message goes over NVLink to the GPU beside the adapter of its destination's rail
  // and leaves there, instead of changing rails in the spines.
  bool pxn = true;
  // What took ways away, to be said of a route that does not exist; may be empty.
  std::string cuts;
};

struct FlowKey {
  RankId from, to;
  int channel = 0;  // Flows of other channels may take other ways.
  int adapter = 0;  // Which of several that a GPU has to itself: of those that are up, modulo.
};

struct Route {
  std::vector<LinkId> links;
  Seconds latency;
  BytesPerSecond bandwidth;  // Of the narrowest link; nothing when the route is empty.
};

// Looks at the topology as it is when asked first after a change: call forget() when a cable was
// cut. Keeps what it found, so one router belongs to one thread.
class Router {
 public:
  explicit Router(const Topology& topology, RoutingOptions options = {});

  // From a GPU to another; empty from a GPU to itself. A GPU whose own adapters' ports are down
  // uses the nearest of its machine whose port is up: on its PCIe switch, on its socket, beyond it;
  // of equally near ones the next after its own. NCCL takes the nearest, too, but deals its
  // channels over all that are equally near (ncclTopoGetLocalNet(), src/graph/topo.cc). Errors: the
  // GPU does not exist; no way leads there (and what is missing).
  Result<Route> route(const FlowKey& key);
  // Hops through the network from every vertex to this switch, FabricDistances::kUnreachable where
  // there is no way. Valid until forget().
  const std::vector<std::uint16_t>& hops_to(VertexId target);
  void forget();

  // The adapter by which a GPU leaves and is reached without PXN, see route(). Requires: the
  // machine has one.
  VertexId adapter_of(RankId gpu);
  // How many adapters a GPU has to itself whose ports are up; 1 where it has none.
  int own_adapters(RankId gpu) const;
  // Links of PCIe and between sockets from a GPU to an adapter of its machine; 0: none lead there.
  std::size_t links_between(VertexId gpu, VertexId nic);

  // The ways of a GPU to the network's first switch and back, over the adapter that route() would
  // have it use without PXN; `adapter` as in FlowKey. Errors: the GPU does not exist; no adapter of
  // its machine with a port that is up, or no PCIe to it.
  struct Uplink {
    VertexId nic;
    std::vector<LinkId> up, down;  // Each in the order in which bytes cross it.
  };
  Result<Uplink> uplink(RankId gpu, int adapter);

  const Topology& topology() const { return topology_; }

 private:
  using Links = std::vector<LinkId>;
  enum class Inside { Nvlink, Pcie };

  // Appends; false when there is none.
  bool inside_machine(VertexId from, VertexId to, Links& links);
  bool search(VertexId from, VertexId to, Inside by, Links& links);
  bool to_nic(VertexId gpu, VertexId nic, Links& links);
  std::size_t adapter_of(const Topology::Machine& machine, int gpu, int adapter);
  bool through_fabric(VertexId from_nic, VertexId to_nic, const FlowKey& key, Links& links);
  LinkId port_of(VertexId nic) const;
  LinkId port_to(VertexId nic, VertexId from) const;  // −1: none that is up.
  std::uint64_t weight(const FlowKey& key, LinkId link) const;
  Result<Route> between_machines(VertexId from, VertexId to, const FlowKey& key);

  const Topology& topology_;
  RoutingOptions options_;
  std::vector<FabricDistances> distances_;                  // None or one.
  std::map<VertexId, std::vector<std::uint16_t>> hops_to_;  // By the switch of the destination.
  struct Seen {
    std::uint32_t round = 0;
    std::int32_t hops = 0;
    double width = 0;
    LinkId by;
  };
  std::vector<Seen> seen_;
  std::uint32_t round_ = 0;
};

// "n0/gpu0 -> n0/nvswitch0 -> n0/gpu1"
std::string to_text(const Topology& topology, const Route& route);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_ROUTER_H_
