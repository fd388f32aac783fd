#include "scenarios/hardware_reader.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace megatwin::scenarios {
namespace {

constexpr IntegerRange kSmallCount{.min = 0, .max = 100'000};

// A hundred times what the largest part of the catalogue has; more is a mistyped unit.
constexpr model::Bytes kMemoryMax{100e12};
constexpr model::BytesPerSecond kBandwidthMax{1e15};
constexpr model::FlopPerSecond kRateMax{1e18};

// As reader.read(); what is over `most` is reported, with `allowed`.
template <class Value>
std::optional<Value> read_up_to(MapReader& reader, const char* key,
                                model::Result<Value> (*parser)(std::string_view, Zero), Value most,
                                const char* allowed, Zero zero = Zero::Refused) {
  const std::optional<Value> value = reader.read(key, parser, zero);
  if (!value || !(*value > most)) return value;
  const TreeNode& node = *reader.find(key);
  reader.error_at(node, key, quoted(node.text) + " is more than any GPU has", allowed);
  return std::nullopt;
}

template <class Value>
void set(Value& field, const std::optional<Value>& value) {
  if (value) field = *value;
}

void set_count(int& field, const std::optional<std::int64_t>& value) {
  if (value) field = static_cast<int>(*value);
}

template <class Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> names;
  names.reserve(map.size());
  for (const auto& entry : map) names.push_back(entry.first);
  return names;
}

std::string gigabytes(model::Bytes size) {
  std::ostringstream text;
  text << size.value / 1e9 << " GB";
  return std::move(text).str();
}

// The entry that `like` or `facts` names, or nullptr; an unknown name is reported.
template <class Value>
const Value* referred(MapReader& reader, std::string_view key,
                      const std::map<std::string, Value>& known, std::string_view what) {
  const std::optional<std::string> name = reader.text(key);
  if (!name) return nullptr;
  const auto found = known.find(*name);
  if (found != known.end()) return &found->second;
  reader.unknown_word(*reader.find(key), key, names_of(known), what);
  return nullptr;
}

void read_rates(MapReader& reader, model::GpuPeak& peak) {
  const auto rate = [&](const char* key, model::FlopPerSecond& field, Zero zero) {
    set(field, read_up_to(reader, key, parse_flop_rate, kRateMax, "at most 1000000 TFLOP/s", zero));
  };
  rate("fp32", peak.fp32, Zero::Refused);
  // 0: the part has no such units.
  rate("tf32", peak.tf32, Zero::Allowed);
  rate("fp16", peak.fp16, Zero::Allowed);
  rate("bf16", peak.bf16, Zero::Allowed);
  rate("fp8", peak.fp8, Zero::Allowed);
  rate("fp4", peak.fp4, Zero::Allowed);
}

void read_memory(MapReader& reader, model::Gpu& gpu) {
  const auto size = [&](const char* key) {
    return read_up_to(reader, key, parse_bytes, kMemoryMax, "at most 100 TB");
  };
  const auto memory = size("memory"), usable = size("memory_usable");
  set(gpu.memory, memory);
  if (memory && !usable) gpu.memory_usable = kUsableMemoryFraction * *memory;
  set(gpu.memory_usable, usable);
  if (usable && gpu.memory.value > 0 && *usable > gpu.memory) {
    const TreeNode& node = *reader.find("memory_usable");
    reader.error_at(node, "memory_usable", quoted(node.text) + " is more than the GPU has",
                    "at most the memory, " + gigabytes(gpu.memory));
  }
  set(gpu.memory_bandwidth,
      read_up_to(reader, "memory_bandwidth", parse_bandwidth, kBandwidthMax, "at most 1000 TB/s"));
}

void read_architecture(MapReader& reader, model::Gpu& gpu) {
  using model::GpuArchitecture;
  const auto architecture =
      reader.choice<GpuArchitecture>("architecture", {{"volta", GpuArchitecture::Volta},
                                                      {"ampere", GpuArchitecture::Ampere},
                                                      {"ada", GpuArchitecture::Ada},
                                                      {"hopper", GpuArchitecture::Hopper},
                                                      {"blackwell", GpuArchitecture::Blackwell},
                                                      {"cdna3", GpuArchitecture::Cdna3},
                                                      {"other", GpuArchitecture::Other}});
  if (!architecture) return;
  gpu.architecture = *architecture;
  gpu.architecture_name = reader.find("architecture")->text;
}

// Lists the names, and suggests one even where the word is near to an alias only.
void report_unknown_gpu(MapReader& reader, std::string_view key, const std::string& word,
                        const model::HardwareCatalogue& catalogue) {
  const std::vector<std::string> names = names_of(catalogue.gpus);
  std::string allowed = allowed_names(word, names);
  if (allowed.find("did you mean") == std::string::npos && word.size() < 100) {
    const std::string alias = model::nearest_word(word, names_of(catalogue.gpu_aliases));
    if (!alias.empty()) allowed += "; did you mean '" + catalogue.gpu_aliases.at(alias) + "'?";
  }
  reader.error_at(*reader.find(key), key, "unknown GPU " + quoted(word), allowed);
}

}  // namespace

