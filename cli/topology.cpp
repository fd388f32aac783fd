#include "cli/topology.h"

#include <optional>
#include <utility>

#include "cli/diagnostics.h"
#include "cli/files.h"
#include "cli/network_description.h"
#include "cli/report/format.h"
#include "cli/report/json_writer.h"
#include "cli/report/topology_picture.h"
#include "model/topology/fabric_topology.h"
#include "scenarios/document.h"

namespace megatwin::cli {
namespace {

// What a file came to: a graph, or facts of one that has no links to draw.
model::Result<NetworkDescription> described(const TopologyArguments& arguments,
                                            const World& world) {
  MEGATWIN_TRY(const std::string text, scenarios::read_file(arguments.file));
  if (const auto kind = recognise_network_kind(text)) {
    return read_network_description(*kind, arguments.file, text);
  }
  MEGATWIN_TRY(const auto jobs, world.load_jobs(arguments.file, {.set = arguments.settings}));
  MEGATWIN_TRY(auto topology, model::build_topology(jobs.front().cluster));
  NetworkDescription shown{.kind = "scenario"};
  shown.topology = std::move(topology);
  return shown;
}

void print_text(const NetworkDescription& shown, Console& console) {
  console.out << "kind: " << shown.kind << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : shown.facts) rows.push_back({name, value});
  if (!rows.empty()) console.out << format_table(rows, {});
  for (const std::string& line : shown.lines) console.out << line << "\n";
  if (shown.topology) console.out << topology_text(*shown.topology);
  for (const std::string& warning : shown.warnings) console.out << "warning: " << warning << "\n";
}

void write_graph(JsonWriter& json, const model::Topology& topology) {
  json.key("vertices");
  json.begin_array();
  for (model::VertexId id; id.value < topology.num_vertices(); ++id.value) {
    const model::Vertex& vertex = topology.vertex(id);
    json.begin_object();
    json.member("name", vertex.name);
    json.member("kind", model::name_of(vertex.kind));
    if (vertex.machine >= 0) json.member("machine", vertex.machine);
    json.end_object();
  }
  json.end_array();
  // Every direction of a cable is a link of its own.
  json.key("links");
  json.begin_array();
  for (model::LinkId id; id.value < topology.num_links(); ++id.value) {
    const model::Link& link = topology.link(id);
    json.begin_object();
    json.member("from", topology.vertex(link.from).name);
    json.member("to", topology.vertex(link.to).name);
    json.member("kind", model::name_of(link.kind));
    json.member("bandwidth_bytes_per_s", link.bandwidth.value);
    json.member("latency_s", link.latency.value);
    json.end_object();
  }
  json.end_array();
}

void print_json(const NetworkDescription& shown, Console& console) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("kind", shown.kind);
  json.key("facts");
  json.begin_object();
  for (const auto& [name, value] : shown.facts) json.member(name, value);
  json.end_object();
  if (shown.topology) {
    json.member("gpus", shown.topology->num_gpus());
    json.member("machines", shown.topology->num_machines());
    write_graph(json, *shown.topology);
  }
  json.member("warnings", shown.warnings);
  json.end_object();
  console.out << json.finish();
}

}  // namespace

int topology_command(const TopologyArguments& arguments, const World& world, Console& console) {
  const auto shown = described(arguments, world);
  if (!shown) {
    print_diagnostics(shown.error(), arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  arguments.json ? print_json(*shown, console) : print_text(*shown, console);
  if (arguments.svg.empty()) return kExitAnswer;
  if (!shown->topology) {
    print_diagnostics({{.file = arguments.file,
                        .message = "a description of kind " + shown->kind + " has no picture"}},
                      arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  write_file(arguments.svg, topology_svg(*shown->topology));
  console.err << "wrote " << arguments.svg << "\n";
  return kExitAnswer;
}

}  // namespace megatwin::cli
