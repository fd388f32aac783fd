#include "scenarios/astra_sim.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>

#include "scenarios/document.h"
#include "scenarios/json_reader.h"
#include "scenarios/quantity.h"
#include "scenarios/xml_reader.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

model::Diagnostic fault(const std::string& file, std::string key, std::string message,
                        std::string allowed) {
  return {.file = file,
          .key = std::move(key),
          .message = std::move(message),
          .allowed = std::move(allowed)};
}

std::string joined(const TreeNode& list, const char* unit) {
  if (list.kind == TreeKind::Scalar) return list.text + unit;
  std::string all;
  for (const TreeNode& item : list.items) all += (all.empty() ? "" : ", ") + item.text + unit;
  return all;
}

// Every item a number greater than 0.
std::optional<model::Diagnostic> no_numbers(const std::string& file, const std::string& key,
                                            const TreeNode& list) {
  for (const TreeNode& item : list.items) {
    const auto number = parse_number(item.text, {.min = 0, .max = 1e15});
    if (!number || *number <= 0) {
      return fault(file, key, "'" + item.text + "' is no number", "a number greater than 0");
    }
  }
  return std::nullopt;
}

std::int64_t product(const TreeNode& list) {
  std::int64_t all = 1;
  for (const TreeNode& item : list.items) {
    const auto number = parse_integer(item.text, {.min = 1, .max = 10'000'000});
    if (!number || all > 100'000'000) return 0;
    all *= *number;
  }
  return all;
}

model::Result<AstraSimConfig> read_network(const std::string& file, std::string_view text) {
  MEGATWIN_TRY(const Document document, parse_yaml(file, text));
  AstraSimConfig config{.kind = "analytical-network", .facts = {}, .warnings = {}};
  const TreeNode* topology = document.root.find("topology");
  struct Key {
    const char* name;
    const char* unit;
  };
  for (const Key key : {Key{"npus_count", ""}, Key{"bandwidth", " GB/s"}, Key{"latency", " ns"}}) {
    const TreeNode* values = document.root.find(key.name);
    if (topology == nullptr || values == nullptr) {
      return model::fail(
          fault(file, key.name, "has to be given", "topology, npus_count, bandwidth and latency"));
    }
    if (values->items.size() != topology->items.size()) {
      return model::fail(fault(file, key.name,
                               std::to_string(values->items.size()) + " values for " +
                                   std::to_string(topology->items.size()) + " dimensions",
                               "one a dimension of topology"));
    }
    if (const auto bad = no_numbers(file, key.name, *values)) return model::fail(*bad);
    config.facts.emplace_back(key.name, joined(*values, key.unit));
  }
  config.facts.insert(config.facts.begin(), {"topology", joined(*topology, "")});
  config.facts.emplace_back("npus", std::to_string(product(*document.root.find("npus_count"))));
  return config;
}

model::Result<AstraSimConfig> read_htsim(const std::string& file, std::string_view text) {
  AstraSimConfig config{.kind = "htsim-topology", .facts = {}, .warnings = {}};
  std::istringstream lines{std::string(text)};
  std::string line, tier;
  int tiers = 0, number = 0;
  std::string declared;
  while (std::getline(lines, line)) {
    ++number;
    std::istringstream words(line);
    std::string key, value, more;
    if (!(words >> key)) continue;
    const bool bad = !(words >> value) || (words >> more) || !parse_number(value, {.max = 1e12});
    if (bad) {
      return model::fail({.file = file,
                          .line = number,
                          .message = "is no setting of a topology",
                          .allowed = "a name and a number"});
    }
    if (key == "Tier") {
      tier = "tier " + value + " ";
      ++tiers;
      continue;
    }
    if (key == "Tiers") declared = value;
    config.facts.emplace_back(tier + key, value);
  }
  if (declared != std::to_string(tiers)) {
    return model::fail(fault(
        file, "Tiers", "is " + declared + ", but there are " + std::to_string(tiers) + " blocks",
        "one block a tier"));
  }
  return config;
}

model::Result<AstraSimConfig> read_json_config(const std::string& file, std::string_view text) {
  MEGATWIN_TRY(const Document document, parse_json(file, text));
  AstraSimConfig config;
  if (const TreeNode* dims = document.root.find("logical-dims")) {
    config.kind = "logical-topology";
    config.facts.emplace_back("logical-dims", joined(*dims, ""));
    const std::int64_t npus = product(*dims);
    if (npus == 0) {
      return model::fail(fault(file, "logical-dims", "is no list of sizes", "[\"8\", \"2\"]"));
    }
    config.facts.emplace_back("npus", std::to_string(npus));
    return config;
  }
  config.kind = "system";
  for (const TreeEntry& entry : document.root.entries) {
    const char* unit = entry.key == "local-mem-bw" ? " GB/s"
                       : entry.key == "peak-perf"  ? " TFLOP/s"
                                                   : "";
    config.facts.emplace_back(entry.key, joined(entry.value, unit));
  }
  return config;
}

model::Result<AstraSimConfig> read_collective(const std::string& file, std::string_view text) {
  MEGATWIN_TRY(const XmlElement root, parse_xml(file, text));
  AstraSimConfig config{.kind = "collective", .facts = {}, .warnings = {}};
  for (const auto& [key, value] : root.attributes) config.facts.emplace_back(key, value);
  std::size_t gpus = 0, steps = 0;
  for (const XmlElement& gpu : root.children) {
    ++gpus;
    for (const XmlElement& block : gpu.children) steps += block.children.size();
  }
  config.facts.emplace_back("gpu elements", std::to_string(gpus));
  config.facts.emplace_back("steps", std::to_string(steps));
  if (root.attribute_or("ngpus", "") != std::to_string(gpus)) {
    return model::fail(fault(file, "ngpus", "does not match the " + std::to_string(gpus) + " gpus",
                             "one gpu element each"));
  }
  return config;
}

bool is_collective(std::string_view text) {
  return text.starts_with("<algo ") && holds(text, "coll=");
}
bool is_htsim(std::string_view text) {
  return text.starts_with("Nodes ") && holds(text, "\nTier 0");
}
bool is_json_config(std::string_view text) {
  return text.starts_with("{") &&
         (holds(text, "\"logical-dims\"") ||
          (holds(text, "\"scheduling-policy\"") && holds(text, "-implementation")));
}
bool is_network(std::string_view text) {
  return holds(text, "npus_count:") && holds(text, "topology:");
}

}  // namespace

bool is_astra_sim(std::string_view text) {
  return is_collective(text) || is_htsim(text) || is_json_config(text) || is_network(text);
}

model::Result<AstraSimConfig> parse_astra_sim(const std::string& file, std::string_view text) {
  if (auto faults = check_text(file, text); !faults.empty()) return model::fail(std::move(faults));
  if (is_collective(text)) return read_collective(file, text);
  if (is_htsim(text)) return read_htsim(file, text);
  if (is_json_config(text)) return read_json_config(file, text);
  if (is_network(text)) return read_network(file, text);
  return model::fail(fault(file, "", "is no configuration of ASTRA-sim",
                           "a network (.yml, .topo, logical topology .json), a system .json, an "
                           "MSCCL collective .xml"));
}

}  // namespace megatwin::scenarios
