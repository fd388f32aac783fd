#include "cli/report/share_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/report/format.h"

namespace megatwin::cli {
namespace {

std::string name_of(const sim::SimulationReport& report, int stage, int replica) {
  const bool replicas_differ =
      std::any_of(report.stages.begin(), report.stages.end(),
                  [](const sim::StageShare& share) { return share.replica > 0; });
  return replicas_differ ? fmt::format("{} of replica {}", stage, replica) : std::to_string(stage);
}

ShareTable stages_table(const sim::SimulationReport& report) {
  ShareTable table{
      .title = "Stages",
      .lead = "times of one micro-batch; busy and idle of the step",
      .rows = {{"stage", "GPU", "precision", "tensor", "layers", "replicas", "micro-batches",
                "forward", "backward", "busy", "idle", "memory", "of"}},
      .right = {false, false, false, true, true, true, true, true, true, true, true, true, true}};
  for (const sim::StageShare& share : report.stages) {
    table.rows.push_back({name_of(report, share.stage, share.replica), share.gpu, share.precision,
                          std::to_string(share.tensor), std::to_string(share.layers),
                          std::to_string(share.num_replicas), format_count(share.micro_batches),
                          format_time(share.forward), format_time(share.backward),
                          format_time(share.busy), format_percent(share.idle),
                          format_memory(share.memory_peak), format_memory(share.memory_limit)});
  }
  return table;
}

// The two kinds of ranks of a decoupled job.
ShareTable sides_table(const sim::SimulationReport& report) {
  ShareTable table{
      .title = "Sides",
      .lead = "busy: share of the step in which ranks run tasks",
      .rows = {{"side", "GPU", "ranks", "tensor", "instances", "busy", "memory", "of"}},
      .right = {false, false, true, true, true, true, true, true}};
  for (const sim::SideShare& side : report.sides) {
    table.rows.push_back({side.name, side.gpu, format_count(side.ranks),
                          std::to_string(side.tensor), std::to_string(side.instances),
                          format_percent(side.busy), format_memory(side.memory_peak),
                          format_memory(side.memory_limit)});
  }
  return table;
}

// The critical rank's step by components, down to a millionth of it.
ShareTable components_table(const sim::SimulationReport& report) {
  ShareTable table{.title = "Components",
                   .lead = "the step of a rank of stage " + std::to_string(report.critical_stage) +
                           ", all micro-batches; they sum to it",
                   .rows = {{"component", "forward", "backward", "other", "step", "share"}},
                   .right = {false, true, true, true, true, true}};
  const auto cell = [](model::Seconds time) {
    return time.value == 0 ? std::string("–") : format_time(time);
  };
  for (const sim::ComponentTime& one : report.components) {
    const double share = ratio(one.step() / report.step_time);
    if (share > -1e-6 && share < 1e-6) continue;
    table.rows.push_back({one.name, cell(one.forward), cell(one.backward), cell(one.other),
                          format_time(one.step()), format_percent(share)});
  }
  table.rows.push_back({"step", "", "", "", format_time(report.step_time), format_percent(1)});
  return table;
}

}  // namespace

std::vector<ShareTable> share_tables(const sim::SimulationReport& report) {
  std::vector<ShareTable> tables;
  if (!report.stages.empty()) tables.push_back(stages_table(report));
  if (!report.sides.empty()) tables.push_back(sides_table(report));
  if (!report.components.empty()) tables.push_back(components_table(report));
  return tables;
}

std::string stage_name(const sim::SimulationReport& report, const sim::StageMemory& stage) {
  const std::string name = name_of(report, stage.stage, stage.replica);
  return stage.side.empty() ? name : name + " " + stage.side;
}

bool one_memory_limit(const sim::SimulationReport& report) {
  return std::all_of(report.memory.begin(), report.memory.end(),
                     [&](const sim::StageMemory& stage) {
                       return stage.limit.value == 0 || stage.limit == report.memory_limit;
                     });
}

}  // namespace megatwin::cli
