// The network between machines: from a few numbers to leaf, spine and core switches with their
// cables. Every shape is stated in the number of machines, so that a partly filled cluster keeps
// the cables that its switches have.
#ifndef MEGATWIN_MODEL_TOPOLOGY_FABRIC_TOPOLOGY_H_
#define MEGATWIN_MODEL_TOPOLOGY_FABRIC_TOPOLOGY_H_

#include <vector>

#include "model/hardware.h"
#include "model/result.h"
#include "model/topology/router.h"
#include "model/topology/topology.h"

namespace megatwin::model {

// Zero means: as the cluster needs, see fabric_shape().
struct FabricShape {
  FabricKind kind = FabricKind::RailOptimizedFatTree;
  int levels = 2;  // Of a fat tree or its rails: 2 (leaf, spine) or 3 (and core).
  int machines_per_leaf = 16;
  int spines = 0;          // Of the tree, of each pod of three levels, of a dragonfly's group.
  int leaves_per_pod = 0;  // Of three levels; of a dragonfly's group.
  int cores_per_spine = 4;  // Three levels: spine s of every pod meets cores s·c … s·c + c − 1.
  std::vector<int> torus;       // Machines along each dimension.
  double oversubscription = 1;  // Above the leaves, between a dragonfly's groups, on a torus.
  // Packets spread evenly over all ways: the spines of a level are one switch of their sum.
  bool spray = false;
  Seconds switch_latency = 0.33_us;
};

// What `cluster.fabric` says, and for the rest: spines of one adapter's rate each, at most 32;
// pods of eight leaves; a torus as near to a cube as its machines divide.
FabricShape fabric_shape(const Cluster& cluster);

// How messages find their way there: on a torus dimension by dimension, elsewhere by their hash.
RoutingOptions routing_options(const Cluster& cluster);

// Leaves of a pod or of a dragonfly's group.
int pod_leaves(const FabricShape& shape);
// One direction of a torus's cable: of the machine that injects most a 2·dimensions-th part.
BytesPerSecond torus_cable(const Cluster& cluster, const FabricShape& shape);
// Rails of a rail-optimised tree: the adapters of the machine that has most.
int num_rails(const Cluster& cluster);

// Machines in the order of the cluster's groups, each with all its adapters on the network.
//   single switch, ideal: one switch.
//   fat tree: all adapters of a machine on its leaf; every leaf on every spine.
//   rail-optimised: adapter r of a machine on leaf r of its block of machines_per_leaf machines.
//   dragonfly+: groups of leaves and spines, all to all; cables between spines of each two groups.
//   torus: a router a machine, which shares its adapters' rate over its 2·dimensions cables.
//   Fabric::graph: the switches, cables and ports of a file, whatever the kind.
// A message pays half the adapters' latency at either end and the switch's at every switch.
// Errors: no machine; several machines without adapters; a torus of another number of machines.
Result<Topology> build_topology(const Cluster& cluster, const FabricShape& shape);
Result<Topology> build_topology(const Cluster& cluster);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_FABRIC_TOPOLOGY_H_
