#include "cli/network_description.h"

#include <cstdint>
#include <map>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "scenarios/astra_sim.h"
#include "scenarios/ibnetdiscover.h"
#include "scenarios/nccl_topology.h"
#include "scenarios/nvidia_smi_topology.h"
#include "scenarios/simai.h"
#include "scenarios/simgrid_platform.h"
#include "scenarios/slurm_topology.h"

namespace megatwin::cli {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;
using Read = model::Result<NetworkDescription>;

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

std::vector<std::string> texts_of(const model::Diagnostics& warnings) {
  std::vector<std::string> texts;
  for (const model::Diagnostic& warning : warnings) texts.push_back(warning.message);
  return texts;
}

std::string counted(const std::map<std::string, int>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} × {}", text.empty() ? "" : ", ", count, name);
  }
  return text;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Read read_nccl_topology(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(auto read, scenarios::parse_nccl_topology(file, text));
  NetworkDescription out{.kind = "nccl-topology"};
  out.facts = {{"version", read.version},
               {"cpus", std::to_string(read.cpus.size())},
               {"gpu elements", std::to_string(read.num_gpu_elements)},
               {"gpu devices", std::to_string(read.num_gpu_devices)},
               {"pci devices by class", counted(read.pci_by_class)},
               {"pci nesting", std::to_string(read.max_pci_nesting)}};
  std::vector<std::string> numa;
  for (const auto& cpu : read.cpus) numa.push_back(cpu.numa_id);
  out.facts.emplace_back("numa nodes", listed(numa));
  for (const auto& net : read.nets) {
    out.facts.emplace_back("net " + net.name, fmt::format("{} Mbit/s", net.megabits_per_second));
  }
  for (const auto& [gpu, lanes] : read.lanes_by_gpu) {
    out.facts.emplace_back("links of gpu " + gpu, std::to_string(lanes));
  }
  if (read.num_gpu_devices > 0) out.topology = std::move(read.topology);
  out.warnings = texts_of(read.warnings);
  return out;
}

Read read_nccl_graph(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const auto graphs, scenarios::parse_nccl_graphs(file, text));
  NetworkDescription out{.kind = "nccl-graph"};
  for (const scenarios::NcclGraph& graph : graphs) {
    out.facts.emplace_back(
        fmt::format("graph {}", graph.id),
        fmt::format("pattern {}, {} channels, {} GB/s ({}) inside, {} GB/s ({}) between",
                    graph.pattern, graph.num_channels, graph.speed_intra, graph.type_intra,
                    graph.speed_inter, graph.type_inter));
    for (const auto& channel : graph.channels) {
      std::string line = " ";
      for (const std::string& member : channel) line += " " + member;
      out.lines.push_back(std::move(line));
    }
  }
  return out;
}

Read read_simgrid(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const auto platform, scenarios::parse_simgrid_platform(file, text));
  NetworkDescription out{.kind = "simgrid-platform"};
  out.facts = {{"version", platform.version},
               {"hosts", std::to_string(platform.num_hosts_in_all())},
               {"links", std::to_string(platform.num_links)},
               {"routes", std::to_string(platform.num_routes)},
               {"clusters", std::to_string(platform.clusters.size() + platform.cabinets.size())}};
  for (const auto& cluster : platform.clusters) {
    out.facts.emplace_back(
        "cluster " + cluster.id,
        fmt::format("{} {} {} hosts, {:.4g} GB/s, {:.4g} us", cluster.topology, cluster.parameters,
                    cluster.num_hosts, cluster.bandwidth.value / 1e9, cluster.latency.value * 1e6));
  }
  out.warnings = texts_of(platform.warnings);
  return out;
}

