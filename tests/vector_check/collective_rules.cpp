#include <cmath>

#include "model/collective_closed_forms.h"
#include "model/collective_cost.h"
#include "model/nccl_tuning.h"
#include "tests/vector_check/rules.h"

namespace megatwin::vector_check {
namespace {

using model::Bytes;
using model::BytesPerSecond;
using model::CollectiveAlgorithm;
using model::CollectiveKind;
using model::CollectiveProtocol;
using model::NcclCommunicator;
using model::NcclGeneration;
using model::NcclLink;
using model::Seconds;

CollectiveKind kind_of(const Row& row) {
  const auto says = [&](const char* a, const char* b) { return row.says(a) || row.says(b); };
  if (says("allgather", "all_gather")) return CollectiveKind::AllGather;
  if (says("reducescatter", "reduce_scatter")) return CollectiveKind::ReduceScatter;
  if (says("alltoall", "all_to_all") || row.says("a2a")) return CollectiveKind::AllToAll;
  if (says("broadcast", "bcast")) return CollectiveKind::Broadcast;
  if (says("sendrecv", "p2p")) return CollectiveKind::SendReceive;
  if (row.says("reduce") && !says("allreduce", "all_reduce")) return CollectiveKind::Broadcast;
  return CollectiveKind::AllReduce;
}

CollectiveProtocol protocol_of(const Row& row) {
  const std::string text = row.quantity + " " + row.inputs.text("proto");
  const auto says = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (says("ll128") || says("LL128")) return CollectiveProtocol::Ll128;
  if (says("_ll") || says("LL")) return CollectiveProtocol::Ll;
  return CollectiveProtocol::Simple;
}

int ranks_of(const Inputs& in) { return in.need_int({"n", "nRanks", "ranks", "N", "nranks"}); }

// Latencies in the rows are microseconds, bandwidths GB/s.
NcclCommunicator communicator_of(const Row& row) {
  const Inputs& in = row.inputs;
  NcclCommunicator communicator;
  communicator.ranks = static_cast<int>(in.get({"nRanks", "n", "ranks"}, 8));
  communicator.nodes = static_cast<int>(in.get({"nNodes", "N", "nodes"}, 1));
  communicator.nvlink = !row.says("pci");
  communicator.channels = static_cast<int>(in.get({"nChannels", "nCh", "channels"}, 1));
  const double intra = in.get({"bwIntra", "bw"}, 0);
  communicator.channel_bandwidth_intra = {intra * 1e9};
  communicator.channel_bandwidth_inter = {in.get({"bwInter"}, intra) * 1e9};
  communicator.network_latency = {in.get({"latencyInter", "netLatency"}, 0) * 1e-6};
  communicator.network_overhead = {in.get({"netOverhead", "net_overhead"}, 1) * 1e-6};
  return communicator;
}

// The tables are NCCL's; a row that brings another latency is about another version.
void demand(const Inputs& in, Names names, Seconds table) {
  const auto given = in.find(names);
  if (given && std::abs(*given * 1e-6 - table.value) > 1e-12) throw MissingInput("its own table");
}

double nccl_latency(const Row& row, CollectiveAlgorithm algorithm) {
  const Inputs& in = row.inputs;
  const NcclCommunicator communicator = communicator_of(row);
  const CollectiveProtocol protocol = protocol_of(row);
  const NcclLink link = communicator.nvlink ? NcclLink::Nvlink : NcclLink::Pcie;
  demand(in, {"base"}, model::nccl_base_latency(algorithm, protocol));
  demand(in, {"hw", "intra"}, model::nccl_link_latency(link, algorithm, protocol));
  demand(in, {"inter"}, model::nccl_link_latency(NcclLink::Network, algorithm, protocol));
  return row.in_unit(algorithm == CollectiveAlgorithm::Tree
                         ? model::nccl_tree_latency(communicator, protocol)
                         : model::nccl_ring_latency(kind_of(row), communicator, protocol));
}

// The generation whose cap the row gives.
template <class Cap>
NcclGeneration generation_of(double gigabytes_per_second, const Cap& cap) {
  for (const NcclGeneration generation : {NcclGeneration::Volta, NcclGeneration::Ampere,
                                          NcclGeneration::Hopper, NcclGeneration::Blackwell}) {
    if (std::abs(cap(generation).value / 1e9 - gigabytes_per_second) < 1e-9) return generation;
  }
  throw MissingInput("its own cap");
}

NcclGeneration generation_from(const Inputs& in, int nodes, NcclGeneration otherwise) {
  if (const auto cap = in.find({"llMaxBw", "llMax"})) {
    return generation_of(*cap, [&](NcclGeneration g) { return model::nccl_ll_cap(g, nodes); });
  }
  if (const auto cap = in.find({"perChMaxTreeBw", "perChTree", "perChMaxTree", "perChMax"})) {
    return generation_of(*cap,
                         [&](NcclGeneration g) { return model::nccl_tree_channel_cap(g, nodes); });
  }
  if (const auto cap = in.find({"perChRingLL128", "perChMaxRingLL128Bw", "perChMaxRing"})) {
    return generation_of(*cap,
                         [&](NcclGeneration g) { return model::nccl_ll128_ring_channel_cap(g); });
  }
  return otherwise;
}

double nccl_bus_bandwidth(const Row& row) {
  row.inputs.need({"bwIntra", "bw", "bwInter"});
  NcclCommunicator communicator = communicator_of(row);
  communicator.generation = generation_from(row.inputs, communicator.nodes, NcclGeneration::Ampere);
  const CollectiveProtocol protocol = protocol_of(row);
  return row.in_unit(row.says("tree") ? model::nccl_tree_bus_bandwidth(communicator, protocol)
                                      : model::nccl_ring_bus_bandwidth(communicator, protocol));
}

double nccl_algorithm_bandwidth(const Row& row) {
  const Inputs& in = row.inputs;
  const NcclCommunicator communicator = communicator_of(row);
  const BytesPerSecond bus =
      in.has({"busBw", "busbw"})
          ? BytesPerSecond{in.need({"busBw", "busbw"}) * 1e9}
          : (in.need({"bwIntra", "bw", "bwInter"}),
             model::nccl_ring_bus_bandwidth(communicator, CollectiveProtocol::Simple));
  if (row.says("tree")) return row.in_unit(0.5 * bus);
  const int steps = in.has({"nsteps"}) ? in.need_int({"nsteps"})
                                       : model::nccl_steps(kind_of(row), communicator.ranks);
  return row.in_unit(model::nccl_ring_algorithm_bandwidth(bus, communicator.ranks, steps));
}

double nccl_correction(const Row& row) {
  return model::nccl_tree_correction(protocol_of(row), {row.inputs.need({"bytes", "S", "size"})});
}

// latency in µs, bandwidth in GB/s.
double nccl_message_time(const Row& row) {
  const Inputs& in = row.inputs;
  const double operations = in.get({"latCount", "lat_count"}, 1);
  return row.in_unit(
      model::message_time({in.need({"bytes", "S", "nBytes"})},
                          {{operations * in.need({"lat", "latency", "lat_us"}) * 1e-6},
                           {in.need({"algbw", "bw", "algBw"}) * 1e9}}));
}

double collective_time(const Row& row) {
  const Inputs& in = row.inputs;
  const model::LinkModel link{
      in.find_time("a", 1).value_or(
          in.find_time("alpha", 1).value_or(in.find_time("latency", 1).value_or(Seconds{}))),
      {in.need({"B", "bw", "bandwidth"})}};
  const Bytes size{in.need({"S", "bytes", "size"})};
  if (row.says("p2p") || row.says("sendrecv")) return row.in_unit(model::message_time(size, link));
  if (row.says("tree")) return row.in_unit(model::tree_all_reduce_time(size, ranks_of(in), link));
  const CollectiveKind kind = kind_of(row);
  if (kind == CollectiveKind::AllReduce && link.latency.value == 0) {
    return row.in_unit(model::ring_all_reduce_bandwidth_term(size, ranks_of(in), link.bandwidth));
  }
  return row.in_unit(model::ring_time(kind, size, ranks_of(in), link));
}

double hierarchical_time(const Row& row) {
  const Inputs& in = row.inputs;
  return row.in_unit(model::hierarchical_all_reduce_time(
      {in.need({"S"})}, {in.need_int({"g", "gpn"}),
                         in.need_int({"N", "nodes"}),
                         {in.need({"B_intra", "Bintra", "bw_intra"})},
                         {in.need({"B_nic", "Bnic", "bw_nic", "B_inter"})}}));
}

// All-to-all moves bytes, rates here are GB/s.
double busbw(const Row& row) {
  const Inputs& in = row.inputs;
  const CollectiveKind kind = kind_of(row);
  if (in.has({"algbw"})) {
    return row.in_unit(model::busbw_from_algbw(kind, ranks_of(in), {in.need({"algbw"}) * 1e9}));
  }
  return row.in_unit(model::busbw_from_time(kind, ranks_of(in), {in.need({"S", "bytes"})},
                                            in.need_time({"t", "time"})));
}

double algbw(const Row& row) {
  return row.in_unit(model::algbw_from_busbw(kind_of(row), ranks_of(row.inputs),
                                             {row.inputs.need({"busbw"}) * 1e9}));
}

model::ActivationExtent extent_of(const Inputs& in) {
  return {in.get({"b"}, 1),
          in.need({"s"}),
          in.need({"h"}),
          {in.get({"bytes", "elem_bytes", "dtype_bytes"}, 1)}};
}

Rules volume_rules() {
  return {
      {"volume|comm|elements|bytes tp|tensor",
       [](const Row& row) {
         return row.in_unit(
             model::tensor_parallel_volume(extent_of(row.inputs), row.inputs.need_int({"t"})));
       }},
      {"volume|comm|elements|bytes pp|pipeline|p2p",
       [](const Row& row) {
         return row.in_unit(model::pipeline_volume(extent_of(row.inputs),
                                                   static_cast<int>(row.inputs.get({"t"}, 1))));
       }},
      {"volume|comm|elements|bytes dp|data|zero3",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(
             model::data_parallel_volume({in.need({"P", "params", "N"}) * in.get({"bytes"}, 1)},
                                         in.need_int({"d", "dp"}), row.says("zero3")));
       }},
      {"volume|comm|elements|bytes ep|expert|a2a",
       [](const Row& row) {
         return row.in_unit(model::expert_parallel_volume(extent_of(row.inputs),
                                                          row.inputs.need_int({"topk", "k"}),
                                                          row.inputs.need_int({"e", "ep"})));
       }},
  };
}

}  // namespace

Rules collective_rules() {
  Rules rules = {
      {"nccl tree latency",
       [](const Row& row) { return nccl_latency(row, CollectiveAlgorithm::Tree); }},
      {"nccl ring latency",
       [](const Row& row) { return nccl_latency(row, CollectiveAlgorithm::Ring); }},
      {"nccl correction", nccl_correction},
      {"nccl algbw", nccl_algorithm_bandwidth},
      {"nccl busbw|bw", nccl_bus_bandwidth},
      {"nccl time", nccl_message_time},
      {"busbw factor",
       [](const Row& row) { return model::busbw_factor(kind_of(row), ranks_of(row.inputs)); }},
      {"algbw from_busbw", algbw},
      {"busbw", busbw},
      {"sharp ratio",
       [](const Row& row) {
         return model::sharp_send_ratio(row.inputs.need_int({"N", "n"}));
       }},
      {"hierarchical", hierarchical_time},
      {"allreduce|all_reduce|allgather|all_gather|reducescatter|reduce_scatter|alltoall|p2p time",
       collective_time},
  };
  const Rules volumes = volume_rules();
  rules.insert(rules.end(), volumes.begin(), volumes.end());
  return rules;
}

}  // namespace megatwin::vector_check
