#include "model/topology/fabric_hops.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace megatwin::model {
namespace {

// Pods of so many machines may be larger than any cluster.
int at_most_int(std::int64_t value) {
  return static_cast<int>(std::min<std::int64_t>(value, std::numeric_limits<int>::max() / 1024));
}

}  // namespace

FabricHops::FabricHops(const Cluster& cluster) {
  const FabricShape shape = fabric_shape(cluster);
  switch (shape.kind) {
    case FabricKind::SingleSwitch:
    case FabricKind::Ideal:
      return;
    case FabricKind::FatTree:
      add_tree(shape, 1);
      return;
    case FabricKind::RailOptimizedFatTree:
      add_tree(shape, num_rails(cluster));
      return;
    case FabricKind::Dragonfly:
      // Leaf, spine, the other group's spine, leaf: any two groups have a cable.
      levels_ = {{at_most_int(std::int64_t{shape.machines_per_leaf} * pod_leaves(shape)), 4},
                 {at_most_int(shape.machines_per_leaf), 3}};
      return;
    case FabricKind::Torus:
      torus_ = shape.torus;
      return;
  }
}

// Leaf, spine, leaf; or leaf, spine, core, spine, leaf. A pod counts the leaves of all rails.
void FabricHops::add_tree(const FabricShape& shape, int rails) {
  const int leaf = at_most_int(shape.machines_per_leaf);
  if (shape.levels >= 3) {
    const int pod = pod_leaves(shape);
    const int blocks = std::max(1, pod / rails);
    if (pod > rails && pod % rails != 0) {
      uneven_pod_ = pod;
      rails_ = rails;
    } else {
      levels_.push_back({.machines = at_most_int(std::int64_t{leaf} * blocks), .hops = 5});
    }
  }
  levels_.push_back({.machines = leaf, .hops = 3});
}

int FabricHops::between(int one, int other) const {
  if (one == other) return 0;
  for (int rail = 0; uneven_pod_ > 0 && rail < rails_; ++rail) {
    const int leaf = one / levels_.back().machines * rails_ + rail;
    const int away = other / levels_.back().machines * rails_ + rail;
    if (leaf / uneven_pod_ != away / uneven_pod_) return 5;
  }
  for (const Level& level : levels_) {
    if (one / level.machines != other / level.machines) return level.hops;
  }
  int routers = 1;
  for (const int size : torus_) {
    const int apart = std::abs(one % size - other % size);
    routers += std::min(apart, size - apart);
    one /= size;
    other /= size;
  }
  return routers;
}

}  // namespace megatwin::model
