#include "scenarios/policy_reader.h"

#include <array>
#include <optional>

#include "scenarios/order_file_reader.h"
#include "scenarios/plan_sizes.h"

namespace megatwin::scenarios {
namespace {

using model::Plan;
using model::ScheduleKind;

constexpr std::array<Word<ScheduleKind>, 10> kSchedules{
    {{"gpipe", ScheduleKind::GPipe},
     {"1f1b", ScheduleKind::OneForwardOneBackward},
     {"interleaved", ScheduleKind::Interleaved},
     {"zb-h1", ScheduleKind::ZeroBubbleH1},
     {"zb-v", ScheduleKind::ZeroBubbleV},
     {"order-file", ScheduleKind::OrderFile},
     {"dpp", ScheduleKind::DynamicAdaptive},
     {"dpp-depth", ScheduleKind::DynamicDepthFirst},
     {"dpp-breadth", ScheduleKind::DynamicBreadthFirst},
     {"fbd", ScheduleKind::Decoupled}}};

constexpr const char* kOrderFile = "the path of the file that holds each rank's order";

std::string path_from(const TreeNode& node, const std::string& folder) {
  const bool from_command_line = node.position.line == 0;
  if (node.text.starts_with('/') || folder.empty() || from_command_line) return node.text;
  return folder + "/" + node.text;
}

void read_side(MapReader& reader, const char* key, bool has_cluster, model::DecoupledSide& side) {
  const TreeNode* node = reader.find(key);
  if (node == nullptr) return;
  MapReader nested(reader.context(), *node, reader.path_of(key));
  read_size(nested, "tensor", side.tensor, {.min = 1, .max = 4096});
  read_size(nested, "instances", side.instances, {.min = 1, .max = 4096});
  read_size(nested, "nodes", side.group, {.min = 0, .max = 1'000'000});
  if (const TreeNode* nodes = nested.find("nodes"); nodes != nullptr && !has_cluster) {
    nested.error_at(*nodes, "nodes",
                    "is the number of an entry of cluster.nodes, and no cluster is given",
                    "cluster with nodes, or no nodes here");
  }
  nested.finish();
}

void read_decoupled(MapReader& reader, bool has_cluster, model::DecoupledPlan& plan) {
  read_side(reader, "forward", has_cluster, plan.forward);
  read_side(reader, "backward", has_cluster, plan.backward);
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

// Nothing where the plan is none, which is said elsewhere, or where replicas differ.
std::optional<OrderSizes> sizes_of(const Plan& plan) {
  const std::int64_t unit = plan.micro_batch * plan.data;
  const bool uneven = plan.micro_batches_by_cost || !plan.micro_batches_per_replica.empty();
  if (uneven || unit <= 0 || plan.global_batch % unit != 0) return std::nullopt;
  return OrderSizes{.micro_batches = plan.global_batch / unit, .chunks = plan.model_chunks};
}

void read_orders(MapReader& reader, const std::string& folder, Plan& plan) {
  const auto file = reader.text("order_file");
  if (!file) return;
  const TreeNode& node = *reader.find("order_file");
  plan.order_file = path_from(node, folder);
  if (!reader.has("schedule")) plan.schedule = ScheduleKind::OrderFile;
  if (plan.schedule != ScheduleKind::OrderFile) {
    return reader.error_at(node, "order_file", "has no effect with this schedule",
                           "policy.schedule: order-file");
  }
  // What was refused already has left its default behind.
  const auto sizes = reader.context().has_error() ? std::nullopt : sizes_of(plan);
  auto orders = read_order_file(plan.order_file, sizes);
  if (orders) {
    plan.orders = *std::move(orders);
    return;
  }
  // What concerns the file as a whole is told where the scenario names it.
  for (const model::Diagnostic& fault : orders.error()) {
    if (fault.line > 0) {
      reader.context().append({fault});
    } else {
      reader.error_at(node, "order_file", quoted(fault.file) + " " + fault.message,
                      fault.allowed.empty() ? kOrderFile : fault.allowed);
    }
  }
}

// Bounds what a policy holds; a static order holds what it holds.
void read_live_activations(MapReader& reader, Plan& plan) {
  const TreeNode* node = reader.find("live_activations");
  if (node == nullptr) return;
  read_size(reader, "live_activations", plan.live_activations, {.min = 1, .max = 1'000'000'000});
  if (!model::is_dynamic(plan.schedule)) {
    reader.error_at(*node, "live_activations", "has no effect with this schedule",
                    "policy.schedule: dpp, dpp-depth or dpp-breadth");
  }
}

void read_map(MapReader& reader, const std::string& folder, bool has_cluster, Plan& plan,
              Remarks& remarks) {
  std::optional<ScheduleKind> schedule;
  if (const TreeNode* node = reader.find("schedule")) {
    schedule = reader.word<ScheduleKind>(*node, "schedule", kSchedules);
  }
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
  read_live_activations(reader, plan);
  if (reader.has("order_file")) read_orders(reader, folder, plan);
  if (schedule == ScheduleKind::Decoupled) read_decoupled(reader, has_cluster, plan.decoupled);
  if (schedule == ScheduleKind::OrderFile) {
    reader.require("order_file", kOrderFile);
  }
  reader.finish();
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kSchedules));
  for (const auto& word : kSchedules) names.emplace_back(word.name);
  return names;
}

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
  read_map(reader, folder, scenario.has("cluster"), plan, remarks);
}

}  // namespace megatwin::scenarios
