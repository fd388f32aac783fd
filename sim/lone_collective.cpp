#include "sim/lone_collective.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "model/collective_forms.h"
#include "model/numbers.h"
#include "sim/flow/collective_flows.h"
#include "sim/flow/flow_net.h"
#include "sim/job_network.h"

namespace megatwin::sim {
namespace {

using model::CollectiveAlgorithm;
using model::CollectiveKind;
using model::Seconds;

constexpr std::size_t kBusiestLinks = 8;

constexpr std::pair<std::string_view, CollectiveAlgorithm> kByPattern[] = {
    {"ring", CollectiveAlgorithm::Ring},           {"tree", CollectiveAlgorithm::Tree},
    {"nvls", CollectiveAlgorithm::Nvls},           {"nvls-tree", CollectiveAlgorithm::NvlsTree},
    {"sharp", CollectiveAlgorithm::CollNetDirect}, {"pat", CollectiveAlgorithm::Pat}};

// The group's links as closed forms have them: its first machine's kind, alone on its adapters.
model::GroupTopology links_of(const model::Job& job, const LoneCollective& wish, int machines) {
  const model::NodeGroup& group = job.cluster.groups.front();
  const int ranks = static_cast<int>(wish.ranks.size());
  return group_topology({.ranks = ranks, .ranks_per_node = (ranks + machines - 1) / machines},
                        group.node, group.gpu, job.cluster.fabric, job.profile);
}

std::string chosen(const LoneCollective& wish, const model::CollectiveTime& closed) {
  if (wish.algorithm != "auto") return wish.algorithm;
  if (wish.kind == CollectiveKind::AllToAll) return "direct";
  for (const auto& [name, algorithm] : kByPattern) {
    if (algorithm == closed.algorithm) return std::string(name);
  }
  return "ring";
}

model::Diagnostic unable(const std::string& algorithm, std::string_view what) {
  return {.message = algorithm + " does not do this collective", .allowed = std::string(what)};
}

// The matrix of bytes that a table of tokens stands for.
std::vector<std::vector<model::Bytes>> bytes_of(const LoneCollective& wish) {
  double total = 0;
  for (const auto& row : wish.tokens) total = std::accumulate(row.begin(), row.end(), total);
  const double unit = wish.bytes.value * static_cast<double>(wish.ranks.size()) / total;
  std::vector<std::vector<model::Bytes>> sent;
  for (const auto& row : wish.tokens) {
    auto& bytes = sent.emplace_back();
    for (const double tokens : row) bytes.push_back(model::Bytes{tokens * unit});
  }
  return sent;
}

CollectiveFlows::Done add_flows(const LoneCollective& wish, const std::string& algorithm,
                                bool multicast, CollectiveFlows& flows) {
  const CommunicatorRanks group{.ranks = wish.ranks};
  const bool exchanges = wish.kind == CollectiveKind::AllToAll;
  if (algorithm == "direct" || algorithm == "pairwise") {
    if (!exchanges) return model::fail(unable(algorithm, "all-to-all"));
    if (wish.tokens.empty()) {
      return flows.all_to_all(group, wish.bytes, {.rounds = algorithm == "pairwise"});
    }
    if (algorithm == "pairwise") return model::fail(unable("pairwise with tokens", "direct"));
    return flows.all_to_all(group, bytes_of(wish));
  }
  if (algorithm == "hierarchical") {
    if (wish.kind != CollectiveKind::AllReduce) return model::fail(unable(algorithm, "all-reduce"));
    return flows.hierarchical_all_reduce(group, wish.bytes);
  }
  for (const auto& [name, by_pattern] : kByPattern) {
    if (name != algorithm) continue;
    return flows.by_algorithm(group, wish.bytes,
                              {.kind = wish.kind, .algorithm = by_pattern, .multicast = multicast});
  }
  return model::fail(unable(algorithm, "one of auto and the algorithms of --help"));
}

std::vector<LoneResult::Busy> busiest_links(const model::Topology& topology, const FlowSet& flows,
                                            Seconds time) {
  std::vector<double> carried(model::as_index(topology.num_links()));
  for (std::size_t i = 0; i < flows.size(); ++i) {
    for (const std::int32_t link : flows.links_of(static_cast<FlowIndex>(i))) {
      carried[model::as_index(link)] += flows.flows()[i].size.value;
    }
  }
  std::vector<LoneResult::Busy> links;
  for (model::LinkId id; id.value < topology.num_links(); ++id.value) {
    const double bytes = carried[model::as_index(id.value)];
    if (bytes <= 0) continue;
    const model::BytesPerSecond bandwidth = topology.link(id).bandwidth;
    links.push_back({topology.link_name(id), model::Bytes{bytes}, bandwidth,
                     bytes / bandwidth.value / time.value});
  }
  std::stable_sort(links.begin(), links.end(),
                   [](const auto& a, const auto& b) { return a.fraction > b.fraction; });
  links.resize(std::min(links.size(), kBusiestLinks));
  return links;
}

}  // namespace

const std::vector<std::string>& lone_algorithm_names() {
  static const std::vector<std::string> kNames = {"auto",      "ring",    "tree", "nvls",
                                                  "nvls-tree", "sharp",   "pat",  "hierarchical",
                                                  "direct",    "pairwise"};
  return kNames;
}

model::Result<LoneResult> run_lone_collective(const model::Job& job, const LoneCollective& wish) {
  MEGATWIN_TRY(const std::unique_ptr<JobNetwork> network, JobNetwork::build(job));
  if (wish.ranks.size() < 2) {
    return model::fail(model::Diagnostic{.message = "a collective of one rank does nothing",
                                         .allowed = "two ranks or more"});
  }
  for (const model::RankId rank : wish.ranks) {
    if (rank.value >= 0 && rank.value < network->topology().num_gpus()) continue;
    return model::fail(
        {.message = "rank " + std::to_string(rank.value) + " is not in the cluster",
         .allowed = "ranks 0 to " + std::to_string(network->topology().num_gpus() - 1)});
  }
  LoneResult result{.ranks = static_cast<int>(wish.ranks.size())};
  result.machines = static_cast<int>(by_machine(network->topology(), {.ranks = wish.ranks}).size());
  const model::GroupTopology links = links_of(job, wish, result.machines);
  result.closed_form = collective_time(wish.kind, wish.bytes, links);
  result.algorithm = chosen(wish, result.closed_form);
  FlowSet flows(network->topology());
  CollectiveFlows collective(network->router(), flows);
  MEGATWIN_TRY([[maybe_unused]] const FlowIndex done,
               add_flows(wish, result.algorithm, links.nvls, collective));
  std::unique_ptr<FlowNet> net = job.network == model::NetworkKind::Analytic  ? make_analytic_net()
                                 : job.network == model::NetworkKind::Simgrid ? make_simgrid_net()
                                                                              : make_max_min_net();
  MEGATWIN_TRY(const std::vector<Seconds> finish, net->finish_times(flows));
  result.time = last_of(finish);
  result.busbw = model::busbw_factor(wish.kind, result.ranks) * wish.bytes / result.time;
  result.flows = static_cast<std::int64_t>(flows.size());
  result.links = busiest_links(network->topology(), flows, result.time);
  return result;
}

}  // namespace megatwin::sim
