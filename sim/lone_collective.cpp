#include "sim/lone_collective.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "model/collective_forms.h"
#include "model/numbers.h"
#include "model/rank_layout.h"
#include "model/topology/machine_topology.h"
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

// Which kinds of collectives each algorithm does.
struct Does {
  std::string_view name;
  std::vector<CollectiveKind> kinds;
};
const std::vector<Does>& does() {
  constexpr auto kReduce = CollectiveKind::AllReduce, kGather = CollectiveKind::AllGather,
                 kScatter = CollectiveKind::ReduceScatter, kExchange = CollectiveKind::AllToAll;
  static const std::vector<Does> kAll = {{"ring", {kReduce, kGather, kScatter}},
                                         {"tree", {kReduce}},
                                         {"nvls", {kReduce, kGather, kScatter}},
                                         {"nvls-tree", {kReduce}},
                                         {"sharp", {kReduce}},
                                         {"pat", {kGather, kScatter}},
                                         {"hierarchical", {kReduce}},
                                         {"direct", {kExchange}},
                                         {"pairwise", {kExchange}}};
  return kAll;
}

std::string_view name_of_kind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all-reduce";
    case CollectiveKind::AllGather:
      return "all-gather";
    case CollectiveKind::ReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::AllToAll:
      return "all-to-all";
    case CollectiveKind::Broadcast:
      return "broadcast";
    case CollectiveKind::SendReceive:
      return "send and receive";
  }
  return "all-reduce";
}

// Nothing where the algorithm does this kind of collective.
std::optional<model::Diagnostic> unable(const LoneCollective& wish) {
  std::string able = "auto";
  for (const Does& algorithm : does()) {
    const auto& kinds = algorithm.kinds;
    if (std::find(kinds.begin(), kinds.end(), wish.kind) == kinds.end()) continue;
    if (algorithm.name == wish.algorithm) return std::nullopt;
    able += ", " + std::string(algorithm.name);
  }
  if (wish.algorithm == "auto") return std::nullopt;
  return model::Diagnostic{
      .message = wish.algorithm + " does not do " + std::string(name_of_kind(wish.kind)),
      .allowed = able};
}

std::vector<model::MemberSite> sites_of(const model::Topology& planned,
                                        const std::vector<model::RankId>& ranks) {
  std::vector<model::MemberSite> sites;
  for (const model::RankId rank : ranks) {
    const model::Vertex& gpu = planned.vertex(planned.gpu(rank));
    const model::Topology::Machine& machine = planned.machine(gpu.machine);
    const auto nics = std::max<std::size_t>(machine.nics.size(), 1);
    sites.push_back(
        {gpu.machine, model::nic_of_gpu(gpu.position, static_cast<int>(machine.gpus.size()),
                                        static_cast<int>(nics))});
  }
  return sites;
}

// How many adapters' worth the channels of a group's rings have on the machine that has least:
// channel c comes in by the adapter of the machine's c-th member, and leaves by that of the next
// machine's; without NVLink by the own one of the member after it.
double ring_adapters(const MachineRanks& machines, const std::vector<model::MemberSite>& sites,
                     bool forwards) {
  const int channels = num_channels({}, machines);
  double least = channels;
  std::size_t first = 0;
  for (const auto& members : machines) {
    for (const int next : {0, forwards ? 0 : 1}) {
      std::map<int, int> by_adapter;
      int most = 0;
      for (int c = 0; c < channels; ++c) {
        const std::size_t member = model::as_index(c + next) % members.size();
        most = std::max(most, ++by_adapter[sites[first + member].adapter]);
      }
      least = std::min(least, static_cast<double>(channels) / most);
    }
    first += members.size();
  }
  return least;
}

