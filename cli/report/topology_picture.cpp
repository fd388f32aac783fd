#include "cli/report/topology_picture.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "model/topology/router.h"

namespace megatwin::cli {
namespace {

using model::LinkId;
using model::LinkKind;
using model::RankId;
using model::VertexId;
using model::VertexKind;

// From the network down to the GPUs and what joins them.
constexpr std::array kRows = {VertexKind::Core,       VertexKind::Spine, VertexKind::Leaf,
                              VertexKind::Router,     VertexKind::Nic,   VertexKind::Socket,
                              VertexKind::PcieSwitch, VertexKind::Gpu,   VertexKind::NvSwitch};
constexpr int kPerRowMax = 32;
constexpr int kBoxWidth = 44, kBoxHeight = 18, kColumn = 52, kRow = 84, kMargin = 76;

std::map<VertexKind, std::vector<VertexId>> by_kind(const model::Topology& topology) {
  std::map<VertexKind, std::vector<VertexId>> rows;
  for (VertexId v; v.value < topology.num_vertices(); ++v.value) {
    rows[topology.vertex(v).kind].push_back(v);
  }
  return rows;
}

std::string rate(model::BytesPerSecond bandwidth) {
  return fmt::format("{:.4g} GB/s", bandwidth.value / 1e9);
}

std::vector<std::vector<std::string>> cable_rows(const model::Topology& topology) {
  std::map<std::pair<LinkKind, double>, int> count;
  int cut = 0;
  for (LinkId id; id.value < topology.num_links(); ++id.value) {
    const model::Link& link = topology.link(id);
    link.up ? ++count[{link.kind, link.bandwidth.value}] : ++cut;
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(count.size());
  for (const auto& [what, links] : count) {
    rows.push_back({std::string(name_of(what.first)), format_counted(links, "link"),
                    rate({what.second}) + " each way"});
  }
  if (cut > 0) rows.push_back({"cut", format_counted(cut, "link"), ""});
  return rows;
}

void add_ways(const model::Topology& topology, std::string& text) {
  if (topology.num_gpus() < 2) return;
  model::Router router(topology);
  // Beside it, on the next machine, and the farthest number.
  const int machine = topology.vertex(topology.gpu(RankId{0})).machine;
  const int next = static_cast<int>(topology.machine(machine).gpus.size());
  text += "ways from rank 0:\n";
  for (const int to :
       std::set<int>{1, std::min(next, topology.num_gpus() - 1), topology.num_gpus() - 1}) {
    const auto route = router.route({.from = RankId{0}, .to = RankId{to}});
    if (!route) {
      text += fmt::format("  {}: {}\n", to, route.error().front().message);
      continue;
    }
    text += fmt::format("  {}: {}, {:.2f} us, {}\n", to, rate(route->bandwidth),
                        route->latency.value * 1e6, to_text(topology, *route));
  }
}

struct Place {
  int x = 0, y = 0;
};

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

// What stands in the box: the whole name where there is room, else the part without its machine.
std::string short_name(const std::string& name) {
  if (name.size() <= 9) return name;
  const std::size_t slash = name.rfind('/');
  const std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
  return last.size() > 9 ? last.substr(0, 9) : last;
}

const char* colour(LinkKind kind) {
  switch (kind) {
    case LinkKind::Nvlink:
      return "#76b900";
    case LinkKind::Pcie:
      return "#999999";
    case LinkKind::Socket:
      return "#b07d2b";
    case LinkKind::Port:
      return "#3b78b5";
    case LinkKind::Fabric:
      return "#7a4fb5";
  }
  return "#999999";
}

std::string lines_of(const model::Topology& topology, const std::map<VertexId, Place>& places) {
  std::string svg;
  std::set<std::pair<VertexId, VertexId>> drawn;
  for (LinkId id; id.value < topology.num_links(); ++id.value) {
    const model::Link& link = topology.link(id);
    const auto from = places.find(link.from), to = places.find(link.to);
    if (!link.up || from == places.end() || to == places.end()) continue;
    if (!drawn.insert(std::minmax(link.from, link.to)).second) continue;
    svg += fmt::format(
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\"><title>{}, "
        "{}</title></line>\n",
        from->second.x, from->second.y, to->second.x, to->second.y, colour(link.kind),
        escaped(topology.link_name(id)), rate(link.bandwidth));
  }
  return svg;
}

int num_columns(const std::map<VertexKind, std::vector<VertexId>>& rows) {
  int columns = 1;
  for (const auto& [kind, parts] : rows) {
    const int count = static_cast<int>(parts.size());
    columns = std::max(columns, std::min(count, kPerRowMax) + (count > kPerRowMax ? 1 : 0));
  }
  return columns;
}

}  // namespace

std::string topology_text(const model::Topology& topology) {
  const auto rows_by_kind = by_kind(topology);
  std::vector<std::vector<std::string>> parts;
  parts.push_back({"machines", std::to_string(topology.num_machines())});
  for (const VertexKind kind : kRows) {
    const auto found = rows_by_kind.find(kind);
    if (found == rows_by_kind.end()) continue;
    parts.push_back({std::string(name_of(kind)), std::to_string(found->second.size())});
  }
  std::string text = format_table(parts, {false, true});
  text += format_table(cable_rows(topology), {false, true, true});
  add_ways(topology, text);
  for (const model::Diagnostic& fault : topology.check()) {
    text += "warning: " + fault.message + "\n";
  }
  return text;
}

std::string topology_svg(const model::Topology& topology) {
  std::map<VertexId, Place> places;
  std::string boxes;
  int y = kMargin / 2;
  const auto rows_by_kind = by_kind(topology);
  const int columns = num_columns(rows_by_kind);
  for (const VertexKind kind : kRows) {
    const auto found = rows_by_kind.find(kind);
    if (found == rows_by_kind.end()) continue;
    const int shown = std::min(kPerRowMax, static_cast<int>(found->second.size()));
    const int more = static_cast<int>(found->second.size()) - shown;
    // A row of few parts takes the width of all, so that each stands above what hangs on it.
    const double pitch = static_cast<double>(columns * kColumn) / (shown + (more > 0 ? 1 : 0));
    boxes += fmt::format("<text x=\"4\" y=\"{}\">{}</text>\n", y + 4, name_of(kind));
    for (int i = 0; i < shown; ++i) {
      const VertexId v = found->second[static_cast<std::size_t>(i)];
      const Place at{kMargin + static_cast<int>((i + 0.5) * pitch), y};
      places[v] = at;
      const std::string& name = topology.vertex(v).name;
      boxes += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"><title>{}</title></rect>"
          "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
          at.x - kBoxWidth / 2, at.y - kBoxHeight / 2, kBoxWidth, kBoxHeight, escaped(name), at.x,
          at.y + 3, escaped(short_name(name)));
    }
    if (more > 0) {
      boxes += fmt::format("<text x=\"{}\" y=\"{}\">and {} more</text>\n",
                           kMargin + static_cast<int>(shown * pitch), y + 4, more);
    }
    y += kRow;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"100%\" "
             "font-family=\"sans-serif\" font-size=\"9\">\n<style>rect{{fill:#fff;stroke:#444}}"
             "</style>\n<rect width=\"100%\" height=\"100%\" style=\"stroke:none\"/>\n",
             kMargin + columns * kColumn + 60, y - kRow + kMargin) +
         lines_of(topology, places) + boxes + "</svg>\n";
}

}  // namespace megatwin::cli
