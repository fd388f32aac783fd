#include "cli/report/topology_picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/utf8.h"
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
constexpr int kBoxHeight = 18, kRow = 84, kMargin = 76;
constexpr double kLetter = 5.4;  // The width of a digit or small letter at this size, and some air.

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

// The last parts of a name of paths, "rail0/leaf0" of "pod1/rail0/leaf0".
std::string last_parts(const std::string& name, int parts) {
  std::size_t at = name.size();
  for (; parts > 0 && at != std::string::npos; --parts) {
    at = at == 0 ? std::string::npos : name.rfind('/', at - 1);
  }
  return at == std::string::npos ? name : name.substr(at + 1);
}

// What stands in the boxes of a row: whole names where they are short, else as few of their last
// parts as tell them apart.
std::vector<std::string> labels_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShort = 9;
  const auto longest = std::max_element(
      names.begin(), names.end(),
      [](const auto& a, const auto& b) { return display_width(a) < display_width(b); });
  if (longest == names.end() || display_width(*longest) <= kShort) return names;
  std::vector<std::string> labels;
  for (int parts = 1; labels != names; ++parts) {
    labels.clear();
    for (const std::string& name : names) labels.push_back(last_parts(name, parts));
    if (std::set<std::string>(labels.begin(), labels.end()).size() == labels.size()) break;
  }
  return labels;
}

// A picture of a row a level. Cables between rows and between neighbours are straight; those that
// pass others of their row are arcs under it, deeper the farther they go.
class Picture {
 public:
  explicit Picture(const model::Topology& topology)
      : topology_(topology), parts_(by_kind(topology)) {
    collect_cables();
    std::size_t longest = 0;
    for (const auto& [kind, parts] : parts_) {
      const int count = static_cast<int>(parts.size());
      columns_ = std::max(columns_, std::min(count, kPerRowMax) + (count > kPerRowMax ? 1 : 0));
      std::vector<std::string> names;
      for (int i = 0; i < std::min(count, kPerRowMax); ++i) {
        const VertexId part = parts[static_cast<std::size_t>(i)];
        slots_[part] = {kind, i};
        names.push_back(topology.vertex(part).name);
      }
      labels_[kind] = labels_of(names);
      for (const std::string& label : labels_[kind]) {
        longest = std::max(longest, display_width(label));
      }
    }
    box_width_ =
        std::max(44, 8 + static_cast<int>(std::ceil(kLetter * static_cast<double>(longest))));
  }

