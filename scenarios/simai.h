// Files of SimAI and its workload generator AICB: the workload of a training step, and the topology
// that its network simulator reads. Facts only; nothing here becomes a job. Grammar: spec of
// Workload.cc and of the topology generator, as their producers write them.
#ifndef MEGATWIN_SCENARIOS_SIMAI_H_
#define MEGATWIN_SCENARIOS_SIMAI_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result.h"
#include "model/topology/topology.h"

namespace megatwin::scenarios {

struct SimaiWorkload {
  std::string policy;                                       // "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
  std::vector<std::pair<std::string, std::string>> header;  // "pp" → "12", in the file's order.
  int declared_layers = 0;
  int num_layers = 0;                         // Lines that are there.
  std::map<std::string, int> collectives;     // "ALLGATHER_DP_EP" → how many, NONE included.
  std::map<std::string, model::Bytes> bytes;  // By the same, NONE left out.
  model::Diagnostics warnings;                // Fewer or more lines than declared.
};
// Errors: no such header; a line that has not twelve fields; a field that is no number.
model::Result<SimaiWorkload> parse_simai_workload(const std::string& file, std::string_view text);

// "68 8 4 32 224 H800": nodes, GPUs a server, NVSwitches, other switches, links, GPU.
struct SimaiTopology {
  int nodes = 0, gpus_per_server = 0, nvswitches = 0, switches = 0, links = 0;
  std::string gpu_type;
  // Every link of a GPU to a switch of the network has an adapter of its own in it.
  model::Topology topology;
  model::Diagnostics warnings;
};
model::Result<SimaiTopology> parse_simai_topology(const std::string& file, std::string_view text);

// Bus bandwidth by group and collective in GB/s, such as TP → allreduce → 300; null is left out.
// The comma inside its keys ("allreduce,: 300") makes it no YAML of anybody else's.
using SimaiBusBandwidths = std::map<std::string, std::map<std::string, model::BytesPerSecond>>;
model::Result<SimaiBusBandwidths> parse_simai_busbw(const std::string& file, std::string_view text);

enum class SimaiKind { None, Workload, Topology, BusBandwidth, Timings, Table };
// What a text is. Timings and Table are AICB's kernel times and spreadsheets, which are not read.
SimaiKind recognise_simai(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SIMAI_H_