void add_slurm(const scenarios::SlurmTopology& topology, NetworkDescription& out) {
  const std::string name = topology.name.empty() ? "topology" : topology.name;
  out.facts.emplace_back(
      name, fmt::format("{}{}: {} switches or blocks, {} with nodes, {}, roots {}", topology.kind,
                        topology.is_default ? " (default)" : "", topology.switches.size(),
                        topology.num_leaves(), format_counted(topology.num_nodes(), "node"),
                        listed(topology.roots())));
  if (topology.kind == "tree" && topology.roots().size() > 1) {
    out.warnings.push_back(
        fmt::format("{}: no switch joins the islands under {}", name, listed(topology.roots())));
  }
}

Read read_slurm(const std::string& file, const std::string& text) {
  NetworkDescription out{.kind = "slurm-topology"};
  if (has(text, "SwitchName=") || has(text, "BlockName=") || has(text, "switchname=")) {
    MEGATWIN_TRY(const auto topology, scenarios::parse_slurm_topology(file, text));
    add_slurm(topology, out);
    return out;
  }
  MEGATWIN_TRY(const auto all, scenarios::parse_slurm_topology_yaml(file, text));
  for (const auto& topology : all) add_slurm(topology, out);
  return out;
}

Read read_gres(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const auto lines, scenarios::parse_slurm_gres(file, text));
  NetworkDescription out{.kind = "slurm-gres"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out.facts.emplace_back(fmt::format("line {}", i),
                           fmt::format("{} {}: {} devices, cores {}", lines[i].name, lines[i].type,
                                       lines[i].files.size(), lines[i].cores));
  }
  return out;
}

Read read_ibnetdiscover(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(auto fabric, scenarios::parse_ibnetdiscover(file, text));
  NetworkDescription out{.kind = "ibnetdiscover"};
  out.facts = {{"switches", std::to_string(fabric.num_switches)},
               {"adapters", std::to_string(fabric.num_adapters)},
               {"hosts", std::to_string(fabric.num_hosts)},
               {"port lines", std::to_string(fabric.num_port_lines)},
               {"ports to switches", std::to_string(fabric.num_to_switch)},
               {"ports to adapters", std::to_string(fabric.num_to_adapter)},
               {"rates", counted(fabric.rates)}};
  out.topology = std::move(fabric.topology);
  out.warnings = texts_of(fabric.warnings);
  return out;
}

Read read_nvidia_smi(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(auto matrix, scenarios::parse_nvidia_smi_topology(file, text));
  NetworkDescription out{.kind = "nvidia-smi"};
  out.facts = {{"gpus", std::to_string(matrix.gpus.size())},
               {"nics", listed(matrix.nics)},
               {"columns", listed(matrix.columns)},
               {"nvswitch", matrix.nvswitch ? "yes" : "no"}};
  for (std::size_t gpu = 0; gpu < matrix.gpus.size(); ++gpu) {
    out.facts.emplace_back("links of " + matrix.gpus[gpu], std::to_string(matrix.num_nvlinks(gpu)));
  }
  out.topology = std::move(matrix.topology);
  out.warnings = texts_of(matrix.warnings);
  return out;
}

Read read_simai_workload(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const auto workload, scenarios::parse_simai_workload(file, text));
  NetworkDescription out{.kind = "simai"};
  out.facts = {{"policy", workload.policy},
               {"layers", std::to_string(workload.num_layers)},
               {"declared layers", std::to_string(workload.declared_layers)}};
  for (const auto& [key, value] : workload.header) out.facts.emplace_back(key, value);
  for (const auto& [name, count] : workload.collectives) {
    const auto bytes = workload.bytes.find(name);
    out.facts.emplace_back(
        name, bytes == workload.bytes.end()
                  ? fmt::format("{}", count)
                  : fmt::format("{}, {} B", count, static_cast<std::int64_t>(bytes->second.value)));
  }
  out.warnings = texts_of(workload.warnings);
  return out;
}

