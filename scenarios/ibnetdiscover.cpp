#include "scenarios/ibnetdiscover.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "scenarios/document.h"

namespace megatwin::scenarios {
namespace {

using model::VertexId;
using model::VertexKind;

struct PortLine {
  std::string peer;
  int peer_port = 0, port = 0;
  std::string rate;
};

// The next text in double quotes at or after `at`, which moves behind it.
std::optional<std::string> next_quoted(std::string_view line, std::size_t& at) {
  const std::size_t open = line.find('"', at);
  if (open == std::string_view::npos) return std::nullopt;
  const std::size_t close = line.find('"', open + 1);
  if (close == std::string_view::npos) return std::nullopt;
  at = close + 1;
  return std::string(line.substr(open + 1, close - open - 1));
}

int number_after(std::string_view line, std::size_t at) {
  const std::string digits(line.substr(at, 9));
  return static_cast<int>(std::strtol(digits.c_str(), nullptr, 10));
}

// [1]	"H-guid"[1](guid) 		# "name" lid 647 4xNDR
std::optional<PortLine> read_port(std::string_view line) {
  PortLine port{.port = number_after(line, 1)};
  std::size_t at = 0;
  const auto peer = next_quoted(line, at);
  if (!peer) return std::nullopt;
  port.peer = *peer;
  if (at < line.size() && line[at] == '[') port.peer_port = number_after(line, at + 1);
  if (!next_quoted(line, at)) return std::nullopt;  // The name.
  const std::size_t lid = line.find(" lid ", at);
  if (lid == std::string_view::npos) return std::nullopt;
  std::size_t start = line.find_first_not_of(' ', lid + 5);
  start = line.find(' ', std::min(start, line.size()));
  start = line.find_first_not_of(' ', start);
  if (start == std::string_view::npos) return std::nullopt;
  port.rate = std::string(line.substr(start, line.find_first_of(" \t\r", start) - start));
  return port;
}

class FabricReader {
 public:
  explicit FabricReader(const std::string& file) : file_(file) {}

  model::Result<IbFabric> read(std::string_view text) {
    int number = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (!read_line(text.substr(0, end), ++number)) return model::fail(std::move(faults_));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (fabric_.devices.empty()) {
      return model::fail({.file = file_,
                          .message = "holds no block of a switch or an adapter",
                          .allowed = "what ibnetdiscover prints"});
    }
    if (fabric_.num_switches == 0) {
      return model::fail({.file = file_,
                          .message = "holds " + std::to_string(fabric_.num_adapters) +
                                     " adapter and no switch: there is no network in it",
                          .allowed = "the output of ibnetdiscover on a cabled fabric"});
    }
    build();
    return std::move(fabric_);
  }

 private:
  bool read_line(std::string_view line, int number) {
    if (line.starts_with("Switch") || line.starts_with("Ca")) return read_device(line, number);
    if (!line.starts_with('[') || fabric_.devices.empty()) return true;
    const auto port = read_port(line);
    if (!port || infiniband_rate(port->rate).value <= 0) {
      faults_ = {{.file = file_,
                  .line = number,
                  .message = port ? "unknown rate " + quoted(port->rate)
                                  : "a port line without peer, lid and rate",
                  .allowed = "[1] \"S-guid\"[2] # \"name\" lid 3 4xNDR",
                  .source_line = std::string(line)}};
      return false;
    }
    ++fabric_.num_port_lines;
    ++fabric_.rates[port->rate];
    ++(port->peer.starts_with("S-") ? fabric_.num_to_switch : fabric_.num_to_adapter);
    // An adapter's block tells of the cable once more.
    if (fabric_.devices.back().is_switch) ports_.emplace_back(fabric_.devices.size() - 1, *port);
    return true;
  }

  bool read_device(std::string_view line, int number) {
    std::size_t at = 0;
    const auto guid = next_quoted(line, at);
    const auto name = next_quoted(line, at);
    const std::size_t ports = line.find_first_of("0123456789");
    if (!guid || !name || ports == std::string_view::npos) {
      faults_ = {{.file = file_,
                  .line = number,
                  .message = "a device without its number of ports, identity and name",
                  .allowed = "Switch 40 \"S-guid\" # \"name\"",
                  .source_line = std::string(line)}};
      return false;
    }
    IbFabric::Device device{.guid = *guid, .name = *name, .is_switch = line.starts_with("Switch")};
    device.ports = number_after(line, ports);
    device.is_aggregation = name->find("Aggregation Node") != std::string::npos;
    ++(device.is_switch ? fabric_.num_switches : fabric_.num_adapters);
    fabric_.devices.push_back(std::move(device));
    return true;
  }

  // "host mlx5_5" to its host; a name without adapter is the host's.
  static std::string host_of(const std::string& name) { return name.substr(0, name.find(' ')); }