// What each pair sends over the mean pair; empty without a table.
model::PairWeights weights_of(const LoneCollective& wish) {
  model::PairWeights weights = wish.tokens;
  double total = 0;
  for (const auto& row : weights) total = std::accumulate(row.begin(), row.end(), total);
  const auto n = static_cast<double>(wish.ranks.size());
  for (auto& row : weights) {
    for (double& weight : row) weight *= n / total * n;
  }
  return weights;
}

// The group's links as closed forms have them: alone on the adapters of its own GPUs, of the kind
// of machine that can send least.
model::GroupTopology links_of(const model::Job& job, const LoneCollective& wish,
                              const model::Topology& planned, const MachineRanks& machines) {
  const std::vector<model::MemberSite> sites = sites_of(planned, wish.ranks);
  const model::NodeMap nodes(job.cluster);
  const int ranks = static_cast<int>(wish.ranks.size());
  const int per_machine =
      (ranks + static_cast<int>(machines.size()) - 1) / static_cast<int>(machines.size());
  std::optional<model::GroupTopology> links;
  for (const auto& members : machines) {
    const auto kind = model::as_index(nodes.kind_of(members.front()));
    const model::NodeGroup& group = job.cluster.groups[kind];
    const model::GpuProfile& profile =
        job.group_profiles.empty() ? job.profile : job.group_profiles[kind];
    const model::GroupTopology its =
        group_topology({.ranks = ranks, .ranks_per_node = per_machine}, group.node, group.gpu,
                       job.cluster.fabric, profile);
    const auto sends = [](const model::GroupTopology& one) {
      return one.num_nics * one.nic_efficiency * one.nic_per_direction;
    };
    if (!links || sends(its) < sends(*links)) links = its;
  }
  links->nodes = static_cast<int>(machines.size());
  const bool forwards = forwards_to_rails(*links);
  if (wish.kind == CollectiveKind::AllToAll) {
    links->adapters = model::fewest_adapters(sites);
    links->exchange = model::all_to_all_load(
        {.members = sites, .weights = weights_of(wish), .forwards = forwards});
  } else {
    links->adapters = ring_adapters(machines, sites, forwards);
  }
  return *links;
}

std::string chosen(const LoneCollective& wish, const model::CollectiveTime& closed) {
  if (wish.algorithm != "auto") return wish.algorithm;
  if (wish.kind == CollectiveKind::AllToAll) return "direct";
  for (const auto& [name, algorithm] : kByPattern) {
    if (algorithm == closed.algorithm) return std::string(name);
  }
  return "ring";
}

// The matrix of bytes that a table of tokens stands for; empty without one.
std::vector<std::vector<model::Bytes>> bytes_of(const LoneCollective& wish) {
  const model::Bytes pair = wish.bytes / static_cast<double>(wish.ranks.size());
  std::vector<std::vector<model::Bytes>> sent;
  for (const auto& row : weights_of(wish)) {
    auto& bytes = sent.emplace_back();
    for (const double weight : row) bytes.push_back(weight * pair);
  }
  return sent;
}

std::string counted_flows(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t left = digits.size(); left > 0; --left) {
    if (!text.empty() && left % 3 == 0) text += ',';
    text += digits[digits.size() - left];
  }
  text += " flows";
  return text;
}

// Flows of an all-to-all laid out by machines.
std::int64_t machine_flows(const MachineRanks& machines) {
  std::int64_t ranks = 0, inside = 0;
  for (const auto& members : machines) {
    ranks += std::ssize(members);
    inside += std::ssize(members) * (std::ssize(members) - 1);
  }
  return ranks * (std::ssize(machines) - 1) + inside;
}

