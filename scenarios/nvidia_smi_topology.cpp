#include "scenarios/nvidia_smi_topology.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "scenarios/document.h"
#include "scenarios/nccl_topology.h"

namespace megatwin::scenarios {
namespace {

using model::LinkKind;
using model::VertexId;
using model::VertexKind;

// NVLink 2, 3 and 4 alike. Source: NVIDIA's data sheets of V100, A100 and H100.
constexpr model::BytesPerSecond kNvlink{25e9};
constexpr int kLinksMax = 18;  // Of a GPU, Hopper and Blackwell.

// Without colours, line by line.
std::vector<std::string> plain_lines(std::string_view text) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i])) == 0) ++i;
    } else if (text[i] == '\n') {
      lines.emplace_back();
    } else if (text[i] != '\r') {
      lines.back() += text[i];
    }
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line) {
    if (c != ' ' && c != '\t') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool is_gpu(const std::string& word) {
  return word.size() > 3 && word.starts_with("GPU") &&
         std::all_of(word.begin() + 3, word.end(), [](char c) { return c >= '0' && c <= '9'; });
}
bool is_nic(const std::string& word) {
  return word.starts_with("mlx") || (word.starts_with("NIC") && word.size() > 3 && word[3] != ' ');
}

// "GPU0GPU1GPU2" to its three.
std::vector<std::string> split_glued(const std::string& word) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t next = std::min(word.find("GPU", at + 1), word.size());
    parts.push_back(word.substr(at, next - at));
    at = next;
  }
  return parts;
}

bool is_nvlinks(const std::string& cell) {
  return cell.size() > 2 && cell.starts_with("NV") &&
         std::all_of(cell.begin() + 2, cell.end(), [](char c) { return c >= '0' && c <= '9'; });
}
bool is_relation(const std::string& cell) {
  static const std::set<std::string> kWords = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
  if (kWords.count(cell) > 0) return true;
  return is_nvlinks(cell);
}
bool is_peer_state(const std::string& cell) {
  return cell == "OK" || cell == "NS" || cell == "CNS" || cell == "GNS" || cell == "TNS" ||
         cell == "U";
}

int links_of(const std::string& cell) {
  return cell.starts_with("NV") ? std::atoi(cell.c_str() + 2) : 0;
}
bool is_possible(const std::string& cell) {
  if (!is_nvlinks(cell)) return true;
  return cell.size() < 6 && links_of(cell) >= 1 && links_of(cell) <= kLinksMax;
}

// Two names of one relation are none.
bool same_relation(const std::string& there, const std::string& back) {
  const auto kind = [](const std::string& cell) {
    return is_nvlinks(cell) ? "NV" : cell == "SOC" ? "SYS" : cell;
  };
  return kind(there) == kind(back);
}

// Which devices stand together under one PCIe switch, and which under one socket.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    for (std::size_t i = 0; i < count; ++i) parent_[i] = i;
  }
  std::size_t of(std::size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    const std::size_t one = of(a), other = of(b);
    parent_[std::max(one, other)] = std::min(one, other);
  }

 private:
  std::vector<std::size_t> parent_;
};

class MatrixReader {
 public:
  explicit MatrixReader(const std::string& file) : file_(file) {}

  model::Result<NvidiaSmiTopology> read(std::string_view text) {
    const std::vector<std::string> lines = plain_lines(text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const int line = static_cast<int>(i) + 1;
      const std::vector<std::string> words = words_of(lines[i]);
      if (words.empty()) continue;
      if (lines[i].find("topo -p2p") != std::string::npos) return model::fail(peer_matrix(line));
      if (words[0] == "Legend:" || words[0] == "NIC") break;
      if (result_.columns.empty()) {
        if (words[0].starts_with("GPU0")) read_header(lines[i], words);
      } else if (is_gpu(words[0])) {
        if (!read_row(words, lines[i], line)) return model::fail(std::move(faults_));
      }
    }
    if (result_.gpus.empty() || result_.cells.empty()) {
      return model::fail({.file = file_,
                          .message = "holds no matrix of GPUs",
                          .allowed = "what nvidia-smi topo -m prints"});
    }
    if (result_.cells.size() != result_.gpus.size()) {
      return model::fail({.file = file_,
                          .message = "has " + std::to_string(result_.cells.size()) + " rows for " +
                                     std::to_string(result_.gpus.size()) + " GPUs"});
    }
    if (auto fault = unlike_ways()) return model::fail(*std::move(fault));
    build();
    return std::move(result_);
  }

