#include "scenarios/hardware_catalogue.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/assert.h"
#include "scenarios/embedded_text.h"
#include "scenarios/hardware_reader.h"
#include "scenarios/map_reader.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

using model::Gpu;
using model::GpuArchitecture;
using model::Node;

// The text between two values of a leaf {v, s, conf, note}.
struct Fact {
  std::optional<std::string> value;
  std::string source;
  std::string note;
};

std::string joined(const TreeNode* list) {
  std::string text;
  if (list == nullptr) return text;
  for (const TreeNode& item : list->items) text += (text.empty() ? "" : ", ") + item.text;
  return text;
}

Fact fact_of(const TreeNode& leaf) {
  if (leaf.kind == TreeKind::Scalar) return {.value = leaf.text};
  Fact fact;
  if (const TreeNode* value = leaf.find("v"); value != nullptr && value->kind == TreeKind::Scalar) {
    fact.value = value->text;
  }
  fact.source = joined(leaf.find("s"));
  if (const TreeNode* confidence = leaf.find("conf")) {
    fact.source += (fact.source.empty() ? "" : "; ") + (confidence->text + " confidence");
  }
  if (const TreeNode* note = leaf.find("note")) fact.note = note->text;
  return fact;
}

double number_of(const std::string& text, std::string_view key) {
  const model::Result<double> value = parse_number(text, {});
  MEGATWIN_ASSERT(value.has_value(), "hardware.yaml: ", key, ": ", text);
  return *value;
}

// One entry of `gpus` or `nodes` of hardware.yaml; collects the sources of what it reads.
class FactReader {
 public:
  FactReader(const TreeNode& entry, std::map<std::string, std::string>& sources)
      : entry_(entry), sources_(sources) {}

  // The number under `key`, or 0 when it was not found by whoever compiled the file.
  double number(std::string_view key) {
    const TreeNode* leaf = entry_.find(key);
    if (leaf == nullptr) return 0;
    const Fact fact = fact_of(*leaf);
    if (!fact.value) return 0;
    note_source(key, fact);
    return number_of(*fact.value, key);
  }

  std::string text(std::string_view key) {
    const TreeNode* leaf = entry_.find(key);
    if (leaf == nullptr) return {};
    const Fact fact = fact_of(*leaf);
    note_source(key, fact);
    return fact.value.value_or("");
  }

  // A number inside a group such as nvlink: {gen, links, dir_gbps, s}.
  double number(std::string_view group, std::string_view key) {
    const TreeNode* map = entry_.find(group);
    const TreeNode* value = map == nullptr ? nullptr : map->find(key);
    if (value == nullptr || value->kind != TreeKind::Scalar) return 0;
    note_source(group, fact_of(*map));
    return number_of(value->text, key);
  }

 private:
  void note_source(std::string_view key, const Fact& fact) {
    std::string& source = sources_[std::string(key)];
    source = fact.source.empty() ? "no source read" : fact.source;
    if (!fact.note.empty()) source += " (" + fact.note + ")";
  }

  const TreeNode& entry_;
  std::map<std::string, std::string>& sources_;
};

GpuArchitecture architecture_from(std::string_view name) {
  if (name == "Volta") return GpuArchitecture::Volta;
  if (name == "Ampere") return GpuArchitecture::Ampere;
  if (name == "Ada") return GpuArchitecture::Ada;
  if (name == "Hopper") return GpuArchitecture::Hopper;
  if (name.starts_with("Blackwell")) return GpuArchitecture::Blackwell;
  if (name == "CDNA3") return GpuArchitecture::Cdna3;
  return GpuArchitecture::Other;
}

// One direction of a slot such as "4.0 x16": 8, 16 and 32 GT/s a lane with 128b/130b coding.
double pcie_gbps(std::string_view slot) {
  if (slot.starts_with("3.0 x16")) return 8.0 * 16 / 8 * 128 / 130;
  if (slot.starts_with("4.0 x16")) return 16.0 * 16 / 8 * 128 / 130;
  if (slot.starts_with("5.0 x16")) return 32.0 * 16 / 8 * 128 / 130;
  return 0;
}

void read_links(FactReader& facts, Gpu& gpu) {
  gpu.nvlink_generation = static_cast<int>(facts.number("nvlink", "gen"));
  gpu.nvlink_links = static_cast<int>(facts.number("nvlink", "links"));
  gpu.nvlink_per_direction = {facts.number("nvlink", "dir_gbps") * 1e9};
  if (gpu.architecture == GpuArchitecture::Cdna3) {
    gpu.nvlink_links = static_cast<int>(facts.number("xgmi", "links"));
    gpu.nvlink_per_direction = {facts.number("xgmi", "all_to_all_dir_gbps") * 1e9};
  }
  const double pcie = facts.number("pcie", "dir_gbps");
  gpu.pcie_per_direction = {(pcie > 0 ? pcie : pcie_gbps(facts.text("pcie"))) * 1e9};
}

