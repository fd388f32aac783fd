#include "scenarios/nccl_topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "scenarios/document.h"
#include "scenarios/xml_reader.h"

namespace megatwin::scenarios {
namespace {

using model::BytesPerSecond;
using model::LinkKind;
using model::Topology;
using model::VertexId;
using model::VertexKind;

// Below this a link in front of a GPU or an adapter is no real slot.
constexpr BytesPerSecond kSlowest{1e9};
constexpr double kNetDefaultMegabits = 10000;
constexpr int kNvlinksMax = 64, kSlotLanesMax = 32;

// Decimal or 0x, as NCCL's strtol with base 0 takes it; nothing else.
std::optional<long> integer(const std::string& text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 0);
  if (*end != '\0') return std::nullopt;
  return value;
}

bool starts(std::string_view text, std::string_view with) { return text.starts_with(with); }

// Source: NVIDIA/nccl v2.30.7, src/graph/topo.cc, kvDictPciClass; RCCL for 0x12 and 0x0380.
VertexKind kind_of_class(std::string_view pci_class) {
  if (starts(pci_class, "0x03") || starts(pci_class, "0x12")) return VertexKind::Gpu;
  if (starts(pci_class, "0x02")) return VertexKind::Nic;
  if (starts(pci_class, "0x0680")) return VertexKind::NvSwitch;
  return VertexKind::PcieSwitch;
}

// GB/s of one NVLink, one way, by compute capability. Source: src/graph/topo.h; for AMD, whose
// "sm" counts compute units, RCCL's width of an xGMI link of gfx94x.
BytesPerSecond lane_bandwidth(long sm) {
  if (sm >= 200) return {48e9};
  if (sm >= 100) return {40.1e9};
  if (sm >= 90) return {20.6e9};
  if (sm == 86) return {12e9};
  if (sm >= 70) return {20e9};
  return {18e9};
}

// Between sockets. Source: src/graph/topo.h.
BytesPerSecond socket_bandwidth(const NcclTopology::Cpu& cpu) {
  if (cpu.vendor == "AuthenticAMD") return {16e9};
  if (cpu.arch == "arm64") return {6e9};
  if (cpu.arch == "ppc64") return {32e9};
  const long type = integer(cpu.model).value_or(0);
  if (type >= 207) return {40e9};  // Emerald Rapids.
  if (type >= 143) return {22e9};  // Sapphire Rapids.
  return type >= 85 ? BytesPerSecond{10e9} : BytesPerSecond{6e9};
}

std::string in_gigabytes(BytesPerSecond bandwidth) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", bandwidth.value / 1e9);
  return text;
}

// 100 Mbit/s a lane of this speed of a link, in kvDictPciGen's words; nothing of an unknown one.
std::optional<double> units_of_speed(std::string_view link_speed) {
  constexpr std::pair<double, double> kGenerations[] = {{2.5, 15}, {5, 30},   {8, 60},
                                                        {16, 120}, {32, 240}, {64, 480}};
  double rate = 0;
  std::from_chars(link_speed.data(), link_speed.data() + link_speed.size(), rate);
  for (const auto& [gigatransfers, units] : kGenerations) {
    if (rate == gigatransfers) return units;
  }
  return std::nullopt;
}

class NcclReader {
 public:
  explicit NcclReader(const std::string& file) : file_(file) {}

  model::Result<NcclTopology> read(const XmlElement& root) {
    result_.version = root.attribute_or("version", "");
    for (const XmlElement& element : root.children) {
      if (element.name == "cpu") read_cpu(element);
    }
    join_sockets();
    add_nvlinks();
    for (const auto& [pci_class, count] : result_.pci_by_class) {
      if (kind_of_class(pci_class) == VertexKind::Gpu) result_.num_gpu_devices += count;
    }
    if (result_.topology.num_gpus() == 0) {
      warn(root, "names no GPU by its class: NCCL finds out at run time what the devices are");
    }
    if (!faults_.empty()) return model::fail(std::move(faults_));
    return std::move(result_);
  }

 private:
  struct Lanes {
    const XmlElement* element;
    VertexId gpu;
    long sm;
    int count;
  };

  void warn(const XmlElement& at, std::string message) {
    result_.warnings.push_back({.severity = model::Diagnostic::Severity::Warning,
                                .file = file_,
                                .line = at.line,
                                .column = at.column,
                                .message = std::move(message)});
  }

  void refuse(const XmlElement& at, const char* key, std::string message, std::string allowed) {
    faults_.push_back({.file = file_,
                       .line = at.line,
                       .column = at.column,
                       .key = at.name + "." + key,
                       .message = std::move(message),
                       .allowed = std::move(allowed)});
  }

  // Of every text once, at its first place.
  void warn_once(const XmlElement& at, const std::string& message) {
    if (said_.insert(message).second) warn(at, message);
  }

  // Of what must be there once; empty or missing is not told.
  void warn_of_second(const XmlElement& at, const char* key, std::map<std::string, int>& lines,
                      const std::string& consequence) {
    const std::string name = at.attribute_or(key, "");
    if (name.empty()) return;
    const auto [known, added] = lines.emplace(name, at.line);
    if (added) return;
    warn(at, "<" + at.name + "> with " + key + " " + quoted(name) + " is in line " +
                 std::to_string(known->second) + " already" + consequence);
  }

