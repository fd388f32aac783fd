#include "policies/schedule.h"

#include <utility>

#include "model/assert.h"
#include "model/counted.h"
#include "model/program/decoupled_sides.h"
#include "policies/order_file.h"

namespace megatwin::policies {
namespace {

using model::ProgramSpec;
using model::ScheduleKind;

// So that a stage fits into 16 bits and a task of all stages into 28.
constexpr int kPipelineMax = 65'535;
constexpr int kNumTasksMax = (1 << 28) - 1;

std::vector<std::string> size_problems(const ProgramSpec& spec) {
  std::vector<std::string> problems;
  const auto at_least_one = [&](const char* name, int value) {
    if (value < 1) {
      problems.push_back(std::string(name) + " is " + std::to_string(value) +
                         ", must be at least 1");
    }
  };
  at_least_one("pipeline size", spec.pipeline);
  at_least_one("model chunks a stage", spec.model_chunks);
  at_least_one("number of micro-batches", spec.micro_batches);
  if (!problems.empty()) {
    return problems;
  }
  const double num_tasks = 3.0 * spec.pipeline * spec.model_chunks * spec.micro_batches;
  if (num_tasks > kNumTasksMax || spec.pipeline > kPipelineMax) {
    problems.push_back("the pipeline is too large to simulate: at most " +
                       std::to_string(kPipelineMax) + " stages and " +
                       std::to_string(kNumTasksMax) + " tasks");
    return problems;
  }
  if (std::ssize(spec.stages) != spec.pipeline) {
    problems.push_back("costs are given for " + model::counted(std::ssize(spec.stages), "stage") +
                       ", the plan has " + std::to_string(spec.pipeline));
  }
  for (std::size_t stage = 0; stage < spec.stages.size(); ++stage) {
    const auto chunks = std::ssize(spec.stages[stage].chunks);
    if (chunks != spec.model_chunks) {
      problems.push_back("stage " + std::to_string(stage) + " has costs for " +
                         model::counted(chunks, "chunk") + ", the plan has " +
                         std::to_string(spec.model_chunks));
    }
  }
  return problems;
}

int micro_batch_group(const ProgramSpec& spec) {
  return spec.micro_batch_group > 0 ? spec.micro_batch_group : spec.pipeline;
}

std::vector<std::string> interleaved_problems(const ProgramSpec& spec) {
  std::vector<std::string> problems;
  const int p = spec.pipeline;
  const int m = spec.micro_batches;
  const int group = micro_batch_group(spec);
  if (p < 2) {
    problems.push_back("the interleaved schedule needs a pipeline of at least 2 stages, not " +
                       std::to_string(p));
  }
  if (group < p || group > m) {
    problems.push_back("the interleaved schedule passes groups of " + std::to_string(group) +
                       " micro-batches; a group must be at least the pipeline size " +
                       std::to_string(p) + " and at most the number of micro-batches " +
                       std::to_string(m));
    return problems;
  }
  const int rest = m % group;
  if (rest != 0 && rest < p) {
    problems.push_back("the interleaved schedule needs micro-batches in whole groups of " +
                       std::to_string(group) + ": " + std::to_string(m) + " leaves " +
                       std::to_string(rest) + "; nearest are " + std::to_string(m - rest) +
                       " and " + std::to_string(m - rest + group));
  }
  return problems;
}

std::vector<std::string> chunk_problems(const ProgramSpec& spec, const char* schedule, int chunks) {
  if (spec.model_chunks == chunks) {
    return {};
  }
  return {std::string("the ") + schedule + " schedule has " + std::to_string(chunks) +
          " model chunk" + (chunks == 1 ? "" : "s") + " a stage, not " +
          std::to_string(spec.model_chunks)};
}

std::vector<std::string> decoupled_problems(const ProgramSpec& spec) {
  std::vector<std::string> problems = chunk_problems(spec, "fbd", 1);
  for (std::string& problem : model::instance_problems(spec.micro_batches, spec.instances)) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

template <class OrderOfStage>
std::vector<Order> order_of_each_stage(const ProgramSpec& spec, OrderOfStage order_of_stage) {
  std::vector<Order> orders;
  orders.reserve(static_cast<std::size_t>(spec.pipeline));
  for (std::int32_t stage = 0; stage < spec.pipeline; ++stage) {
    orders.push_back(order_of_stage(pipeline_shape(spec), model::StageId{stage}));
  }
  return orders;
}

}  // namespace

std::vector<std::string> schedule_problems(const ProgramSpec& spec) {
  if (auto problems = size_problems(spec); !problems.empty()) {
    return problems;
  }
  switch (spec.schedule) {
    case ScheduleKind::GPipe:
      return {};
    case ScheduleKind::OneForwardOneBackward:
      return chunk_problems(spec, "1f1b", 1);
    case ScheduleKind::Interleaved:
      return interleaved_problems(spec);
    case ScheduleKind::ZeroBubbleH1:
      return chunk_problems(spec, "zb-h1", 1);
    case ScheduleKind::ZeroBubbleV:
      return chunk_problems(spec, "zb-v", 2);
    case ScheduleKind::OrderFile:
      return order_file_problems(spec);
    case ScheduleKind::DynamicAdaptive:
    case ScheduleKind::DynamicDepthFirst:
    case ScheduleKind::DynamicBreadthFirst:
    case ScheduleKind::UserPolicy:
      return {};
    case ScheduleKind::Decoupled:
      return decoupled_problems(spec);
  }
  MEGATWIN_ASSERT(false, "unknown schedule");
}

std::vector<std::string> schedule_warnings(const ProgramSpec& spec) {
  std::vector<std::string> warnings;
  if (spec.schedule == ScheduleKind::Interleaved && spec.pipeline == 2) {
    if (!spec.overlap_p2p) {
      warnings.push_back(
          "Megatron-LM refuses the interleaved schedule on 2 stages unless point-to-point transfers"
          " overlap: the next and the previous stage are the same peer");
    }
    warnings.push_back("interleaving gains little on 2 stages");
  }
  if (spec.micro_batches < spec.pipeline) {
    warnings.push_back("fewer micro-batches (" + std::to_string(spec.micro_batches) +
                       ") than stages (" + std::to_string(spec.pipeline) +
                       "): some stages are idle at any time, and PyTorch's schedules refuse it");
  }
  return warnings;
}

std::vector<Order> schedule_orders(const ProgramSpec& spec) {
  switch (spec.schedule) {
    case ScheduleKind::GPipe:
      return order_of_each_stage(spec, gpipe_order);
    case ScheduleKind::OneForwardOneBackward:
      return order_of_each_stage(spec, one_forward_one_backward_order);
    case ScheduleKind::Interleaved:
      return order_of_each_stage(spec, [&](const auto& shape, model::StageId stage) {
        return interleaved_order(shape, stage, micro_batch_group(spec));
      });
    case ScheduleKind::ZeroBubbleH1:
      return order_of_each_stage(spec, zero_bubble_h1_order);
    case ScheduleKind::ZeroBubbleV:
      return order_of_each_stage(spec, zero_bubble_v_order);
    case ScheduleKind::OrderFile:
      return order_file_orders(spec);
    case ScheduleKind::Decoupled:
      return spec.orders.empty() ? order_of_each_stage(spec, decoupled_order)
                                 : order_file_orders(spec);
    case ScheduleKind::DynamicAdaptive:
    case ScheduleKind::DynamicDepthFirst:
    case ScheduleKind::DynamicBreadthFirst:
    case ScheduleKind::UserPolicy:
      break;
  }
  MEGATWIN_ASSERT(false, model::name_of(spec.schedule), " has no static order");
}

std::vector<Order> schedule_orders(const std::vector<ProgramSpec>& specs) {
  std::vector<Order> orders;
  for (const ProgramSpec& spec : specs) {
    for (Order& order : schedule_orders(spec)) {
      orders.push_back(std::move(order));
    }
  }
  return orders;
}

}  // namespace megatwin::policies