// Whether an all-to-all is laid out by machines. Errors: too many flows either way.
model::Result<bool> lays_machines_out(const LoneCollective& wish, const std::string& algorithm,
                                      const model::GroupTopology& links,
                                      const MachineRanks& machines) {
  // Each flow between machines is dealt over the adapters of a GPU.
  const std::int64_t lanes = std::max(1, links.num_nics / std::max(links.gpus_per_node, 1));
  const std::int64_t n = std::ssize(wish.ranks), pairs = lanes * n * (n - 1);
  if (wish.kind != CollectiveKind::AllToAll || pairs <= kLonePairFlowsMax) return false;
  std::int64_t fits = n;
  while (lanes * fits * (fits - 1) > kLonePairFlowsMax) --fits;
  std::string all = "an all-to-all of ";
  all.append(std::to_string(n)).append(" ranks is ").append(counted_flows(pairs));
  std::string fewer = "at most ";
  fewer.append(counted_flows(kLonePairFlowsMax)).append(": ").append(std::to_string(fits));
  fewer += " ranks";
  if (algorithm == "pairwise") {
    return model::fail(
        {.message = all + " in rounds", .allowed = fewer + "; direct lays more out by machines"});
  }
  if (!forwards_to_rails(links)) {
    return model::fail(
        {.message = all + ", and without NVLink machines do not send as one", .allowed = fewer});
  }
  if (lanes * machine_flows(machines) > kMachineFlowsMax) {
    return model::fail(
        {.message = all + ", by machines " + counted_flows(lanes * machine_flows(machines)),
         .allowed = "at most " + counted_flows(kMachineFlowsMax) + " by machines: fewer ranks"});
  }
  return true;
}

struct Laid {
  const std::string& algorithm;
  bool multicast = false, by_machines = false;
};
CollectiveFlows::Done add_flows(const LoneCollective& wish, const Laid& laid,
                                CollectiveFlows& flows) {
  const CommunicatorRanks group{.ranks = wish.ranks};
  if (laid.algorithm == "direct" || laid.algorithm == "pairwise") {
    const bool rounds = laid.algorithm == "pairwise";
    if (laid.by_machines) return flows.all_to_all_by_machines(group, wish.bytes, bytes_of(wish));
    if (wish.tokens.empty()) return flows.all_to_all(group, wish.bytes, {.rounds = rounds});
    if (rounds) {
      return model::fail(
          model::Diagnostic{.message = "pairwise takes no table of tokens", .allowed = "direct"});
    }
    return flows.all_to_all(group, bytes_of(wish));
  }
  if (laid.algorithm == "hierarchical") return flows.hierarchical_all_reduce(group, wish.bytes);
  for (const auto& [name, by_pattern] : kByPattern) {
    if (name != laid.algorithm) continue;
    return flows.by_algorithm(
        group, wish.bytes,
        {.kind = wish.kind, .algorithm = by_pattern, .multicast = laid.multicast});
  }
  return model::fail(model::Diagnostic{.message = laid.algorithm + " is no algorithm",
                                       .allowed = "one of auto and the algorithms of --help"});
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

// Ranks that are not there, there twice, or apart from others of their machine.
std::optional<model::Diagnostic> unfit_ranks(const LoneCollective& wish,
                                             const model::Topology& topology) {
  if (wish.ranks.size() < 2) {
    return model::Diagnostic{.key = "ranks",
                             .message = "a collective of one rank does nothing",
                             .allowed = "two ranks or more"};
  }
  std::set<model::RankId> seen;
  std::set<int> machines;
  int last = -1;
  for (const model::RankId rank : wish.ranks) {
    const std::string name = "rank " + std::to_string(rank.value);
    if (rank.value < 0 || rank.value >= topology.num_gpus()) {
      return model::Diagnostic{.key = "ranks",
                               .message = name + " is not in the cluster",
                               .allowed = "ranks 0 to " + std::to_string(topology.num_gpus() - 1)};
    }
    if (!seen.insert(rank).second) {
      return model::Diagnostic{
          .key = "ranks", .message = name + " is named twice", .allowed = "each rank once"};
    }
    const int machine = topology.vertex(topology.gpu(rank)).machine;
    if (machine != last && !machines.insert(machine).second) {
      return model::Diagnostic{.key = "ranks",
                               .message = name + " stands apart from the others of its machine",
                               .allowed = "ranks of one machine one after another, as in 0,1,8,9"};
    }
    last = machine;
  }
  return std::nullopt;
}

// What leaves a rank in the mean, of the collective's bytes; nccl-tests' factor where all pairs are
// alike.
double moved_share(const LoneCollective& wish) {
  if (wish.tokens.empty()) {
    return model::busbw_factor(wish.kind, static_cast<int>(wish.ranks.size()));
  }
  double moved = 0;
  const model::PairWeights weights = weights_of(wish);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (std::size_t j = 0; j < weights.size(); ++j) moved += i == j ? 0 : weights[i][j];
  }
  const auto n = static_cast<double>(wish.ranks.size());
  return moved / n / n;
}

