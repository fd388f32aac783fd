#include "scenarios/simai.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "model/counted.h"

namespace megatwin::scenarios {
namespace {

using model::BytesPerSecond;
using model::Diagnostic;
using model::LinkKind;
using model::Seconds;
using model::VertexId;
using model::VertexKind;

struct Line {
  int number = 0;
  std::vector<std::string_view> words;
};

// Lines with something on them, in words.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Line line{.number = ++number, .words = {}};
    while (true) {
      const std::size_t first = rest.find_first_not_of(" \t\r");
      if (first == std::string_view::npos) break;
      rest.remove_prefix(first);
      const std::size_t last = std::min(rest.find_first_of(" \t\r"), rest.size());
      line.words.push_back(rest.substr(0, last));
      rest.remove_prefix(last);
    }
    if (!line.words.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

std::optional<double> number_of(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The number before a unit: "1440Gbps", "0.0005ms".
std::optional<double> with_unit(std::string_view word, std::string_view unit) {
  if (!word.ends_with(unit)) return std::nullopt;
  return number_of(word.substr(0, word.size() - unit.size()));
}

Diagnostic fault(const std::string& file, int line, std::string message, std::string allowed) {
  return {.file = file, .line = line, .message = std::move(message), .allowed = std::move(allowed)};
}

void read_header(const Line& line, SimaiWorkload& workload) {
  workload.policy = line.words.front();
  for (std::size_t i = 1; i < line.words.size(); ++i) {
    std::string_view word = line.words[i];
    const bool is_key = word.ends_with(':') || word == "pp_comm";
    if (is_key) {
      if (word.ends_with(':')) word.remove_suffix(1);
      workload.header.emplace_back(word, "");
    } else if (!workload.header.empty()) {
      std::string& value = workload.header.back().second;
      value += (value.empty() ? "" : " ") + std::string(word);
    }
  }
}

constexpr std::size_t kFields = 12;
// Of forward, input gradient and weight gradient: where the collective's name stands.
constexpr std::array<std::size_t, 3> kCollectives = {3, 6, 9};

// A GPU's server, its adapters in the order of their links.
class SimaiGraph {
 public:
  explicit SimaiGraph(SimaiTopology& out)
      : out_(out), gpus_(out.nodes - out.nvswitches - out.switches) {}

  int num_gpus() const { return gpus_; }

  void add_vertices() {
    for (int id = 0; id < out_.nodes; ++id) {
      const bool gpu = id < gpus_, nvswitch = !gpu && id < gpus_ + out_.nvswitches;
      const int machine = gpu ? id / out_.gpus_per_server
                              : (nvswitch ? (id - gpus_) * num_machines() / out_.nvswitches : -1);
      const int position = gpu ? id % out_.gpus_per_server : (nvswitch ? id - gpus_ : id);
      const std::string name =
          gpu ? part(machine, "gpu", position)
              : (nvswitch ? part(machine, "nvswitch", id) : "switch" + std::to_string(id));
      ids_.push_back(out_.topology.add_vertex(
          {.kind = gpu ? VertexKind::Gpu
                       : (nvswitch ? VertexKind::NvSwitch
                                   : (id < gpus_ + out_.nvswitches + out_.switches / 2
                                          ? VertexKind::Leaf
                                          : VertexKind::Spine)),
           .name = name,
           .machine = machine,
           .position = position}));
    }
    nics_.assign(static_cast<std::size_t>(num_machines()), 0);
  }

  void add_link(int from, int to, BytesPerSecond bandwidth, Seconds latency) {
    if (from > to) std::swap(from, to);
    const VertexId a = ids_[static_cast<std::size_t>(from)], b = ids_[static_cast<std::size_t>(to)];
    const bool inside = to < gpus_ + out_.nvswitches;
    if (inside || from >= gpus_) {
      out_.topology.add_cable({.from = a,
                               .to = b,
                               .bandwidth = bandwidth,
                               .latency = latency,
                               .kind = inside ? LinkKind::Nvlink : LinkKind::Fabric});
      return;
    }
    const int machine = from / out_.gpus_per_server;
    const int number = nics_[static_cast<std::size_t>(machine)]++;
    const VertexId nic = out_.topology.add_vertex({.kind = VertexKind::Nic,
                                                   .name = part(machine, "nic", number),
                                                   .machine = machine,
                                                   .position = number});
    out_.topology.add_cable(
        {.from = a, .to = nic, .bandwidth = bandwidth, .latency = {}, .kind = LinkKind::Pcie});
    out_.topology.add_cable(
        {.from = nic, .to = b, .bandwidth = bandwidth, .latency = latency, .kind = LinkKind::Port});
  }

 private:
  int num_machines() const { return std::max(1, gpus_ / out_.gpus_per_server); }
  static std::string part(int machine, const char* what, int number) {
    return "n" + std::to_string(machine) + "/" + what + std::to_string(number);
  }

  SimaiTopology& out_;
  int gpus_;
  std::vector<VertexId> ids_;
  std::vector<int> nics_;
};

}  // namespace

model::Result<SimaiWorkload> parse_simai_workload(const std::string& file, std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  if (lines.size() < 2 || lines[0].words.size() < 3) {
    return model::fail(fault(file, 1, "is no SimAI workload",
                             "a line of policy and key: value pairs, then the number of layers"));
  }
  SimaiWorkload workload;
  read_header(lines[0], workload);
  const auto layers = number_of(lines[1].words.front());
  if (!layers || *layers < 0 || *layers > 1e7) {
    return model::fail(fault(file, lines[1].number, "has no number of layers", "a whole number"));
  }
  workload.declared_layers = static_cast<int>(*layers);
  for (std::size_t i = 2; i < lines.size(); ++i) {
    const Line& line = lines[i];
    if (line.words.size() != kFields) {
      return model::fail(fault(file, line.number,
                               "a layer of " + std::to_string(line.words.size()) + " fields",
                               "12 fields: id, dependency, three times compute, collective and "
                               "bytes, update time"));
    }
    ++workload.num_layers;
    for (const std::size_t at : kCollectives) {
      const std::string name(line.words[at]);
      const auto bytes = number_of(line.words[at + 1]);
      if (!bytes || *bytes < 0) {
        return model::fail(fault(file, line.number,
                                 "'" + std::string(line.words[at + 1]) + "' is no number of bytes",
                                 "a whole number"));
      }
      ++workload.collectives[name];
      if (name != "NONE") workload.bytes[name] += model::Bytes{*bytes};
    }
  }
  if (workload.num_layers != workload.declared_layers) {
    workload.warnings.push_back({.severity = Diagnostic::Severity::Warning,
                                 .file = file,
                                 .line = lines[1].number,
                                 .message = "declares " + std::to_string(workload.declared_layers) +
                                            " layers and has " +
                                            std::to_string(workload.num_layers)});
  }
  return workload;
}

model::Result<SimaiTopology> parse_simai_topology(const std::string& file, std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  SimaiTopology out;
  const std::string grammar =
      "total_nodes gpus_per_server nvswitches other_switches links GPU, then the switches' "
      "numbers, "
      "then src dst BWGbps LATENCYms error";
  const std::array<int*, 5> fields = {&out.nodes, &out.gpus_per_server, &out.nvswitches,
                                      &out.switches, &out.links};
  if (lines.size() < 3 || lines[0].words.size() != fields.size() + 1) {
    return model::fail(fault(file, 1, "is no SimAI topology", grammar));
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto value = number_of(lines[0].words[i]);
    if (!value || *value < 0 || *value > 1e6) {
      return model::fail(fault(file, 1, "is no SimAI topology", grammar));
    }
    *fields[i] = static_cast<int>(*value);
  }
  out.gpu_type = lines[0].words.back();
  SimaiGraph graph(out);
  if (graph.num_gpus() < 1 || out.gpus_per_server < 1) {
    return model::fail(fault(file, 1, "has no GPU", grammar));
  }
  if (static_cast<int>(lines[1].words.size()) != out.nvswitches + out.switches) {
    return model::fail(fault(file, lines[1].number,
                             "names " + std::to_string(lines[1].words.size()) + " switches",
                             std::to_string(out.nvswitches + out.switches) + ", as line 1 says"));
  }
  graph.add_vertices();
  for (std::size_t i = 2; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const bool whole = line.words.size() == 5;
    const auto from = whole ? number_of(line.words[0]) : std::nullopt;
    const auto to = whole ? number_of(line.words[1]) : std::nullopt;
    const auto rate = whole ? with_unit(line.words[2], "Gbps") : std::nullopt;
    const auto latency = whole ? with_unit(line.words[3], "ms") : std::nullopt;
    const auto is_node = [&](const std::optional<double>& id) {
      return id && *id >= 0 && *id < out.nodes && *id == static_cast<int>(*id);
    };
    if (!is_node(from) || !is_node(to) || *from == *to || !rate || *rate <= 0 || !latency) {
      return model::fail(fault(file, line.number, "is no link", grammar));
    }
    graph.add_link(static_cast<int>(*from), static_cast<int>(*to), BytesPerSecond{*rate * 1e9 / 8},
                   Seconds{*latency * 1e-3});
  }
  const int links = static_cast<int>(lines.size()) - 2;
  if (links != out.links) {
    out.warnings.push_back({.severity = Diagnostic::Severity::Warning,
                            .file = file,
                            .message = "declares " + model::counted(out.links, "link") +
                                       " and has " + std::to_string(links)});
  }
  return out;
}

model::Result<SimaiBusBandwidths> parse_simai_busbw(const std::string& file,
                                                    std::string_view text) {
  SimaiBusBandwidths all;
  std::string group;
  for (const Line& line : lines_of(text)) {
    std::string_view key = line.words.front();
    if (line.words.size() == 1) {
      if (key.ends_with(':')) group = key.substr(0, key.size() - 1);
      continue;
    }
    while (key.ends_with(':') || key.ends_with(',')) key.remove_suffix(1);
    if (group.empty() || line.words[1] == "null") continue;
    const auto rate = number_of(line.words[1]);
    if (!rate || *rate <= 0) {
      return model::fail(
          fault(file, line.number, "is no bus bandwidth", "a number of GB/s or null"));
    }
    all[group][std::string(key)] = BytesPerSecond{*rate * 1e9};
  }
  if (all.empty())
    return model::fail(fault(file, 1, "has no bus bandwidth", "TP: allreduce,: 300"));
  return all;
}

SimaiKind recognise_simai(std::string_view text) {
  const std::vector<Line> lines =
      lines_of(text.substr(0, std::min<std::size_t>(text.size(), 8192)));
  if (lines.size() < 2) return SimaiKind::None;
  const Line& first = lines.front();
  const auto holds = [&](std::string_view word) {
    return text.find(word) != std::string_view::npos;
  };
  if (std::find_if(first.words.begin(), first.words.end(), [](std::string_view word) {
        return word.starts_with("model_parallel_NPU_group");
      }) != first.words.end()) {
    return SimaiKind::Workload;
  }
  if (first.words.size() == 6 && number_of(first.words[0]) && number_of(first.words[4]) &&
      !number_of(first.words[5]) && holds("Gbps")) {
    return SimaiKind::Topology;
  }
  if (holds("allreduce,:")) return SimaiKind::BusBandwidth;
  if (first.words.front().starts_with("train_iter:") && holds("time_gpu_avg")) {
    return SimaiKind::Timings;
  }
  if (text.starts_with("Size,1 Node") || text.starts_with("id\tName\tParameter_size")) {
    return SimaiKind::Table;
  }
  return SimaiKind::None;
}

}  // namespace megatwin::scenarios
