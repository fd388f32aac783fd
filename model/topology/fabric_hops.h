// How many switches of the network a message passes between two machines, in closed form: what
// router.h finds on the graph of fabric_topology.h, without building it.
#ifndef MEGATWIN_MODEL_TOPOLOGY_FABRIC_HOPS_H_
#define MEGATWIN_MODEL_TOPOLOGY_FABRIC_HOPS_H_

#include <vector>

#include "model/topology/fabric_topology.h"

namespace megatwin::model {

// Machines are numbered as in the graph. Between adapters of one rail, which PXN makes of all
// messages of machines with NVLink and equally many adapters.
class FabricHops {
 public:
  explicit FabricHops(const Cluster& cluster);

  // 0 from a machine to itself; 1 on one leaf.
  int between(int one, int other) const;

  // Machines a·n to a·n + n − 1 meet below a level of switches, those of other a need `hops`. The
  // highest level first; none on a single switch.
  struct Level {
    int machines = 1;
    int hops = 1;
  };
  const std::vector<Level>& levels() const { return levels_; }
  // Whether levels() say all: not of a torus, nor where a pod ends amid the rails of a block.
  bool has_levels() const { return torus_.empty() && uneven_pod_ == 0; }

 private:
  void add_tree(const FabricShape& shape, int rails);

  std::vector<Level> levels_;
  std::vector<int> torus_;  // Machines along each dimension, the nearest first.
  // Leaves of a pod of three levels, of which `rails_` make a block, where blocks do not fill pods.
  int uneven_pod_ = 0, rails_ = 1;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_FABRIC_HOPS_H_