  int num_links(const XmlElement& link) {
    const long count = number(link, "count").value_or(1);
    if (count >= 0 && count <= kNvlinksMax) return static_cast<int>(count);
    refuse(link, "count", std::to_string(count) + " links are not what a GPU has",
           "0 to " + std::to_string(kNvlinksMax));
    return 0;
  }

  std::optional<long> number(const XmlElement& at, const char* key) {
    const auto text = at.attribute(key);
    if (!text || text->empty()) return std::nullopt;
    const auto value = integer(*text);
    if (!value) {
      refuse(at, key, quoted(*text) + " is no whole number",
             "decimal digits, or hexadecimal after 0x");
    }
    return value;
  }

  VertexId add(VertexKind kind) {
    const int position = count_[static_cast<std::size_t>(kind)]++;
    return result_.topology.add_vertex(
        {.kind = kind,
         .name = "n0/" + std::string(name_of(kind)) + std::to_string(position),
         .machine = 0,
         .position = position});
  }

  void read_cpu(const XmlElement& element) {
    result_.cpus.push_back(
        {element.attribute_or("numaid", ""), element.attribute_or("arch", "None"),
         element.attribute_or("vendor", "None"), element.attribute_or("familyid", "None"),
         element.attribute_or("modelid", "None")});
    const VertexId socket = add(VertexKind::Socket);
    sockets_.push_back(socket);
    for (const XmlElement& child : element.children) {
      if (child.name == "pci") read_pci(child, socket, 1);
      if (child.name == "nic") read_nic(child, std::nullopt, socket);
    }
  }

  void read_pci(const XmlElement& element, VertexId above, int level) {
    result_.max_pci_nesting = std::max(result_.max_pci_nesting, level);
    const std::string pci_class = element.attribute_or("class", "null").substr(0, 8);
    ++result_.pci_by_class[pci_class];
    const VertexId self = add(kind_of_class(pci_class));
    warn_of_second(element, "busid", bus_lines_, ": NVLinks that name it lead to the last");
    by_bus_[element.attribute_or("busid", "")] = self;
    const std::string speed = element.attribute_or("link_speed", "");
    const long width = width_of(element, speed);
    const BytesPerSecond bandwidth = pci_bandwidth(speed, static_cast<int>(width));
    if (bandwidth < kSlowest) {
      warn(element, "the link of " + element.attribute_or("busid", "a bridge") + " is '" + speed +
                        "' × " + std::to_string(width) + " = " + in_gigabytes(bandwidth) +
                        " GB/s, as virtual machines show it: everything behind it is held to that");
    }
    result_.topology.add_cable(
        {.from = self, .to = above, .bandwidth = bandwidth, .kind = LinkKind::Pcie});
    for (const XmlElement& child : element.children) {
      if (child.name == "pci") read_pci(child, self, level + 1);
      if (child.name == "gpu") read_gpu(child, self);
      if (child.name == "nic") read_nic(child, self, self);
    }
  }

  // Lanes of a slot. An empty speed or a width of 0 is what a container without sysfs tells.
  long width_of(const XmlElement& element, const std::string& speed) {
    const long width = number(element, "link_width").value_or(0);
    if (width < 0 || width > kSlotLanesMax) {
      refuse(element, "link_width", std::to_string(width) + " lanes are not what a slot has",
             "1 to " + std::to_string(kSlotLanesMax) + "; 0 where it is not known");
      return 0;
    }
    if (!units_of_speed(speed)) {
      warn_once(element, speed.empty() ? "a link tells no speed: 8 GT/s is taken, as NCCL does"
                                       : quoted(speed) +
                                             " is no speed of PCIe: 8 GT/s is taken, as NCCL does");
    }
    if (width == 0) warn_once(element, "a link tells no width: 16 lanes are taken, as NCCL does");
    return width;
  }

  void read_gpu(const XmlElement& element, VertexId self) {
    ++result_.num_gpu_elements;
    const long sm = number(element, "sm").value_or(0);
    result_.sms.insert(element.attribute_or("sm", ""));
    warn_of_second(element, "dev", gpu_lines_, ": GPUs are taken in the order of the file");
    const auto place = static_cast<std::size_t>(result_.topology.vertex(self).position);
    result_.gpu_devices.resize(std::max(result_.gpu_devices.size(), place + 1));
    result_.gpu_devices[place] = number(element, "dev");
    int total = 0;
    for (const XmlElement& link : element.children) {
      if (link.name != "nvlink" && link.name != "xgmi") continue;
      const int count = num_links(link);
      total += count;
      lanes_.push_back({&link, self, sm, count});
    }
    result_.lanes_by_gpu[element.attribute_or("dev", "")] = total;
  }