  std::string draw() {
    for (const VertexKind kind : kRows) {
      if (parts_.count(kind) > 0) add_row(kind);
    }
    const std::string cables = draw_cables();
    const std::string legend = draw_legend();
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"100%\" "
               "font-family=\"sans-serif\" font-size=\"9\">\n<style>rect{{fill:#fff;stroke:#444}}"
               "path{{fill:none}}</style>\n<rect width=\"100%\" height=\"100%\" "
               "style=\"stroke:none\"/>\n",
               std::max(kMargin + columns_ * column() + 20, 260), y_) +
           cables + boxes_ + legend + "</svg>\n";
  }

 private:
  struct Slot {
    VertexKind kind = VertexKind::Gpu;
    int index = 0;
  };
  struct Place {
    int x = 0, y = 0;
  };
  // All links that are up between two parts, in the direction of the first.
  struct Cable {
    LinkId first;
    int links = 0;
  };
  struct Style {
    LinkKind kind = LinkKind::Fabric;
    double bandwidth = 0;  // Of all links of a cable, in B/s.
    friend auto operator<=>(const Style&, const Style&) = default;
  };

  void collect_cables() {
    for (LinkId id; id.value < topology_.num_links(); ++id.value) {
      const model::Link& link = topology_.link(id);
      if (!link.up) continue;
      const auto found = cables_.find({link.to, link.from});
      if (found != cables_.end()) continue;  // The way back.
      Cable& cable = cables_[{link.from, link.to}];
      if (cable.links++ == 0) cable.first = id;
    }
  }

  int column() const { return box_width_ + 8; }

  static int depth_of(int columns) { return std::min(150, 12 + 12 * (columns - 1)); }

  // How far the arcs of a row reach under it.
  int depth(VertexKind kind) const {
    int deepest = 0;
    for (const auto& [ends, cable] : cables_) {
      const auto from = slots_.find(ends.first), to = slots_.find(ends.second);
      if (from == slots_.end() || to == slots_.end() || from->second.kind != kind ||
          to->second.kind != kind) {
        continue;
      }
      const int columns = std::abs(from->second.index - to->second.index);
      if (columns > 1) deepest = std::max(deepest, depth_of(columns));
    }
    return deepest;
  }

  void add_row(VertexKind kind) {
    const std::vector<VertexId>& parts = parts_[kind];
    const std::vector<std::string>& labels = labels_[kind];
    const int more = static_cast<int>(parts.size() - labels.size());
    // A row of few parts takes the width of all, so that each stands above what hangs on it.
    const double pitch = static_cast<double>(columns_ * column()) /
                         static_cast<double>(labels.size() + (more > 0 ? 1 : 0));
    boxes_ += fmt::format("<text x=\"4\" y=\"{}\">{}</text>\n", y_ + 4, name_of(kind));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const Place at{kMargin + static_cast<int>((static_cast<double>(i) + 0.5) * pitch), y_};
      places_[parts[i]] = at;
      boxes_ += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"><title>{}</title></rect>"
          "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
          at.x - box_width_ / 2, at.y - kBoxHeight / 2, box_width_, kBoxHeight,
          escape_html(topology_.vertex(parts[i]).name), at.x, at.y + 3, escape_html(labels[i]));
    }
    if (more > 0) {
      boxes_ += fmt::format("<text x=\"{}\" y=\"{}\">and {} more</text>\n",
                            kMargin + static_cast<int>(static_cast<double>(labels.size()) * pitch),
                            y_ + 4, more);
    }
    y_ += kRow + depth(kind);
  }

  Style style_of(const Cable& cable) const {
    const model::Link& link = topology_.link(cable.first);
    return {link.kind, cable.links * link.bandwidth.value};
  }

  // Thicker than the slowest of its kind by as much as it is faster, within reason.
  double width_of(const Style& style) const {
    double slowest = style.bandwidth;
    for (const Style& other : styles_) {
      if (other.kind == style.kind) slowest = std::min(slowest, other.bandwidth);
    }
    return std::min(3.0, style.bandwidth / slowest);
  }

  std::string draw_cables() {
    for (const auto& [ends, cable] : cables_) {
      if (places_.count(ends.first) > 0 && places_.count(ends.second) > 0) {
        styles_.insert(style_of(cable));
      }
    }
    std::string svg;
    for (const auto& [ends, cable] : cables_) {
      const auto from = places_.find(ends.first), to = places_.find(ends.second);
      if (from == places_.end() || to == places_.end()) continue;
      const Style style = style_of(cable);
      const std::string several = cable.links > 1 ? fmt::format("{} × ", cable.links) : "";
      svg += fmt::format(
          "<path d=\"{}\" stroke=\"{}\" stroke-width=\"{:.3g}\"><title>{}, {}{}</title></path>\n",
          way(ends.first, ends.second), colour(style.kind), width_of(style),
          escape_html(topology_.link_name(cable.first)), several,
          rate(topology_.link(cable.first).bandwidth));
    }
    return svg;
  }

  std::string way(VertexId from, VertexId to) const {
    const Place a = places_.at(from), b = places_.at(to);
    const Slot& first = slots_.at(from);
    const Slot& second = slots_.at(to);
    const int columns = std::abs(first.index - second.index);
    if (first.kind != second.kind || columns < 2) {
      return fmt::format("M{} {}L{} {}", a.x, a.y, b.x, b.y);
    }
    // A cubic's deepest point is three quarters of the way to its control points.
    const int control = a.y + kBoxHeight / 2 + depth_of(columns) * 4 / 3;
    return fmt::format("M{} {}C{} {} {} {} {} {}", a.x, a.y, (3 * a.x + b.x) / 4, control,
                       (a.x + 3 * b.x) / 4, control, b.x, b.y);
  }

  // A line a kind and rate.
  std::string draw_legend() {
    std::string svg;
    y_ += kBoxHeight - kRow / 2;
    for (const Style& style : styles_) {
      svg += fmt::format(
          "<path d=\"M{} {}h24\" stroke=\"{}\" stroke-width=\"{:.3g}\"/><text x=\"{}\" "
          "y=\"{}\">{}, {} each way</text>\n",
          kMargin, y_, colour(style.kind), width_of(style), kMargin + 32, y_ + 3,
          name_of(style.kind), rate({style.bandwidth}));
      y_ += 14;
    }
    y_ += 4;
    return svg;
  }

  const model::Topology& topology_;
  std::map<VertexKind, std::vector<VertexId>> parts_;
  std::map<VertexKind, std::vector<std::string>> labels_;  // Of those that are drawn.
  std::map<VertexId, Slot> slots_;
  std::map<VertexId, Place> places_;
  std::map<std::pair<VertexId, VertexId>, Cable> cables_;
  std::set<Style> styles_;
  std::string boxes_;
  int columns_ = 1, box_width_ = 0;
  int y_ = kRow / 2;
};

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

std::string topology_svg(const model::Topology& topology) { return Picture(topology).draw(); }

}  // namespace megatwin::cli
