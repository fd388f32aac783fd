// The cluster of a measured row: GPU by its published spelling, NVLink domain, network cards.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string>

#include "scenarios/measured_row_parts.h"

namespace megatwin::scenarios {
namespace {

using model::BytesPerSecond;
using model::Gpu;
using model::GpuArchitecture;
using model::Node;

// The first number of a text, or 0.
double first_number(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size() && !std::isdigit(static_cast<unsigned char>(text[at]))) ++at;
  double value = 0;
  while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && value < 1e9) {
    value = 10 * value + (text[at++] - '0');
  }
  return value;
}

BytesPerSecond gigabits(double rate) { return {rate * 1e9 / 8}; }

// The usual network of a node of this GPU when the row names none: HDR with A100, NDR later.
void default_network(const Gpu& gpu, Node& node) {
  switch (gpu.architecture) {
    case GpuArchitecture::Volta:
      node.num_nics = std::max(1, node.num_gpus / 2);
      node.nic_per_direction = gigabits(100);
      node.static_routes = true;  // EDR.
      return;
    case GpuArchitecture::Ampere:
    case GpuArchitecture::Ada:
      node.num_nics = node.num_gpus;
      node.nic_per_direction = gigabits(200);
      node.static_routes = true;  // HDR.
      return;
    case GpuArchitecture::Hopper:
    case GpuArchitecture::Blackwell:
    case GpuArchitecture::Cdna3:
    case GpuArchitecture::Other:
      node.num_nics = node.num_gpus;
      node.nic_per_direction = gigabits(400);
      return;
  }
}

// "8x HDR IB 200Gb/s" · "800 Gb/s per node" · "1600 Gbps RoCE per node" · "400 Gb/s RDMA per GPU" ·
// "Omni-Path (… 4x100Gb/s)".
void fill_network(const std::string& text, const Gpu& gpu, Node& node) {
  default_network(gpu, node);
  node.nic_type = text;
  if (text.empty()) return;
  node.static_routes = false;
  if (contains(text, "per node")) {
    const double total = first_number(text);
    node.num_nics = static_cast<int>(std::clamp(total / 200, 1.0, 8.0));
    node.nic_per_direction = gigabits(total / node.num_nics);
  } else if (contains(text, "per GPU")) {
    node.num_nics = node.num_gpus;
    node.nic_per_direction = gigabits(first_number(text));
  } else if (contains(text, "Omni-Path")) {
    node.num_nics = 4;
    node.nic_per_direction = gigabits(100);
  } else if (contains(text, "HDR")) {
    node.num_nics = static_cast<int>(std::clamp(first_number(text), 1.0, 64.0));
    node.nic_per_direction = gigabits(200);
    node.static_routes = true;
  }
  if (node.nic_per_direction.value <= 0) default_network(gpu, node);
}

}  // namespace

void fill_cluster(const MeasuredRow& row, const model::HardwareCatalogue& catalogue,
                  model::Job& job, model::Diagnostics& problems) {
  std::string name = row.text("gpu");
  if (const auto alias = catalogue.gpu_aliases.find(name); alias != catalogue.gpu_aliases.end()) {
    name = alias->second;
    job.assumptions.push_back("GPU '" + row.text("gpu") + "' taken as " + name);
  }
  const auto found = catalogue.gpus.find(name);
  if (found == catalogue.gpus.end()) {
    problems.push_back({.line = row.line,
                        .key = row.id() + ".gpu",
                        .message = "unknown GPU '" + row.text("gpu") + "'"});
    return;
  }
  const double all = number_of(row.text("gpus")).value_or(0);
  if (!(all >= 1 && all <= 1e7)) {
    problems.push_back({.line = row.line,
                        .key = row.id() + ".gpus",
                        .message = row.text("gpus").empty()
                                       ? "gpus not stated"
                                       : "'" + row.text("gpus") + "' is no number from 1 to 1e7"});
    return;
  }
  const int gpus = static_cast<int>(all);
  model::NodeGroup group;
  group.gpu = found->second;
  Node& node = group.node;
  node.gpu_name = name;
  const double per_node = number_of(row.text("gpus_per_node")).value_or(8);
  if (!(per_node >= 1 && per_node <= 1024)) {
    problems.push_back(
        {.line = row.line,
         .key = row.id() + ".gpus_per_node",
         .message = "'" + row.text("gpus_per_node") + "' is no number from 1 to 1024"});
    return;
  }
  node.num_gpus = static_cast<int>(per_node);
  fill_network(row.text("inter_link"), group.gpu, node);
  if (contains(row.text("intra_link"), "NVL72")) {
    // One NVLink domain of 72; jobs in powers of two take 64 of them.
    const int nics_per_gpu = 1;
    node.num_gpus = gpus % 72 == 0 ? 72 : 64;
    node.num_nics = node.num_gpus * nics_per_gpu;
  }
  node.num_gpus = std::min(node.num_gpus, std::max(gpus, 1));
  const bool pairs = group.gpu.architecture == GpuArchitecture::Volta && node.num_gpus == 8;
  node.nvlink_topology =
      pairs ? model::NvlinkTopology::HybridCubeMesh : model::NvlinkTopology::Switch;
  node.name = name + " × " + std::to_string(node.num_gpus);
  group.count = (gpus + node.num_gpus - 1) / node.num_gpus;
  job.cluster.groups = {group};
}

}  // namespace megatwin::scenarios