 private:
  // What one GPU is to another the other is to it. Behind an NVSwitch each tells of its own
  // NVLinks.
  std::optional<model::Diagnostic> unlike_ways() {
    const std::size_t n = result_.gpus.size();
    for (std::size_t b = 0; b < n; ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        const std::string &there = result_.cells[a][b], &back = result_.cells[b][a];
        if (same_relation(there, back) && (is_switched() || links_of(there) == links_of(back)))
          continue;
        return model::Diagnostic{.file = file_,
                                 .line = lines_[b],
                                 .message = result_.gpus[b] + " is " + back + " to " +
                                            result_.gpus[a] + ", which is " + there +
                                            " to it in "
                                            "line " +
                                            std::to_string(lines_[a]),
                                 .allowed = "the same both ways"};
      }
    }
    return std::nullopt;
  }

  // NVSwitch machines show all of a GPU's links towards every peer; on others the row adds up.
  bool is_switched() const {
    const std::size_t n = result_.gpus.size();
    int least = 1000, most = 0;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (a == b) continue;
        least = std::min(least, links_of(result_.cells[a][b]));
        most = std::max(most, links_of(result_.cells[a][b]));
      }
    }
    return least > 0 && n > 2 && most * static_cast<int>(n - 1) > kLinksMax;
  }

  model::Diagnostic peer_matrix(int line) const {
    return {
        .file = file_,
        .line = line,
        .message = "is the matrix of peer-to-peer states (topo -p2p), which says nothing of links",
        .allowed = "nvidia-smi topo -m"};
  }

  void read_header(const std::string& line, const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (word.starts_with("GPU")) {
        for (const std::string& name : split_glued(word)) {
          if (is_gpu(name)) result_.gpus.push_back(name);
        }
      } else if (is_nic(word)) {
        result_.nics.push_back(word);
      } else {
        break;
      }
    }
    result_.columns = result_.gpus;
    result_.columns.insert(result_.columns.end(), result_.nics.begin(), result_.nics.end());
    for (const char* affinity : {"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"}) {
      if (line.find(affinity) != std::string::npos) result_.columns.emplace_back(affinity);
    }
  }

  bool read_row(const std::vector<std::string>& words, const std::string& line, int number) {
    std::vector<std::string> cells;
    const std::size_t wanted = result_.gpus.size() + result_.nics.size();
    std::size_t at = 1;
    for (; at < words.size() && cells.size() < wanted; ++at) {
      if (is_peer_state(words[at])) {
        faults_ = {peer_matrix(number)};
        return false;
      }
      if (!is_relation(words[at])) {
        faults_ = {{.file = file_,
                    .line = number,
                    .message = quoted(words[at]) + " is no relation of two devices",
                    .allowed = "X, NV and a number, PIX, PXB, PHB, NODE, SYS",
                    .source_line = line}};
        return false;
      }
      if (!is_possible(words[at])) {
        faults_ = {{.file = file_,
                    .line = number,
                    .message = quoted(words[at]) + " are not as many NVLinks as a GPU has",
                    .allowed = "NV1 to NV" + std::to_string(kLinksMax),
                    .source_line = line}};
        return false;
      }
      cells.push_back(words[at]);
    }
    if (cells.size() < result_.gpus.size()) {
      faults_ = {{.file = file_, .line = number, .message = "the row of " + words[0] + " is cut"}};
      return false;
    }
    cells.resize(wanted, "SYS");
    const std::string& wanted_name = result_.gpus[std::min(lines_.size(), result_.gpus.size() - 1)];
    if (words[0] != wanted_name) {
      faults_ = {
          {.file = file_,
           .line = number,
           .message = "is the row of " + words[0] + " where that of " + wanted_name + " is due",
           .allowed = "every GPU of the header once, in its order",
           .source_line = line}};
      return false;
    }
    lines_.push_back(number);
    result_.cells.push_back(std::move(cells));
    result_.cpu_affinity.push_back(at < words.size() ? words[at] : "");
    return true;
  }

  void build() {
    const std::size_t num_gpus = result_.gpus.size();
    const std::size_t num_devices = num_gpus + result_.nics.size();
    Groups switches(num_devices), sockets(num_devices);
    for (std::size_t a = 0; a < num_gpus; ++a) {
      for (std::size_t b = 0; b < num_devices; ++b) {
        const std::string& cell = result_.cells[a][b];
        const bool one_switch = cell == "PIX" || cell == "PXB";
        if (one_switch) switches.join(a, b);
        if (one_switch || cell == "PHB" || cell == "NODE") sockets.join(a, b);
        // NVLink hides how two GPUs stand on PCIe; their processors' cores tell.
        const bool known = b < num_gpus && !result_.cpu_affinity[a].empty();
        if (known && result_.cpu_affinity[a] == result_.cpu_affinity[b]) sockets.join(a, b);
      }
    }
    std::vector<VertexId> devices;
    for (std::size_t i = 0; i < num_devices; ++i) {
      const bool gpu = i < num_gpus;
      devices.push_back(
          add(gpu ? VertexKind::Gpu : VertexKind::Nic, static_cast<int>(gpu ? i : i - num_gpus)));
    }
    add_pcie(devices, switches, sockets);
    add_nvlink(devices);
    result_.warnings.push_back(
        {.severity = model::Diagnostic::Severity::Warning,
         .file = file_,
         .message = "the matrix tells no rates: 25 GB/s an NVLink and PCIe 3.0 × 16 are taken"});
  }

  VertexId add(VertexKind kind, int position) {
    return result_.topology.add_vertex(
        {.kind = kind,
         .name = "n0/" + std::string(name_of(kind)) + std::to_string(position),
         .machine = 0,
         .position = position});
  }

  void add_pcie(const std::vector<VertexId>& devices, const Groups& switches,
                const Groups& sockets) {
    const model::BytesPerSecond pcie = pci_bandwidth("8 GT/s", 16);
    std::map<std::size_t, VertexId> switch_of, socket_of;
    std::vector<VertexId> in_order;
    const auto cable = [&](VertexId from, VertexId to, LinkKind kind) {
      result_.topology.add_cable({.from = from, .to = to, .bandwidth = pcie, .kind = kind});
    };
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::size_t socket = sockets.of(i), group = switches.of(i);
      if (socket_of.count(socket) == 0) {
        socket_of[socket] = add(VertexKind::Socket, static_cast<int>(socket_of.size()));
        if (!in_order.empty()) cable(in_order.back(), socket_of[socket], LinkKind::Socket);
        in_order.push_back(socket_of[socket]);
      }
      if (switch_of.count(group) == 0) {
        switch_of[group] = add(VertexKind::PcieSwitch, static_cast<int>(switch_of.size()));
        cable(switch_of[group], socket_of[socket], LinkKind::Pcie);
      }
      cable(devices[i], switch_of[group], LinkKind::Pcie);
    }
  }

  void add_nvlink(const std::vector<VertexId>& devices) {
    const std::size_t n = result_.gpus.size();
    int most = 0;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (a != b) most = std::max(most, links_of(result_.cells[a][b]));
      }
    }
    if (most == 0) return;
    result_.nvswitch = is_switched();
    if (!result_.nvswitch) {
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n; ++b) {
          const int links = links_of(result_.cells[a][b]);
          if (links == 0) continue;
          result_.topology.add_link({.from = devices[a],
                                     .to = devices[b],
                                     .bandwidth = links * kNvlink,
                                     .kind = LinkKind::Nvlink});
        }
      }
      return;
    }
    const VertexId nvswitch = add(VertexKind::NvSwitch, 0);
    for (std::size_t a = 0; a < n; ++a) {
      int own = 0;
      for (std::size_t b = 0; b < n; ++b) own = std::max(own, links_of(result_.cells[a][b]));
      if (own < most) {
        result_.warnings.push_back({.severity = model::Diagnostic::Severity::Warning,
                                    .file = file_,
                                    .message = result_.gpus[a] + " shows " + std::to_string(own) +
                                               " NVLinks of " + std::to_string(most) +
                                               ": some are down"});
      }
      result_.topology.add_cable({.from = devices[a],
                                  .to = nvswitch,
                                  .bandwidth = own * kNvlink,
                                  .kind = LinkKind::Nvlink});
    }
  }

  const std::string& file_;
  NvidiaSmiTopology result_;
  model::Diagnostics faults_;
  std::vector<int> lines_;  // By row.
};

}  // namespace

int NvidiaSmiTopology::num_nvlinks(std::size_t gpu) const {
  int sum = 0;
  for (std::size_t b = 0; b < gpus.size(); ++b) sum += links_of(cells[gpu][b]);
  return sum;
}

int NvidiaSmiTopology::own_nvlinks(std::size_t gpu) const {
  if (!nvswitch) return num_nvlinks(gpu);
  int most = 0;
  for (std::size_t b = 0; b < gpus.size(); ++b) most = std::max(most, links_of(cells[gpu][b]));
  return most;
}

model::Result<NvidiaSmiTopology> parse_nvidia_smi_topology(const std::string& file,
                                                           std::string_view text) {
  if (model::Diagnostics faults = check_text(file, text); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  return MatrixReader(file).read(text);
}

}  // namespace megatwin::scenarios
