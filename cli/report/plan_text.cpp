#include "cli/report/plan_text.h"

#include <vector>

#include <fmt/format.h>

#include "model/counted.h"
#include "model/data_type.h"

namespace megatwin::cli {
namespace {

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

}  // namespace

std::string_view yaml_name(model::ScheduleKind schedule) {
  return schedule == model::ScheduleKind::OrderFile ? "order file" : model::name_of(schedule);
}

std::string describe(const model::Plan& plan) {
  std::vector<std::string> parts;
  const auto size = [&](const char* name, int value) {
    if (value != 1) parts.push_back(fmt::format("{} {}", name, value));
  };
  if (plan.tensor_per_stage.empty()) {
    size("tensor", plan.tensor);
  } else {
    parts.push_back(fmt::format("tensor {} by stage", fmt::join(plan.tensor_per_stage, ", ")));
  }
  if (plan.model_chunks > 1) {
    parts.push_back(fmt::format("pipeline {} × {} chunks", plan.pipeline, plan.model_chunks));
  } else {
    size("pipeline", plan.pipeline);
  }
  size("context", plan.context);
  size("expert", plan.expert);
  size("data", plan.data);
  parts.push_back(fmt::format("micro-batch {}", plan.micro_batch));
  parts.push_back(fmt::format("global batch {}", plan.global_batch));
  parts.emplace_back(model::name_of(plan.precision));
  if (plan.pipeline > 1) parts.emplace_back(yaml_name(plan.schedule));
  if (plan.zero_stage > 0) parts.push_back(fmt::format("ZeRO {}", plan.zero_stage));
  if (plan.sequence_parallel) parts.emplace_back("sequence parallel");
  if (plan.recompute != model::RecomputeKind::None) {
    std::string text = fmt::format("recompute {}", model::name_of(plan.recompute));
    if (plan.recompute_layers > 0)
      text += fmt::format(" ({} a chunk)", model::counted(plan.recompute_layers, "layer"));
    parts.push_back(std::move(text));
  }
  return join(parts, " · ");
}

std::string describe_short(const model::Plan& plan) {
  std::vector<std::string> parts;
  const auto size = [&](char letter, int value) {
    if (value != 1) parts.push_back(fmt::format("{}{}", letter, value));
  };
  size('t', plan.tensor);
  size('p', plan.pipeline);
  size('v', plan.model_chunks);
  size('c', plan.context);
  size('e', plan.expert);
  size('d', plan.data);
  return parts.empty() ? "one GPU" : join(parts, " ");
}

}  // namespace megatwin::cli