// What the cluster lacks for this, and which of the job's disturbances are not what they are.
std::vector<std::string> warnings_of(const model::Job& job, const std::string& algorithm) {
  std::vector<std::string> warnings;
  if (algorithm == "sharp" && !job.cluster.fabric.sharp) {
    warnings.emplace_back(
        "the switches of this fabric do not add: SHARP needs cluster.fabric.sharp: true");
  }
  for (const model::Disturbance& d : job.disturbances) {
    const bool on_links = d.kind == model::DisturbanceKind::SlowLink ||
                          d.kind == model::DisturbanceKind::FlappingLink ||
                          d.kind == model::DisturbanceKind::PcieWidth ||
                          d.kind == model::DisturbanceKind::DeadNic;
    if (d.kind == model::DisturbanceKind::Background) {
      warnings.push_back(to_text(d) + ": other jobs' traffic is not laid out here");
    } else if (on_links && d.is_timed()) {
      warnings.push_back(to_text(d) +
                         (d.holds_at({}) ? ": counts all the while" : ": does not count") +
                         ", links are as at the start of a step");
    } else if (d.kind == model::DisturbanceKind::FlappingLink) {
      warnings.push_back(to_text(d) + ": its mean rate counts");
    }
  }
  return warnings;
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
  if (auto fault = unfit_ranks(wish, network->topology())) return model::fail(*std::move(fault));
  if (auto fault = unable(wish)) return model::fail(*std::move(fault));
  const MachineRanks machines = by_machine(network->topology(), {.ranks = wish.ranks});
  LoneResult result{.ranks = static_cast<int>(wish.ranks.size()),
                    .machines = static_cast<int>(machines.size())};
  const model::GroupTopology links = links_of(job, wish, network->planned(), machines);
  result.closed_form = collective_time(wish.kind, wish.bytes, links);
  result.algorithm = chosen(wish, result.closed_form);
  MEGATWIN_TRY(result.by_machines, lays_machines_out(wish, result.algorithm, links, machines));
  result.warnings = warnings_of(job, result.algorithm);
  FlowSet flows(network->topology());
  CollectiveFlows collective(network->router(), flows);
  const Laid laid{result.algorithm, links.nvls, result.by_machines};
  MEGATWIN_TRY([[maybe_unused]] const FlowIndex done, add_flows(wish, laid, collective));
  std::unique_ptr<FlowNet> net = job.network == model::NetworkKind::Analytic  ? make_analytic_net()
                                 : job.network == model::NetworkKind::Simgrid ? make_simgrid_net()
                                                                              : make_max_min_net();
  MEGATWIN_TRY(const std::vector<Seconds> finish, net->finish_times(flows));
  result.time = last_of(finish);
  const double moved = moved_share(wish);
  if (moved > 0) {
    result.busbw = moved * wish.bytes / result.time;
    result.closed_form_busbw = moved * wish.bytes / result.closed_form.time;
  } else {
    result.closed_form.time = {};  // Nobody calls it.
  }
  result.flows = static_cast<std::int64_t>(flows.size());
  result.links = busiest_links(network->topology(), flows, result.time);
  return result;
}

}  // namespace megatwin::sim
