#include "cli/report/breakdown.h"

#include <algorithm>
#include <utility>

#include "cli/report/format.h"

namespace megatwin::cli {

std::vector<BreakdownPart> all_parts(const sim::StepBreakdown& breakdown) {
  return {{"compute", "compute", breakdown.compute},
          {"exposed_tp", "tensor-parallel traffic", breakdown.exposed_tp},
          {"exposed_pp", "pipeline traffic", breakdown.exposed_pp},
          {"exposed_dp", "data-parallel traffic", breakdown.exposed_dp},
          {"exposed_ep", "expert traffic", breakdown.exposed_ep},
          {"exposed_cp", "context-parallel traffic", breakdown.exposed_cp},
          {"bubble", "pipeline bubble", breakdown.bubble},
          {"optimizer", "optimizer", breakdown.optimizer},
          {"other", "other", breakdown.other}};
}

std::vector<BreakdownPart> nonzero_parts(const sim::StepBreakdown& breakdown) {
  std::vector<BreakdownPart> parts;
  for (BreakdownPart& part : all_parts(breakdown)) {
    if (part.time.value != 0) parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<sim::ComputeShare> nonzero_shares(const sim::SimulationReport& report) {
  std::vector<sim::ComputeShare> shares;
  for (const sim::ComputeShare& share : report.compute_shares) {
    if (share.time.value != 0) shares.push_back(share);
  }
  return shares;
}

std::vector<MemoryPart> memory_parts(const sim::StageMemory& stage) {
  return {{"parameters", "parameters", stage.parameters},
          {"gradients", "gradients", stage.gradients},
          {"optimizer", "optimizer", stage.optimizer},
          {"activations", "activations", stage.activations},
          {"buffers", "buffers", stage.buffers},
          {"overhead", "overhead", stage.overhead}};
}

std::string memory_limit_text(const sim::SimulationReport& report) {
  std::string text = "of " + format_memory(report.memory_limit);
  const auto has_same_limit = [&](const sim::StageMemory& stage) {
    return stage.limit == report.memory_limit;
  };
  if (std::all_of(report.memory.begin(), report.memory.end(), has_same_limit)) return text;
  const auto fullest =
      std::find_if(report.memory.begin(), report.memory.end(), [&](const sim::StageMemory& stage) {
        return has_same_limit(stage) && stage.peak == report.memory_peak;
      });
  if (fullest == report.memory.end()) return text;
  return text + " on " + (fullest->side.empty() ? "" : "a " + fullest->side + " rank of ") +
         "stage " + std::to_string(fullest->stage) + ", the nearest its limit";
}

}  // namespace megatwin::cli