  void build() {
    std::map<std::string, VertexId> vertex_of;
    std::map<std::string, int> machines;
    const std::set<std::string> leaves = switches_beside_hosts();
    const std::set<std::string> spines = switches_beside(leaves);
    std::array<int, 9> count{};
    for (const IbFabric::Device& device : fabric_.devices) {
      if (device.is_aggregation || vertex_of.count(device.guid) > 0) continue;
      VertexKind kind = VertexKind::Nic;
      int machine = -1;
      if (device.is_switch) {
        kind = leaves.count(device.guid) > 0   ? VertexKind::Leaf
               : spines.count(device.guid) > 0 ? VertexKind::Spine
                                               : VertexKind::Core;
      } else {
        machine =
            machines.emplace(host_of(device.name), static_cast<int>(machines.size())).first->second;
      }
      const int position = count[static_cast<std::size_t>(kind)]++;
      vertex_of[device.guid] = fabric_.topology.add_vertex(
          {.kind = kind,
           .name = device.name + (device.is_switch ? "" : " " + device.guid),
           .machine = machine,
           .position = position});
    }
    fabric_.num_hosts = static_cast<int>(machines.size());
    add_cables(vertex_of);
  }

  std::set<std::string> switches_beside_hosts() const {
    std::map<std::string, bool> is_host;
    for (const IbFabric::Device& d : fabric_.devices) {
      if (!d.is_switch && !d.is_aggregation) is_host[d.guid] = true;
    }
    std::set<std::string> beside;
    for (const auto& [device, port] : ports_) {
      if (is_host.count(port.peer) > 0) beside.insert(fabric_.devices[device].guid);
    }
    return beside;
  }

  std::set<std::string> switches_beside(const std::set<std::string>& others) const {
    std::set<std::string> beside;
    for (const auto& [device, port] : ports_) {
      if (others.count(port.peer) > 0) beside.insert(fabric_.devices[device].guid);
    }
    return beside;
  }

  // Each port line is one direction, away from its switch; the way up from an adapter is told of by
  // the switch alone here.
  void add_cables(const std::map<std::string, VertexId>& vertex_of) {
    int dangling = 0;
    for (const auto& [device, port] : ports_) {
      const auto peer = vertex_of.find(port.peer);
      const auto own = vertex_of.find(fabric_.devices[device].guid);
      if (own == vertex_of.end()) continue;  // A switch that says it is an aggregation node.
      if (peer == vertex_of.end()) {
        if (port.peer.starts_with("S-")) ++dangling;
        continue;
      }
      model::Link link{.from = own->second,
                       .to = peer->second,
                       .bandwidth = infiniband_rate(port.rate),
                       .kind = model::LinkKind::Fabric};
      if (port.peer.starts_with("H-")) {
        link.kind = model::LinkKind::Port;
        fabric_.topology.add_cable(link);
      } else {
        fabric_.topology.add_link(link);
      }
    }
    if (dangling > 0) {
      warn(std::to_string(dangling) + " cables lead to switches that are not described");
    }
    find_islands(vertex_of);
  }

  void warn(std::string message) {
    fabric_.warnings.push_back({.severity = model::Diagnostic::Severity::Warning,
                                .file = file_,
                                .message = std::move(message)});
  }

  // Switches that no cables join, named by the first of each island.
  void find_islands(const std::map<std::string, VertexId>& vertex_of) {
    std::map<std::string, std::string> parent;
    const auto root = [&](std::string guid) {
      while (parent[guid] != guid) guid = parent[guid] = parent[parent[guid]];
      return guid;
    };
    for (const auto& [guid, vertex] : vertex_of) parent[guid] = guid;
    for (const auto& [device, port] : ports_) {
      if (vertex_of.count(port.peer) == 0) continue;
      parent[root(port.peer)] = root(fabric_.devices[device].guid);
    }
    std::map<std::string, std::string> islands;  // By root, the first switch.
    for (const IbFabric::Device& device : fabric_.devices) {
      if (device.is_switch) islands.emplace(root(device.guid), device.name);
    }
    if (islands.size() < 2) return;
    std::string names;
    for (const auto& [guid, name] : islands) {
      if (names.size() > 60) break;
      names += (names.empty() ? "" : ", ") + name;
    }
    warn("the switches are " + std::to_string(islands.size()) +
         " islands that no cable joins, those of " + names);
  }

  const std::string& file_;
  IbFabric fabric_;
  model::Diagnostics faults_;
  std::vector<std::pair<std::size_t, PortLine>> ports_;  // Of which device.
};

}  // namespace

model::BytesPerSecond infiniband_rate(std::string_view text) {
  // Gbit/s of one lane. Source: InfiniBand Trade Association, roadmap.
  constexpr std::pair<std::string_view, double> kLanes[] = {
      {"SDR", 2.5}, {"DDR", 5},  {"QDR", 10},  {"FDR10", 10}, {"FDR", 14},
      {"EDR", 25},  {"HDR", 50}, {"NDR", 100}, {"XDR", 200}};
  const std::size_t by = text.find('x');
  if (by == std::string_view::npos || by == 0 || by > 2) return {};
  for (const auto& [speed, gigabits] : kLanes) {
    if (text.substr(by + 1) == speed) return {number_after(text, 0) * gigabits * 1e9 / 8};
  }
  return {};
}

model::Result<IbFabric> parse_ibnetdiscover(const std::string& file, std::string_view text) {
  if (model::Diagnostics faults = check_text(file, text); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  return FabricReader(file).read(text);
}

}  // namespace megatwin::scenarios
