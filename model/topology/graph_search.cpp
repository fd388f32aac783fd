#include "model/topology/graph_search.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/strong_components.hpp>

#include "model/numbers.h"

namespace megatwin::model {
namespace {

using Edges = std::vector<std::pair<std::int32_t, std::int32_t>>;
using SparseGraph = boost::compressed_sparse_row_graph<boost::directedS>;
using UndirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;
using DirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

}  // namespace

std::vector<int> connected_components(const Topology& topology) {
  UndirectedGraph graph(as_index(topology.num_vertices()));
  for (LinkId link; link.value < topology.num_links(); ++link.value) {
    const Link& l = topology.link(link);
    if (l.up) boost::add_edge(as_index(l.from.value), as_index(l.to.value), graph);
  }
  std::vector<int> component(as_index(topology.num_vertices()));
  boost::connected_components(graph, component.data());
  return component;
}

std::vector<int> find_cycle(int num_vertices, const std::vector<std::pair<int, int>>& edges) {
  DirectedGraph graph(as_index(num_vertices));
  for (const auto& [from, to] : edges) boost::add_edge(as_index(from), as_index(to), graph);
  std::vector<int> component(as_index(num_vertices));
  const int count = boost::strong_components(
      graph,
      boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
  std::vector<int> size(as_index(count), 0);
  for (const int c : component) ++size[as_index(c)];
  // Inside a strong component every walk that stays in it meets itself.
  for (int start = 0; start < num_vertices; ++start) {
    const int home = component[as_index(start)];
    const bool loop = boost::edge(as_index(start), as_index(start), graph).second;
    if (size[as_index(home)] < 2 && !loop) continue;
    std::vector<int> walk, position(as_index(num_vertices), -1);
    int at = start;
    while (position[as_index(at)] < 0) {
      position[as_index(at)] = static_cast<int>(walk.size());
      walk.push_back(at);
      const auto [begin, end] = boost::adjacent_vertices(as_index(at), graph);
      for (auto next = begin; next != end; ++next) {
        if (component[*next] != home) continue;
        at = static_cast<int>(*next);
        break;
      }
    }
    walk.erase(walk.begin(), walk.begin() + position[as_index(at)]);
    return walk;
  }
  return {};
}

struct FabricDistances::Graph {
  SparseGraph against;               // Every link turned round.
  std::vector<std::int32_t> vertex;  // Graph index to topology.
  std::vector<std::int32_t> index;   // Topology to graph index, -1 outside the network.
};

FabricDistances::FabricDistances(const Topology& topology) : graph_(std::make_unique<Graph>()) {
  graph_->index.assign(as_index(topology.num_vertices()), -1);
  for (VertexId v; v.value < topology.num_vertices(); ++v.value) {
    if (!is_fabric(topology.vertex(v).kind)) continue;
    graph_->index[as_index(v.value)] = static_cast<std::int32_t>(graph_->vertex.size());
    graph_->vertex.push_back(v.value);
  }
  Edges edges;
  for (LinkId link; link.value < topology.num_links(); ++link.value) {
    const Link& l = topology.link(link);
    const std::int32_t from = graph_->index[as_index(l.from.value)];
    const std::int32_t to = graph_->index[as_index(l.to.value)];
    if (l.up && from >= 0 && to >= 0) edges.emplace_back(to, from);
  }
  graph_->against = SparseGraph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
                                graph_->vertex.size());
}

FabricDistances::~FabricDistances() = default;
FabricDistances::FabricDistances(FabricDistances&&) noexcept = default;

std::vector<std::uint16_t> FabricDistances::to(VertexId target) const {
  std::vector<std::uint16_t> hops(graph_->index.size(), kUnreachable);
  const std::int32_t source = graph_->index[as_index(target.value)];
  if (source < 0) return hops;
  std::vector<std::uint16_t> local(graph_->vertex.size(), kUnreachable);
  local[as_index(source)] = 0;
  const auto recorder = boost::make_bfs_visitor(
      boost::record_distances(boost::make_iterator_property_map(
                                  local.begin(), boost::get(boost::vertex_index, graph_->against)),
                              boost::on_tree_edge()));
  boost::breadth_first_search(graph_->against, as_index(source), boost::visitor(recorder));
  for (std::size_t i = 0; i < local.size(); ++i) hops[as_index(graph_->vertex[i])] = local[i];
  return hops;
}

}  // namespace megatwin::model
