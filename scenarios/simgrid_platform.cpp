#include "scenarios/simgrid_platform.h"

#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/document.h"
#include "scenarios/xml_reader.h"

namespace megatwin::scenarios {
namespace {

struct Number {
  double value = 0;
  std::string_view unit;
};

std::optional<Number> split(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error != std::errc{} || number.value < 0) return std::nullopt;
  number.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return number;
}

struct Prefix {
  std::string_view name;
  double factor;
};
constexpr Prefix kPrefixes[] = {
    {"", 1},     {"k", 1e3},   {"K", 1e3},      {"M", 1e6},         {"G", 1e9},
    {"T", 1e12}, {"Ki", 1024}, {"Mi", 1048576}, {"Gi", 1073741824}, {"Ti", 1099511627776}};
constexpr Prefix kTimes[] = {{"", 1},       {"s", 1},  {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
                             {"ps", 1e-12}, {"m", 60}, {"h", 3600},  {"d", 86400}, {"w", 604800}};

// The product of the sizes that a shape's parameters give, 0 when they cannot be read:
// DRAGONFLY "3,4;4,3;5,1;2": first of each part; TORUS "3,2,2": all; FAT_TREE "2;4,4;1,2;1,2": the
// second part.
int hosts_of_shape(const std::string& topology, std::string_view parameters) {
  std::vector<std::vector<int>> parts(1);
  while (!parameters.empty()) {
    int value = 0;
    const auto [end, error] =
        std::from_chars(parameters.data(), parameters.data() + parameters.size(), value);
    if (error != std::errc{} || value < 1 || value > 1'000'000) return 0;
    parts.back().push_back(value);
    parameters.remove_prefix(static_cast<std::size_t>(end - parameters.data()));
    if (parameters.empty()) break;
    if (parameters.front() == ';') parts.emplace_back();
    parameters.remove_prefix(1);
  }
  double product = 1;
  if (topology == "TORUS") {
    for (const int size : parts.front()) product *= size;
  } else if (topology == "DRAGONFLY") {
    for (const auto& part : parts) product *= part.empty() ? 0 : part.front();
  } else if (topology == "FAT_TREE" && parts.size() == 4) {
    for (const int size : parts[1]) product *= size;
  } else {
    return 0;
  }
  return product <= 1e9 ? static_cast<int>(product) : 0;
}

class PlatformReader {
 public:
  explicit PlatformReader(const std::string& file) : file_(file) {}

  model::Result<SimgridPlatform> read(const XmlElement& root) {
    platform_.version = root.attribute_or("version", "");
    walk(root);
    check_routes();
    if (!faults_.empty()) return model::fail(std::move(faults_));
    return std::move(platform_);
  }

 private:
  void walk(const XmlElement& element) {
    for (const XmlElement& child : element.children) {
      if (child.name == "cluster") platform_.clusters.push_back(cluster(child));
      if (child.name == "cabinet") platform_.cabinets.push_back(cluster(child));
      if (child.name == "host") ++platform_.num_hosts;
      if (child.name == "link") read_link(child);
      if (child.name == "route" || child.name == "zoneRoute" || child.name == "ASroute") {
        ++platform_.num_routes;
        for (const XmlElement& step : child.children) {
          if (step.name == "link_ctn") crossed_.push_back(&step);
        }
      }
      if (child.name == "zone" || child.name == "AS") {
        find_unreached(child);
        walk(child);
      }
    }
  }

  void read_link(const XmlElement& element) {
    ++platform_.num_links;
    links_.insert(element.attribute_or("id", ""));
    const bool understood = faults_.empty();
    const model::BytesPerSecond bandwidth = quantity(element, "bandwidth", simgrid_bandwidth);
    quantity(element, "latency", simgrid_latency);
    if (!understood || !element.attribute("bandwidth") || bandwidth.value > 0) return;
    faults_.push_back(
        {.file = file_,
         .line = element.line,
         .column = element.column,
         .key = "link.bandwidth",
         .message = "the link " + quoted(element.attribute_or("id", "")) + " has no bandwidth",
         .allowed = "a number above 0 with its unit"});
  }

  // Clusters, cabinets and peers make links of their own.
  void check_routes() {
    if (!platform_.clusters.empty() || !platform_.cabinets.empty()) return;
    for (const XmlElement* step : crossed_) {
      std::string id = step->attribute_or("id", "");
      for (const char* way : {"_UP", "_DOWN"}) {
        if (id.ends_with(way)) id.resize(id.size() - std::string_view(way).size());
      }
      if (links_.contains(id) || links_.contains(step->attribute_or("id", ""))) continue;
      faults_.push_back(
          {.file = file_,
           .line = step->line,
           .column = step->column,
           .key = "link_ctn.id",
           .message = "a route crosses the link " + quoted(id) + ", which is not described"});
    }
  }

  // In a zone with routing "Full" every pair has a route of its own: a host in none is cut off.
  void find_unreached(const XmlElement& zone) {
    if (zone.attribute_or("routing", "") != "Full") return;
    std::set<std::string> ends;
    std::vector<std::string> hosts;
    for (const XmlElement& child : zone.children) {
      if (child.name == "host") hosts.push_back(child.attribute_or("id", ""));
      if (child.name != "route") continue;
      ends.insert(child.attribute_or("src", ""));
      ends.insert(child.attribute_or("dst", ""));
    }
    std::erase_if(hosts, [&](const std::string& host) { return ends.contains(host); });
    if (hosts.empty() || zone.children.size() < 2) return;
    platform_.warnings.push_back({.severity = model::Diagnostic::Severity::Warning,
                                  .file = file_,
                                  .line = zone.line,
                                  .column = zone.column,
                                  .message = std::to_string(hosts.size()) + " hosts of the zone " +
                                             quoted(zone.attribute_or("id", "")) +
                                             " have no route, such as " + quoted(hosts.front())});
  }

  template <class Value>
  Value quantity(const XmlElement& at, const char* key,
                 model::Result<Value> (*parser)(std::string_view)) {
    const auto text = at.attribute(key);
    if (!text) return {};
    const auto value = parser(*text);
    if (value) return *value;
    model::Diagnostic fault = value.error().front();
    fault.file = file_;
    fault.line = at.line;
    fault.column = at.column;
    fault.key = at.name + "." + key;
    faults_.push_back(std::move(fault));
    return {};
  }

  SimgridCluster cluster(const XmlElement& element) {
    SimgridCluster result{.id = element.attribute_or("id", ""),
                          .topology = element.attribute_or("topology", "FLAT"),
                          .parameters = element.attribute_or("topo_parameters", ""),
                          .radical = element.attribute_or("radical", "")};
    result.bandwidth = quantity(element, "bw", simgrid_bandwidth);
    result.limiter = quantity(element, "limiter_link", simgrid_bandwidth);
    result.latency = quantity(element, "lat", simgrid_latency);
    result.num_hosts = quantity(element, "radical", simgrid_radical);
    if (result.topology == "FLAT") return result;
    const int held = hosts_of_shape(result.topology, result.parameters);
    if (held == result.num_hosts) return result;
    faults_.push_back({.file = file_,
                       .line = element.line,
                       .column = element.column,
                       .key = "cluster.topo_parameters",
                       .message = result.topology + " " + quoted(result.parameters) + " holds " +
                                  std::to_string(held) + " hosts, the radical names " +
                                  std::to_string(result.num_hosts)});
    return result;
  }

  const std::string& file_;
  SimgridPlatform platform_;
  model::Diagnostics faults_;
  std::set<std::string> links_;
  std::vector<const XmlElement*> crossed_;  // Of routes.
};

}  // namespace

model::Result<model::BytesPerSecond> simgrid_bandwidth(std::string_view text) {
  const auto number = split(text);
  if (number && number->unit.empty()) return model::BytesPerSecond{number->value};
  if (number && number->unit.size() >= 3) {
    const std::string_view unit = number->unit;
    const std::string_view last = unit.substr(unit.size() - 3);
    const double bytes = last == "Bps" ? 1 : last == "bps" ? 0.125 : 0;
    for (const Prefix& prefix : kPrefixes) {
      if (bytes > 0 && unit.substr(0, unit.size() - 3) == prefix.name) {
        return model::BytesPerSecond{number->value * prefix.factor * bytes};
      }
    }
  }
  return model::fail({.message = quoted(text) + " is no bandwidth",
                      .allowed = "a number with Bps, kBps, KiBps, MBps, … or bps, Mbps, Gbps"});
}

model::Result<model::Seconds> simgrid_latency(std::string_view text) {
  if (const auto number = split(text)) {
    for (const Prefix& unit : kTimes) {
      if (number->unit == unit.name) return model::Seconds{number->value * unit.factor};
    }
  }
  return model::fail({.message = quoted(text) + " is no time",
                      .allowed = "a number with s, ms, us, ns, ps, m, h, d or w"});
}

model::Result<int> simgrid_radical(std::string_view text) {
  const auto wrong = [&] {
    return model::fail(
        {.message = quoted(text) + " is no radical", .allowed = "numbers such as 0-15,20"});
  };
  long hosts = 0;
  std::string_view rest = text;
  while (true) {
    long first = 0, last = 0;
    const auto low = std::from_chars(rest.data(), rest.data() + rest.size(), first);
    if (low.ec != std::errc{} || first < 0) return wrong();
    rest.remove_prefix(static_cast<std::size_t>(low.ptr - rest.data()));
    last = first;
    if (!rest.empty() && rest.front() == '-') {
      rest.remove_prefix(1);
      const auto high = std::from_chars(rest.data(), rest.data() + rest.size(), last);
      if (high.ec != std::errc{} || last < first) return wrong();
      rest.remove_prefix(static_cast<std::size_t>(high.ptr - rest.data()));
    }
    if (last - first > 10'000'000) return wrong();
    hosts += last - first + 1;
    if (hosts > 10'000'000) return wrong();
    if (rest.empty()) return static_cast<int>(hosts);
    if (rest.front() != ',') return wrong();
    rest.remove_prefix(1);
  }
}

std::vector<std::string> SimgridPlatform::radicals() const {
  std::vector<std::string> all;
  for (const SimgridCluster& c : clusters) all.push_back(c.radical);
  for (const SimgridCluster& c : cabinets) all.push_back(c.radical);
  return all;
}

int SimgridPlatform::num_hosts_in_all() const {
  int count = num_hosts;
  for (const SimgridCluster& c : clusters) count += c.num_hosts;
  for (const SimgridCluster& c : cabinets) count += c.num_hosts;
  return count;
}

model::Result<SimgridPlatform> parse_simgrid_platform(const std::string& file,
                                                      std::string_view text) {
  MEGATWIN_TRY(const XmlElement root, parse_xml(file, text));
  if (root.name != "platform") {
    return model::fail({.file = file,
                        .line = root.line,
                        .column = root.column,
                        .message = "its root is <" + root.name + ">",
                        .allowed = "SimGrid's <platform>"});
  }
  return PlatformReader(file).read(root);
}

}  // namespace megatwin::scenarios
