#include "scenarios/policy_reader.h"

#include "scenarios/order_file_reader.h"
#include "scenarios/plan_sizes.h"

namespace megatwin::scenarios {
namespace {

using model::Plan;
using model::ScheduleKind;

std::string path_from(const TreeNode& node, const std::string& folder) {
  const bool from_command_line = node.position.line == 0;
  if (node.text.starts_with('/') || folder.empty() || from_command_line) return node.text;
  return folder + "/" + node.text;
}

void read_side(MapReader& reader, const char* key, model::DecoupledSide& side) {
  const TreeNode* node = reader.find(key);
  if (node == nullptr) return;
  MapReader nested(reader.context(), *node, reader.path_of(key));
  read_size(nested, "tensor", side.tensor, {.min = 1, .max = 4096});
  read_size(nested, "instances", side.instances, {.min = 1, .max = 4096});
  read_size(nested, "nodes", side.group, {.min = 0, .max = 1'000'000});
  nested.finish();
}

void read_decoupled(MapReader& reader, model::DecoupledPlan& plan) {
  read_side(reader, "forward", plan.forward);
  read_side(reader, "backward", plan.backward);
  if (const auto ships =
          reader.choice<bool>("feed", {{"stage-input", false}, {"activations", true}})) {
    plan.ship_activations = *ships;
  }
  const TreeNode* share = reader.find("weight_gradients_on_forward");
  if (share != nullptr && share->kind == TreeKind::Scalar && share->text == "auto") {
    plan.balance_weights = true;
  } else if (const auto number =
                 reader.number("weight_gradients_on_forward", {.min = 0, .max = 1})) {
    plan.weight_share = *number;
  }
}

void read_map(MapReader& reader, const std::string& folder, Plan& plan, Remarks& remarks) {
  const auto schedule =
      reader.choice<ScheduleKind>("schedule", {{"gpipe", ScheduleKind::GPipe},
                                               {"1f1b", ScheduleKind::OneForwardOneBackward},
                                               {"interleaved", ScheduleKind::Interleaved},
                                               {"zb-h1", ScheduleKind::ZeroBubbleH1},
                                               {"zb-v", ScheduleKind::ZeroBubbleV},
                                               {"order-file", ScheduleKind::OrderFile},
                                               {"dpp", ScheduleKind::DynamicAdaptive},
                                               {"dpp-depth", ScheduleKind::DynamicDepthFirst},
                                               {"dpp-breadth", ScheduleKind::DynamicBreadthFirst},
                                               {"fbd", ScheduleKind::Decoupled}});
  if (schedule) {
    plan.schedule = *schedule;
  } else if (!reader.has("schedule")) {
    const bool chunked = plan.model_chunks > 1;
    plan.schedule = chunked ? ScheduleKind::Interleaved : ScheduleKind::OneForwardOneBackward;
    if (plan.pipeline > 1) {
      remarks.assumptions.push_back(std::string("The schedule was not given: ") +
                                    (chunked ? "interleaved" : "1f1b") + " is taken.");
    }
  }
  read_size(reader, "issue_depth", plan.issue_depth, {.min = 1, .max = 1'000});
  read_size(reader, "receive_slots", plan.receive_slots, {.min = 0, .max = 1'000'000});
  if (const auto file = reader.text("order_file")) {
    plan.order_file = path_from(*reader.find("order_file"), folder);
    if (!reader.has("schedule")) plan.schedule = ScheduleKind::OrderFile;
    if (plan.schedule == ScheduleKind::OrderFile) {
      auto orders = read_order_file(plan.order_file);
      if (orders) {
        plan.orders = *std::move(orders);
      } else {
        reader.context().append(orders.error());
      }
    } else {
      reader.error_at(*reader.find("order_file"), "order_file", "has no effect with this schedule",
                      "policy.schedule: order-file");
    }
  }
  if (schedule == ScheduleKind::Decoupled) read_decoupled(reader, plan.decoupled);
  if (schedule == ScheduleKind::OrderFile) {
    reader.require("order_file", "the path of the file that holds each rank's order");
  }
  reader.finish();
}

}  // namespace

void read_policy(MapReader& scenario, const std::string& folder, Plan& plan, Remarks& remarks) {
  static const TreeNode kNothing;
  const TreeNode* node = scenario.find("policy");
  if (node != nullptr && node->kind == TreeKind::Scalar && node->text.ends_with(".so")) {
    plan.schedule = ScheduleKind::UserPolicy;
    plan.policy_library = path_from(*node, folder);
    return;
  }
  MapReader reader(scenario.context(), node == nullptr ? kNothing : *node,
                   scenario.path_of("policy"));
  read_map(reader, folder, plan, remarks);
}

}  // namespace megatwin::scenarios