Gpu read_gpu_facts(const std::string& name, const TreeNode& entry) {
  Gpu gpu;
  gpu.name = name;
  FactReader facts(entry, gpu.sources);
  gpu.architecture_name = facts.text("arch");
  gpu.architecture = architecture_from(gpu.architecture_name);
  const double sms = facts.number("sm_count");
  gpu.num_sms = static_cast<int>(sms > 0 ? sms : facts.number("cu_count"));
  gpu.boost_clock = {facts.number("boost_mhz") * 1e6};
  gpu.peak = {.fp32 = {facts.number("fp32") * 1e12},
              .tf32 = {facts.number("tf32") * 1e12},
              .fp16 = {facts.number("fp16") * 1e12},
              .bf16 = {facts.number("bf16") * 1e12},
              .fp8 = {facts.number("fp8") * 1e12},
              .fp4 = {facts.number("fp4") * 1e12}};
  gpu.memory = {facts.number("hbm_gb") * 1e9};
  const double usable = facts.number("usable_gib");
  gpu.memory_usable = usable > 0 ? model::Bytes{std::floor(usable * 1024) * 1024 * 1024}
                                 : kUsableMemoryFraction * gpu.memory;
  gpu.memory_bandwidth = {facts.number("hbm_gbps") * 1e9};
  gpu.l2_cache = {facts.number("l2_mib") * 1024 * 1024};
  read_links(facts, gpu);
  gpu.power_max = {facts.number("tdp_w")};
  gpu.note = facts.text("note");
  return gpu;
}

void read_nvlink_matrix(const TreeNode& entry, Node& node) {
  const TreeNode* group = entry.find("nvlink_matrix");
  const TreeNode* rows = group == nullptr ? nullptr : group->find("m");
  if (rows == nullptr) return;
  for (const TreeNode& row : rows->items) {
    std::vector<int> links;
    for (const TreeNode& cell : row.items) {
      links.push_back(static_cast<int>(number_of(cell.text, "nvlink_matrix")));
    }
    node.nvlink_matrix.push_back(std::move(links));
  }
}

Node read_node_facts(const std::string& name, const TreeNode& entry) {
  Node node;
  node.name = name;
  FactReader facts(entry, node.sources);
  node.num_gpus = static_cast<int>(facts.number("n_gpu"));
  node.num_nics = static_cast<int>(facts.number("nics", "n"));
  node.nic_per_direction = {facts.number("nics", "gbps") * 1e9 / 8};
  if (const TreeNode* nics = entry.find("nics")) {
    if (const TreeNode* type = nics->find("type")) node.nic_type = type->text;
  }
  node.power_max = {facts.number("max_power_w")};
  node.price_per_hour = {facts.number("price_usd_h")};
  read_nvlink_matrix(entry, node);
  return node;
}

// The block of one key of an embedded file.
Document shipped_section(std::string_view file, std::string_view text, std::string_view key) {
  model::Result<Document> document = parse_yaml(std::string(file), yaml_section(text, key));
  MEGATWIN_ASSERT(document.has_value(), to_text(document.error()));
  const TreeNode* section = document->root.find(key);
  MEGATWIN_ASSERT(section != nullptr, file, " has no section ", key);
  TreeNode value = *section;
  document->root = std::move(value);
  return *std::move(document);
}

void read_shipped_nodes(const std::map<std::string, Node>& facts,
                        model::HardwareCatalogue& catalogue) {
  model::Result<Document> document = parse_yaml("nodes.yaml", nodes_yaml());
  MEGATWIN_ASSERT(document.has_value(), to_text(document.error()));
  ReadContext context(document->sources);
  for (const TreeEntry& entry : document->root.entries) {
    MapReader reader(context, entry.value, entry.key);
    catalogue.nodes[entry.key] = read_node(reader, entry.key, catalogue, facts);
  }
  MEGATWIN_ASSERT(!context.has_error(), to_text(context.diagnostics()));
}

}  // namespace

model::HardwareCatalogue load_hardware_catalogue() {
  model::HardwareCatalogue catalogue;
  const Document gpus = shipped_section("hardware.yaml", hardware_yaml(), "gpus");
  for (const TreeEntry& entry : gpus.root.entries) {
    catalogue.gpus[entry.key] = read_gpu_facts(entry.key, entry.value);
  }
  const Document aliases = shipped_section("hardware.yaml", hardware_yaml(), "aliases");
  for (const TreeEntry& entry : aliases.root.entries) {
    MEGATWIN_ASSERT(catalogue.gpus.count(entry.value.text) == 1, entry.value.text);
    catalogue.gpu_aliases[entry.key] = entry.value.text;
  }
  const Document nodes = shipped_section("hardware.yaml", hardware_yaml(), "nodes");
  std::map<std::string, Node> facts;
  for (const TreeEntry& entry : nodes.root.entries) {
    facts[entry.key] = read_node_facts(entry.key, entry.value);
  }
  read_shipped_nodes(facts, catalogue);
  return catalogue;
}

const model::HardwareCatalogue& shipped_hardware() {
  static const model::HardwareCatalogue kCatalogue = load_hardware_catalogue();
  return kCatalogue;
}

std::map<std::string, std::string> hardware_source_texts() {
  std::map<std::string, std::string> texts;
  const Document sources = shipped_section("hardware.yaml", hardware_yaml(), "sources");
  for (const TreeEntry& entry : sources.root.entries) texts[entry.key] = entry.value.text;
  return texts;
}

bool is_ambiguous_gpu_name(std::string_view alias) {
  const Document names = shipped_section("hardware.yaml", hardware_yaml(), "ambiguous");
  return std::any_of(names.root.items.begin(), names.root.items.end(),
                     [&](const TreeNode& name) { return name.text == alias; });
}

}  // namespace megatwin::scenarios