model::Gpu read_gpu(MapReader& reader, const std::string& name,
                    const model::HardwareCatalogue& catalogue) {
  model::Gpu gpu;
  const model::Gpu* base = referred(reader, "like", catalogue.gpus, "GPU");
  if (base != nullptr) gpu = *base;
  gpu.name = name;
  read_architecture(reader, gpu);
  set_count(gpu.num_sms, reader.integer("sms", {.min = 1, .max = 100'000}));
  set(gpu.boost_clock, reader.read("boost_clock", parse_frequency));
  read_rates(reader, gpu.peak);
  read_memory(reader, gpu);
  set(gpu.l2_cache, reader.read("l2_cache", parse_bytes));
  set_count(gpu.nvlink_generation, reader.integer("nvlink_generation", kSmallCount));
  set_count(gpu.nvlink_links, reader.integer("nvlink_links", kSmallCount));
  set(gpu.nvlink_per_direction,
      reader.read("nvlink_per_direction", parse_bandwidth, Zero::Allowed));
  set(gpu.pcie_per_direction, reader.read("pcie_per_direction", parse_bandwidth));
  set(gpu.power_max, reader.read("power", parse_power));
  set(gpu.note, reader.text("note"));
  if (!reader.has("like")) {
    reader.require("memory", "a size, such as 80 GB");
    reader.require("memory_bandwidth", "a rate, such as 3350 GB/s");
    reader.require("fp32", "a rate, such as 67 TFLOP/s");
  }
  reader.finish();
  return gpu;
}

void read_node_fields(MapReader& reader, model::Node& node) {
  using model::NvlinkTopology;
  set_count(node.num_gpus, reader.integer("gpus", {.min = 1, .max = 100'000}));
  set(node.nvlink_topology,
      reader.choice<NvlinkTopology>("nvlink", {{"switch", NvlinkTopology::Switch},
                                               {"hybrid-cube-mesh", NvlinkTopology::HybridCubeMesh},
                                               {"pcie-only", NvlinkTopology::PcieOnly},
                                               {"none", NvlinkTopology::None}}));
  set_count(node.num_nics, reader.integer("nics", kSmallCount));
  set(node.nic_per_direction, reader.read("nic_bandwidth", parse_bandwidth));
  const auto nic_type = reader.text("nic_type");
  // Another kind of network has routes of its own.
  if (nic_type && *nic_type != node.nic_type) node.static_routes = false;
  set(node.nic_type, nic_type);
  set(node.static_routes, reader.boolean("static_routes"));
  set(node.nic_latency, reader.read("nic_latency", parse_time, Zero::Allowed));
  set(node.power_max, reader.read("power", parse_power));
  set(node.price_per_hour, reader.read("price_per_hour", parse_money, Zero::Allowed));
}

void fit_nvlink_matrix(model::Node& node, const model::HardwareCatalogue& catalogue) {
  if (node.nvlink_topology != model::NvlinkTopology::HybridCubeMesh) {
    node.nvlink_matrix.clear();
    return;
  }
  const auto mesh = catalogue.nodes.find("dgx-1v-16g");
  if (!node.nvlink_matrix.empty() || mesh == catalogue.nodes.end()) return;
  if (node.num_gpus <= mesh->second.num_gpus) node.nvlink_matrix = mesh->second.nvlink_matrix;
}

model::Node read_node(MapReader& reader, const std::string& name,
                      const model::HardwareCatalogue& catalogue,
                      const std::map<std::string, model::Node>& facts) {
  model::Node node;
  const model::Node* base = nullptr;
  if (reader.has("like")) base = referred(reader, "like", catalogue.nodes, "node");
  if (!facts.empty() && reader.has("facts")) base = referred(reader, "facts", facts, "facts");
  if (base != nullptr) node = *base;
  node.name = name;
  if (const auto gpu = resolve_gpu(reader, "gpu", catalogue)) node.gpu_name = *gpu;
  read_node_fields(reader, node);
  fit_nvlink_matrix(node, catalogue);
  if (!reader.has("like") && base == nullptr) {
    reader.require("gpu", "the name of a GPU");
    reader.require("gpus", "GPUs in one machine");
    reader.require("nics", "network adapters in one machine");
    reader.require("nic_bandwidth", "a rate, such as 400 Gbit/s");
  }
  reader.finish();
  return node;
}

void add_user_hardware(MapReader& hardware, model::HardwareCatalogue& catalogue) {
  ReadContext& context = hardware.context();
  if (const TreeNode* gpus = hardware.find("gpus")) {
    MapReader all(context, *gpus, hardware.path_of("gpus"));
    for (const TreeEntry& entry : gpus->entries) {
      MapReader reader(context, entry.value, all.path_of(entry.key));
      catalogue.gpus[entry.key] = read_gpu(reader, entry.key, catalogue);
      catalogue.gpu_aliases.erase(entry.key);
    }
  }
  if (const TreeNode* nodes = hardware.find("nodes")) {
    MapReader all(context, *nodes, hardware.path_of("nodes"));
    for (const TreeEntry& entry : nodes->entries) {
      MapReader reader(context, entry.value, all.path_of(entry.key));
      catalogue.nodes[entry.key] = read_node(reader, entry.key, catalogue, {});
    }
  }
  hardware.finish();
}

std::optional<std::string> resolve_gpu(MapReader& reader, std::string_view key,
                                       const model::HardwareCatalogue& catalogue) {
  std::optional<std::string> name = reader.text(key);
  if (!name) return std::nullopt;
  if (catalogue.gpus.count(*name) > 0) return name;
  const auto alias = catalogue.gpu_aliases.find(*name);
  if (alias != catalogue.gpu_aliases.end()) return alias->second;
  report_unknown_gpu(reader, key, *name, catalogue);
  return std::nullopt;
}

}  // namespace megatwin::scenarios