  // A <nic> under a PCI device is that device; directly under a CPU it is one of its own.
  void read_nic(const XmlElement& element, std::optional<VertexId> device, VertexId above) {
    for (const XmlElement& net : element.children) {
      if (net.name != "net") continue;
      const long speed = number(net, "speed").value_or(0);
      const double megabits = speed > 0 ? static_cast<double>(speed) : kNetDefaultMegabits;
      const BytesPerSecond rate{megabits * 1e6 / 8};
      result_.nets.push_back({net.attribute_or("name", ""), speed, rate});
      if (speed <= 0) {
        warn(net, "the adapter " + net.attribute_or("name", "without a name") +
                      " has no speed: 10 Gbit/s is taken, as NCCL does");
      }
      if (net.attribute_or("port", "1") == "1") {
        warn_of_second(net, "name", net_lines_, ": both are taken");
      }
      if (device) continue;
      result_.topology.add_cable(
          {.from = add(VertexKind::Nic), .to = above, .bandwidth = rate, .kind = LinkKind::Pcie});
    }
  }

  void join_sockets() {
    for (std::size_t i = 1; i < sockets_.size(); ++i) {
      result_.topology.add_cable({.from = sockets_[i - 1],
                                  .to = sockets_[i],
                                  .bandwidth = socket_bandwidth(result_.cpus[i]),
                                  .kind = LinkKind::Socket});
    }
  }

  void add_nvlinks() {
    std::optional<VertexId> nvswitch;
    std::map<VertexId, BytesPerSecond> to_switch;
    for (const Lanes& lanes : lanes_) {
      const BytesPerSecond width = lanes.count * lane_bandwidth(lanes.sm);
      const auto target = by_bus_.find(lanes.element->attribute_or("target", ""));
      const bool to_gpu = target != by_bus_.end() &&
                          result_.topology.vertex(target->second).kind == VertexKind::Gpu;
      if (!to_gpu) {
        to_switch[lanes.gpu] += width;
      } else if (target->second == lanes.gpu) {
        warn(*lanes.element, "an NVLink of a GPU to itself is left out");
      } else if (lanes.count > 0) {
        // The other direction is told of by the other GPU.
        result_.topology.add_link({.from = lanes.gpu,
                                   .to = target->second,
                                   .bandwidth = width,
                                   .kind = LinkKind::Nvlink});
      }
    }
    for (const auto& [gpu, width] : to_switch) {
      if (width.value <= 0) continue;
      if (!nvswitch) nvswitch = add(VertexKind::NvSwitch);
      result_.topology.add_cable(
          {.from = gpu, .to = *nvswitch, .bandwidth = width, .kind = LinkKind::Nvlink});
    }
  }

  const std::string& file_;
  NcclTopology result_;
  model::Diagnostics faults_;
  std::vector<VertexId> sockets_;
  std::map<std::string, VertexId> by_bus_;
  std::map<std::string, int> bus_lines_, gpu_lines_, net_lines_;  // Where each was first.
  std::set<std::string> said_;
  std::vector<Lanes> lanes_;
  std::array<int, 9> count_{};  // By VertexKind.
};

model::Diagnostic other_root(const std::string& file, const XmlElement& root, const char* wanted) {
  std::string what = "its root is <" + root.name + ">";
  if (root.name == "topology") what += ", which is hwloc's, not NCCL's";
  return {
      .file = file, .line = root.line, .column = root.column, .message = what, .allowed = wanted};
}

}  // namespace

BytesPerSecond pci_bandwidth(std::string_view link_speed, int link_width) {
  const double per_lane = units_of_speed(link_speed).value_or(60);
  return {(link_width > 0 ? link_width : 16) * per_lane / 80 * 1e9};
}

model::Result<NcclTopology> parse_nccl_topology(const std::string& file, std::string_view text) {
  MEGATWIN_TRY(const XmlElement root, parse_xml(file, text));
  if (root.name != "system") return model::fail(other_root(file, root, "<system>"));
  return NcclReader(file).read(root);
}

model::Result<std::vector<NcclGraph>> parse_nccl_graphs(const std::string& file,
                                                        std::string_view text) {
  MEGATWIN_TRY(const XmlElement root, parse_xml(file, text));
  if (root.name != "graphs") return model::fail(other_root(file, root, "<graphs>"));
  std::vector<NcclGraph> graphs;
  for (const XmlElement& element : root.children) {
    if (element.name != "graph") continue;
    const auto number = [&](const char* key) {
      return static_cast<int>(integer(element.attribute_or(key, "")).value_or(0));
    };
    NcclGraph& graph = graphs.emplace_back();
    graph.id = number("id");
    graph.pattern = number("pattern");
    graph.num_channels = number("nchannels");
    graph.speed_intra = element.attribute_or("speedintra", "");
    graph.speed_inter = element.attribute_or("speedinter", "");
    graph.type_intra = element.attribute_or("typeintra", "");
    graph.type_inter = element.attribute_or("typeinter", "");
    for (const XmlElement& channel : element.children) {
      auto& members = graph.channels.emplace_back();
      for (const XmlElement& member : channel.children) {
        const long dev = integer(member.attribute_or("dev", "")).value_or(-1);
        members.push_back(member.name + ":" + std::to_string(dev));
      }
    }
  }
  return graphs;
}

}  // namespace megatwin::scenarios
