#include "cli/topology.h"

#include <utility>

#include <fmt/format.h>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/report/topology_picture.h"
#include "model/topology/fabric_topology.h"
#include "scenarios/document.h"
#include "scenarios/ibnetdiscover.h"
#include "scenarios/nccl_topology.h"
#include "scenarios/nvidia_smi_topology.h"
#include "scenarios/simgrid_platform.h"
#include "scenarios/slurm_topology.h"
#include "scenarios/xml_reader.h"

namespace megatwin::cli {
namespace {

// What a file came to: a graph, or a summary of one that has no links to draw.
struct Shown {
  std::string kind, text, svg;
  model::Diagnostics warnings;
};

Shown shown_graph(std::string kind, const model::Topology& topology,
                  model::Diagnostics warnings = {}) {
  return {.kind = std::move(kind),
          .text = topology_text(topology),
          .svg = topology_svg(topology),
          .warnings = std::move(warnings)};
}

model::Result<Shown> show_xml(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const scenarios::XmlElement root, scenarios::parse_xml(file, text));
  if (root.name == "platform") {
    MEGATWIN_TRY(const auto platform, scenarios::parse_simgrid_platform(file, text));
    Shown shown{.kind = "simgrid-platform"};
    shown.text = fmt::format("{} hosts, {} links, {} routes, {} clusters\n",
                             platform.num_hosts_in_all(), platform.num_links, platform.num_routes,
                             platform.clusters.size() + platform.cabinets.size());
    return shown;
  }
  if (root.name == "graphs") {
    MEGATWIN_TRY(const auto graphs, scenarios::parse_nccl_graphs(file, text));
    Shown shown{.kind = "nccl-graph"};
    for (const scenarios::NcclGraph& graph : graphs) {
      shown.text +=
          fmt::format("graph {}: pattern {}, {} channels, {} GB/s inside, {} between\n", graph.id,
                      graph.pattern, graph.num_channels, graph.speed_intra, graph.speed_inter);
      for (const auto& channel : graph.channels) {
        shown.text += " ";
        for (const std::string& member : channel) shown.text += " " + member;
        shown.text += "\n";
      }
    }
    return shown;
  }
  MEGATWIN_TRY(auto topology, scenarios::parse_nccl_topology(file, text));
  return shown_graph("nccl-topology", topology.topology, std::move(topology.warnings));
}

model::Result<Shown> show_slurm(const std::string& file, const std::string& text) {
  MEGATWIN_TRY(const auto topology, scenarios::parse_slurm_topology(file, text));
  Shown shown{.kind = "slurm-" + topology.kind};
  shown.text = fmt::format("{} switches or blocks, {} with nodes, {} nodes, {} roots\n",
                           topology.switches.size(), topology.num_leaves(), topology.num_nodes(),
                           topology.roots().size());
  return shown;
}

model::Result<Shown> show_scenario(const TopologyArguments& arguments, const World& world) {
  MEGATWIN_TRY(const auto jobs, world.load_jobs(arguments.file, {.set = arguments.settings}));
  MEGATWIN_TRY(const auto topology, model::build_topology(jobs.front().cluster));
  return shown_graph("scenario", topology);
}

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

model::Result<Shown> show(const TopologyArguments& arguments, const World& world) {
  MEGATWIN_TRY(const std::string text, scenarios::read_file(arguments.file));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '<') return show_xml(arguments.file, text);
  if (has(text, "vendid=") || has(text, "caguid=")) {
    MEGATWIN_TRY(auto fabric, scenarios::parse_ibnetdiscover(arguments.file, text));
    return shown_graph("ibnetdiscover", fabric.topology, std::move(fabric.warnings));
  }
  if (has(text, "GPU0") && (has(text, " X ") || has(text, "\tX"))) {
    MEGATWIN_TRY(auto matrix, scenarios::parse_nvidia_smi_topology(arguments.file, text));
    return shown_graph("nvidia-smi", matrix.topology, std::move(matrix.warnings));
  }
  if (has(text, "SwitchName=") || has(text, "BlockName=")) return show_slurm(arguments.file, text);
  return show_scenario(arguments, world);
}

}  // namespace

int topology_command(const TopologyArguments& arguments, const World& world, Console& console) {
  const auto shown = show(arguments, world);
  if (!shown) {
    print_diagnostics(shown.error(), arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  console.out << "kind: " << shown->kind << "\n" << shown->text;
  for (const model::Diagnostic& warning : shown->warnings) {
    console.out << "warning: " << warning.message << "\n";
  }
  if (arguments.svg.empty()) return kExitAnswer;
  if (shown->svg.empty()) {
    print_diagnostics({{.file = arguments.file, .message = "a " + shown->kind + " has no picture"}},
                      arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  write_file(arguments.svg, shown->svg);
  console.err << "wrote " << arguments.svg << "\n";
  return kExitAnswer;
}

}  // namespace megatwin::cli
