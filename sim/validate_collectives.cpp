#include "sim/validate_collectives.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "model/collective_cost.h"
#include "model/nccl_launch.h"
#include "scenarios/gpu_profile_reader.h"

namespace megatwin::sim {
namespace {

using model::HardwareCatalogue;
using model::Node;
using model::Seconds;
using scenarios::CollectiveRow;

// What a source calls a machine, and the catalogue's machine that it is. The first that fits.
struct MachineWord {
  std::string_view word;
  const char* node;
};
constexpr MachineWord kMachineWords[] = {{"p5.48xlarge", "aws-p5"},
                                         {"p4de", "aws-p4de"},
                                         {"GB200 NVL72", "gb200-nvl72"},
                                         {"Perlmutter", "dgx-a100-40g"},
                                         {"V100 (8-GPU node)", "dgx-1v-32g"},
                                         {"A100 (8-GPU node)", "dgx-a100-80g"},
                                         {"V100-SXM2-32GB", "dgx-1v-32g"},
                                         {"V100-SXM2-16GB", "dgx-1v-16g"},
                                         {"A100-SXM4-40GB", "dgx-a100-40g"},
                                         {"A100-SXM4-80GB", "dgx-a100-80g"},
                                         {"H100", "dgx-h100"}};

struct Machine {
  Node node;
  model::Fabric fabric;
  std::string assumption;
};

std::optional<Machine> machine_of(const CollectiveRow& row, const HardwareCatalogue& catalogue,
                                  const std::string& given) {
  std::string name = given;
  for (const MachineWord& known : kMachineWords) {
    if (!name.empty()) break;
    if (row.machine.find(known.word) != std::string::npos) name = known.node;
  }
  const auto found = catalogue.nodes.find(name);
  if (found == catalogue.nodes.end()) return std::nullopt;
  Machine machine{.node = found->second, .assumption = "on " + name};
  if (row.machine.find("Perlmutter") != std::string::npos) {
    machine.node.num_gpus = machine.node.num_nics = 4;  // Four links to each of the other three.
    machine.assumption = "on four A100 that share their twelve links equally";
  }
  if (row.machine.find("SHARP") != std::string::npos) machine.fabric.sharp = true;
  return machine;
}

model::NcclLaunch launch_of(const CollectiveRow& row, const model::GroupTopology& group) {
  // NCCL doubles the channels that its search finds, but for the rings of the cube mesh, which it
  // has doubled already.
  const bool mesh = group.nvlink_topology == model::NvlinkTopology::HybridCubeMesh;
  return {.ranks = row.ranks,
          .gpus_per_process = row.gpus_per_process,
          .threads_per_process = row.threads_per_process,
          .channels = (mesh ? 1 : 2) * group.channels};
}

std::string size_class(model::Bytes bytes) {
  if (bytes.value < 1024) return "below 1 KB";
  return bytes.value < 16e6 ? "1 KB to 16 MB" : "16 MB and more";
}

}  // namespace

OperationValidation validate_collectives(const std::vector<CollectiveRow>& rows,
                                         const HardwareCatalogue& catalogue,
                                         const std::string& machine) {
  std::vector<OperationCheck> checks;
  for (const CollectiveRow& row : rows) {
    OperationCheck check{.id = row.id, .measured = row.time, .reason = row.reason};
    check.group = row.operation + " " + (row.machine.empty() ? "unknown" : row.machine) + " x" +
                  std::to_string(row.ranks) + ", " + size_class(row.bytes);
    const auto place = check.reason.empty() ? machine_of(row, catalogue, machine) : std::nullopt;
    if (check.reason.empty() && !place) check.reason = "no machine is known by this name";
    if (check.reason.empty() && row.ranks < 2) check.reason = "one rank moves nothing";
    if (check.reason.empty()) {
      const model::Gpu& gpu = catalogue.gpus.at(place->node.gpu_name);
      const auto profile = scenarios::gpu_profile(gpu);
      const int per_node = row.hosts > 0 ? (row.ranks + row.hosts - 1) / row.hosts
                                         : std::min(row.ranks, place->node.num_gpus);
      const model::GroupTopology group =
          group_topology({.ranks = row.ranks, .ranks_per_node = per_node}, place->node, gpu,
                         place->fabric, profile ? *profile : model::GpuProfile{});
      const Seconds device = collective_time(row.kind, row.bytes, group).time;
      const Seconds host = nccl_launch_time(row.kind, row.bytes, launch_of(row, group));
      check.predicted = std::max(device, host);
      check.error = ratio(check.predicted / check.measured) - 1;
      check.scored = true;
      check.assumptions.push_back(place->assumption);
      if (row.gpus_per_process > 1) {
        check.assumptions.push_back("one process launches " + std::to_string(row.gpus_per_process) +
                                    " GPUs");
      }
    }
    checks.push_back(std::move(check));
  }
  return summarise_operations(std::move(checks));
}

}  // namespace megatwin::sim