Read read_simai(const std::string& file, const std::string& text) {
  switch (scenarios::recognise_simai(text)) {
    case scenarios::SimaiKind::Workload:
      return read_simai_workload(file, text);
    case scenarios::SimaiKind::Topology: {
      MEGATWIN_TRY(auto read, scenarios::parse_simai_topology(file, text));
      NetworkDescription out{.kind = "simai"};
      out.facts = {{"nodes", std::to_string(read.nodes)},
                   {"gpus per server", std::to_string(read.gpus_per_server)},
                   {"nvswitches", std::to_string(read.nvswitches)},
                   {"other switches", std::to_string(read.switches)},
                   {"links", std::to_string(read.links)},
                   {"gpu", read.gpu_type}};
      out.topology = std::move(read.topology);
      out.warnings = texts_of(read.warnings);
      return out;
    }
    case scenarios::SimaiKind::BusBandwidth: {
      MEGATWIN_TRY(const auto all, scenarios::parse_simai_busbw(file, text));
      NetworkDescription out{.kind = "simai"};
      for (const auto& [group, rates] : all) {
        for (const auto& [collective, rate] : rates) {
          out.facts.emplace_back(group + " " + collective,
                                 fmt::format("{:.6g} GB/s", rate.value / 1e9));
        }
      }
      return out;
    }
    case scenarios::SimaiKind::Timings:
      return model::fail({.file = file,
                          .message = "holds AICB's kernel times of one machine: our own profiles "
                                     "price kernels",
                          .allowed = "a workload, a topology or busbw.yaml of SimAI"});
    case scenarios::SimaiKind::Table:
      return model::fail({.file = file,
                          .message = "is a table of SimAI without units or a machine's name",
                          .allowed = "a workload, a topology or busbw.yaml of SimAI"});
    case scenarios::SimaiKind::None:
      break;
  }
  return model::fail({.file = file,
                      .message = "is no file of SimAI",
                      .allowed = "a workload, a topology or busbw.yaml of SimAI"});
}

Read read_astra_sim(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(auto config, scenarios::parse_astra_sim(file, text));
  NetworkDescription out{.kind = "astra-sim"};
  out.facts = std::move(config.facts);
  out.facts.insert(out.facts.begin(), {"configuration", config.kind});
  out.warnings = texts_of(config.warnings);
  return out;
}

struct Reader {
  const char* kind;
  Read (*read)(const std::string& file, const std::string& text);
};
constexpr Reader kReaders[] = {{"nccl-topology", read_nccl_topology},
                               {"nccl-graph", read_nccl_graph},
                               {"nvidia-smi", read_nvidia_smi},
                               {"slurm-topology", read_slurm},
                               {"slurm-gres", read_gres},
                               {"ibnetdiscover", read_ibnetdiscover},
                               {"simgrid-platform", read_simgrid},
                               {"simai", read_simai},
                               {"astra-sim", read_astra_sim}};

}  // namespace

const std::vector<std::string>& network_kinds() {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> names;
    for (const Reader& reader : kReaders) names.emplace_back(reader.kind);
    return names;
  }();
  return kinds;
}

std::optional<std::string> recognise_network_kind(const std::string& text) {
  if (scenarios::is_astra_sim(text)) return "astra-sim";
  if (scenarios::recognise_simai(text) != scenarios::SimaiKind::None) return "simai";
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '<') {
    if (has(text, "<platform")) return "simgrid-platform";
    if (has(text, "<graphs")) return "nccl-graph";
    return "nccl-topology";
  }
  if (has(text, "vendid=") || has(text, "caguid=")) return "ibnetdiscover";
  if (has(text, "GPU0") && (has(text, " X ") || has(text, "\tX"))) return "nvidia-smi";
  if (has(text, "SwitchName=") || has(text, "BlockName=") || has(text, "cluster_default:") ||
      has(text, "\nswitches:\n")) {
    return "slurm-topology";
  }
  if (has(text, "Name=gpu") && has(text, "File=")) return "slurm-gres";
  return std::nullopt;
}

model::Result<NetworkDescription> read_network_description(const std::string& kind,
                                                           const std::string& file,
                                                           const std::string& text) {
  for (const Reader& reader : kReaders) {
    if (kind == reader.kind) return reader.read(file, text);
  }
  return model::fail({.file = file, .message = "unknown kind '" + kind + "'"});
}

}  // namespace megatwin::cli
