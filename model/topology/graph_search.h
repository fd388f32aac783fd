// Questions about the graph as such, answered by Boost.Graph: how far, and what hangs together. The
// only file of the topology that touches Boost.
#ifndef MEGATWIN_MODEL_TOPOLOGY_GRAPH_SEARCH_H_
#define MEGATWIN_MODEL_TOPOLOGY_GRAPH_SEARCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/topology/topology.h"

namespace megatwin::model {

// Which component each vertex belongs to; links that are up join their ends.
std::vector<int> connected_components(const Topology& topology);

// The members of one cycle of a directed graph in order, or nothing when there is none. Edges are
// pairs of indices below `num_vertices`.
std::vector<int> find_cycle(int num_vertices, const std::vector<std::pair<int, int>>& edges);

// Hops between the switches of the network, machines left out. Holds the graph of one moment: cut
// cables afterwards are not seen.
class FabricDistances {
 public:
  static constexpr std::uint16_t kUnreachable = 0xffff;

  explicit FabricDistances(const Topology& topology);
  ~FabricDistances();
  FabricDistances(FabricDistances&&) noexcept;

  // Hops from every vertex of the topology to `target`, by breadth-first search against the links.
  std::vector<std::uint16_t> to(VertexId target) const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TOPOLOGY_GRAPH_SEARCH_H_
