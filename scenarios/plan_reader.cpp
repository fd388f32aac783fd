#include "scenarios/plan_reader.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "model/counted.h"
#include "model/precision_names.h"
#include "scenarios/plan_sizes.h"
#include "scenarios/policy_reader.h"

namespace megatwin::scenarios {
namespace {

using model::Framework;
using model::Plan;
using model::Precision;
using model::RecomputeKind;
using model::ScheduleKind;

constexpr IntegerRange kChunks{.min = 1, .max = 1'000};
// Without a number all are recomputed; 0 would read as none.
constexpr IntegerRange kRecomputedLayers{.min = 1, .max = 10'000};
constexpr IntegerRange kBatch{.min = 1, .max = 1'000'000'000};

// A switch of the plan: as given, else as the software stack has it.
void read_switch(MapReader& reader, std::string_view key, bool& field, bool of_stack) {
  field = reader.boolean(key).value_or(of_stack);
}

// Whether `key` is absent or says `auto`.
bool is_auto(MapReader& reader, std::string_view key) {
  const TreeNode* node = reader.find(key);
  return node == nullptr || (node->kind == TreeKind::Scalar && node->text == "auto");
}

// One number a stage or a replica; an empty list would be as good as none.
std::optional<std::vector<std::int64_t>> read_list(MapReader& reader, std::string_view key,
                                                   IntegerRange range, const char* allowed) {
  const TreeNode* node = reader.find(key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == TreeKind::Scalar) {
    reader.error_at(*node, key, "holds " + quoted(node->text), allowed);
    return std::nullopt;
  }
  if (node->kind == TreeKind::Sequence && node->items.empty()) {
    reader.error_at(*node, key, "is an empty list", allowed);
    return std::nullopt;
  }
  return reader.integers(key, range);
}

// A run of 2^31 GPUs would overflow the plan's own arithmetic long before any check of it.
void check_product(MapReader& reader, Plan& plan) {
  constexpr std::int64_t kGpusMax = 10'000'000;
  std::int64_t product = 1;
  bool too_large = false;
  for (const int size : {plan.tensor, plan.pipeline, plan.context, plan.data}) {
    product *= size > 0 ? size : 1;
    too_large = too_large || product > kGpusMax;
    if (too_large) break;
  }
  product = std::int64_t{plan.effective_expert_tensor()} * plan.expert * plan.pipeline;
  if (!too_large && product <= kGpusMax &&
      std::int64_t{plan.pipeline} * plan.model_chunks <= kGpusMax) {
    return;
  }
  reader.error_at(reader.node(), "", "the plan has more than 10000000 ranks",
                  "tensor × pipeline × context × data of at most 10000000");
  plan = Plan{};
}

void read_data(MapReader& reader, const model::Cluster& cluster, Plan& plan, Remarks& remarks) {
  if (!is_auto(reader, "data")) {
    read_size(reader, "data", plan.data);
    return;
  }
  if (cluster.groups.empty()) {
    plan.data = 1;
    if (!reader.has("data")) {
      remarks.assumptions.push_back(
          "Neither cluster nor data-parallel size was given: 1 is taken.");
    }
    return;
  }
  const std::int64_t gpus = cluster.num_gpus();
  std::int64_t replica = std::int64_t{plan.tensor} * plan.pipeline * plan.context;
  if (!plan.tensor_per_stage.empty()) {
    replica = plan.context * std::accumulate(plan.tensor_per_stage.begin(),
                                             plan.tensor_per_stage.end(), std::int64_t{0});
  }
  plan.data = gpus % replica == 0 ? static_cast<int>(gpus / replica) : 0;
  if (reader.has("data")) return;
  if (plan.data == 0) return;
  remarks.assumptions.push_back(
      "The data-parallel size was not given: " + model::counted(gpus, "GPU") +
      " / (tensor × pipeline × context) = " + std::to_string(plan.data) + ".");
}

// Replicas of both sides together that fill the cluster.
int decoupled_data(const model::Cluster& cluster, Plan plan) {
  plan.data = 1;
  const int gpus = plan.gpus();
  return gpus > 0 ? std::max(cluster.num_gpus() / gpus, 1) : 1;
}

void read_batch(MapReader& reader, Plan& plan, Remarks& remarks) {
  if (is_auto(reader, "micro_batch")) {
    plan.micro_batch = 1;
    remarks.assumptions.push_back("The micro-batch size was not given: 1 is taken.");
  } else if (const auto size = reader.integer("micro_batch", kBatch)) {
    plan.micro_batch = *size;
  }
  reader.require("global_batch", "sequences of one optimizer step");
  if (const auto size = reader.integer("global_batch", kBatch)) plan.global_batch = *size;
}

bool trains_in_fp16(Framework framework) {
  switch (framework) {
    case Framework::Megatron2020:
    case Framework::Megatron2021:
    case Framework::Megatron2022:
    case Framework::MegatronDeepspeed:
    case Framework::DeepspeedZero3:
      return true;
    case Framework::Megatwin:
    case Framework::MegatronCore:
    case Framework::Fsdp1:
    case Framework::Fsdp2:
    case Framework::Maxtext:
    case Framework::Paxml:
    case Framework::PytorchCompile:
      return false;
  }
  return false;
}

void read_precision(MapReader& reader, const PlanSurroundings& around, Plan& plan,
                    Remarks& remarks) {
  static const auto kPrecisions = model::precision_words<Word<Precision>>();
  if (const TreeNode* node = reader.find("precision")) {
    if (const auto one = reader.word<Precision>(*node, "precision", kPrecisions)) {
      plan.precision = *one;
    }
  }
  if (const TreeNode* node = reader.find("precision_per_group")) {
    if (node->kind != TreeKind::Sequence) {
      reader.error_at(*node, "precision_per_group", "is no list",
                      "one precision for each entry of cluster.nodes");
    }
    for (const TreeNode& item : node->items) {
      plan.precision_per_group.push_back(
          reader.word<Precision>(item, "precision_per_group", kPrecisions)
              .value_or(plan.precision));
    }
  }
  if (reader.has("precision")) return;
  if (!plan.precision_per_group.empty()) {
    plan.precision = plan.precision_per_group.front();
    return;
  }
  const auto every_gpu_has = [&](model::FlopPerSecond model::GpuPeak::*rate) {
    return std::all_of(
        around.cluster.groups.begin(), around.cluster.groups.end(),
        [&](const model::NodeGroup& group) { return (group.gpu.peak.*rate).value > 0; });
  };
  const bool bf16 = every_gpu_has(&model::GpuPeak::bf16),
             fp16 = every_gpu_has(&model::GpuPeak::fp16);
  if (trains_in_fp16(around.software.framework) && fp16) {
    plan.precision = Precision::Fp16;
  } else {
    plan.precision = bf16 ? Precision::Bf16 : fp16 ? Precision::Fp16 : Precision::Fp32;
  }
  remarks.assumptions.push_back(
      "The precision was not given: " + std::string(model::name_of(plan.precision)) + " is taken.");
}

std::optional<RecomputeKind> recompute_kind(MapReader& reader, std::string_view key) {
  return reader.choice<RecomputeKind>(key, {{"none", RecomputeKind::None},
                                            {"selective", RecomputeKind::Selective},
                                            {"full", RecomputeKind::Full},
                                            {"per-op", RecomputeKind::PerOp}});
}

void read_recompute(MapReader& reader, const model::SoftwareStack& software, Plan& plan,
                    Remarks& remarks) {
  const TreeNode* node = reader.find("recompute");
  if (node == nullptr) {
    plan.recompute = software.full_recompute_default          ? RecomputeKind::Full
                     : software.framework == Framework::Fsdp2 ? RecomputeKind::PerOp
                                                              : RecomputeKind::None;
    remarks.assumptions.push_back(
        "Recomputation was not given: " + std::string(name_of(plan.recompute)) +
        " is taken, the default of " + software.name + ".");
  } else if (node->kind == TreeKind::Map) {
    MapReader nested(reader.context(), *node, reader.path_of("recompute"));
    nested.require("kind", "none, selective, full or per-op");
    const auto kind = recompute_kind(nested, "kind");
    if (kind) plan.recompute = *kind;
    read_size(nested, "layers", plan.recompute_layers, kRecomputedLayers);
    if (kind && *kind != RecomputeKind::Full && nested.has("layers")) {
      nested.error_at(*nested.find("layers"), "layers",
                      "has no effect with kind " + std::string(name_of(*kind)),
                      "kind: full, or no layers");
    }
    nested.finish();
  } else if (node->kind == TreeKind::Scalar && node->text.starts_with("full:")) {
    // The short form, as reports and searches write it.
    const auto layers = parse_integer(node->text.substr(5), kRecomputedLayers);
    plan.recompute = RecomputeKind::Full;
    if (layers) {
      plan.recompute_layers = static_cast<int>(*layers);
    } else {
      reader.error_at(*node, "recompute", quoted(node->text) + " is no number of layers",
                      "none, selective, full, per-op, full:N for the first N layers of a chunk");
    }
  } else if (const auto kind = recompute_kind(reader, "recompute")) {
    plan.recompute = *kind;
  }
}

void read_sharding(MapReader& reader, const PlanSurroundings& around, Plan& plan,
                   Remarks& remarks) {
  const model::SoftwareStack& software = around.software;
  plan.sequence_parallel = plan.tensor > 1 && software.default_sequence_parallel;
  if (const auto given = reader.boolean("sequence_parallel")) {
    plan.sequence_parallel = *given;
  } else if (plan.tensor > 1) {
    remarks.assumptions.push_back(std::string("Sequence parallelism was not given: ") +
                                  (plan.sequence_parallel ? "on" : "off") + ", the default of " +
                                  software.name + " with tensor parallelism.");
  }
  plan.zero_stage = software.default_zero_stage;
  if (const auto given = reader.integer("zero", {.min = 0, .max = 3})) {
    plan.zero_stage = static_cast<int>(*given);
  } else {
    remarks.assumptions.push_back(
        "The ZeRO stage was not given: " + std::to_string(plan.zero_stage) + ", the default of " +
        software.name + ".");
  }
}

void read_layers(MapReader& reader, Plan& plan) {
  if (reader.has("layers_per_stage") && is_auto(reader, "layers_per_stage")) {
    plan.layers_by_cost = true;
  } else if (const auto layers = read_list(reader, "layers_per_stage", {.min = 0, .max = 10'000},
                                           "auto, or layers of each stage, such as [4, 4, 5]")) {
    plan.layers_per_virtual_stage.assign(layers->begin(), layers->end());
  }
  plan.embedding_as_layer = reader.boolean("embedding_as_layer").value_or(false);
  plan.head_as_layer = reader.boolean("head_as_layer").value_or(false);
}

void read_overlaps(MapReader& reader, const model::SoftwareStack& software, Plan& plan) {
  read_switch(reader, "overlap_grad_reduce", plan.overlap_grad_reduce,
              software.overlap_grad_reduce);
  read_switch(reader, "overlap_param_gather", plan.overlap_param_gather,
              software.overlap_param_gather);
  read_switch(reader, "overlap_tensor_parallel", plan.overlap_tensor_parallel,
              software.overlap_tensor_parallel);
  read_switch(reader, "overlap_p2p", plan.overlap_p2p, software.overlap_p2p);
  plan.fp32_parameters = reader.boolean("fp32_parameters").value_or(false);
}

// Numbers of micro-batches that differ by replica: given, or found by cost.
void read_micro_batches(MapReader& reader, Plan& plan) {
  constexpr const char* kKey = "micro_batches_per_replica";
  if (!reader.has(kKey)) return;
  if (is_auto(reader, kKey)) {
    plan.micro_batches_by_cost = true;
  } else if (const auto counts = read_list(reader, kKey, kBatch,
                                           "auto, or a number for each replica, such as [5, 3]")) {
    plan.micro_batches_per_replica = *counts;
  }
}

void read_tensor(MapReader& reader, Plan& plan) {
  read_size(reader, "tensor", plan.tensor);
  const TreeNode* node = reader.find("tensor_per_stage");
  if (node == nullptr) return;
  const auto sizes = read_list(reader, "tensor_per_stage", {.min = 1, .max = 4096},
                               "a size for each stage, such as [4, 4, 2]");
  if (reader.has("tensor")) {
    reader.error_at(*node, "tensor_per_stage", "stands beside plan.tensor",
                    "one of the two; --set plan.tensor=null takes the other away");
  }
  if (!sizes || sizes->empty()) return;
  plan.tensor_per_stage.assign(sizes->begin(), sizes->end());
  plan.tensor = *std::max_element(plan.tensor_per_stage.begin(), plan.tensor_per_stage.end());
}

// Megatron cuts experts over the tensor-parallel group unless told otherwise (0 in Plan); the
// others keep each expert whole.
bool cuts_experts_by_tensor(Framework framework) {
  return framework == Framework::Megatwin || framework == Framework::MegatronCore ||
         framework == Framework::MegatronDeepspeed;
}

void read_experts(MapReader& reader, const model::SoftwareStack& software, Plan& plan) {
  read_size(reader, "expert", plan.expert);
  plan.expert_tensor = cuts_experts_by_tensor(software.framework) ? 0 : 1;
  read_size(reader, "expert_tensor", plan.expert_tensor, {.min = 0, .max = kParallelSize.max});
  if (const auto dispatcher = reader.choice<model::ExpertDispatcher>(
          "dispatcher", {{"all-to-all", model::ExpertDispatcher::AllToAll},
                         {"all-gather", model::ExpertDispatcher::AllGather},
                         {"deep-ep", model::ExpertDispatcher::DeepEp}})) {
    plan.dispatcher = *dispatcher;
  }
  if (const auto imbalance = reader.number("expert_capacity_imbalance", {.min = 1, .max = 1000})) {
    plan.expert_capacity_imbalance = *imbalance;
  }
}

}  // namespace

Plan read_plan(MapReader& scenario, const PlanSurroundings& around, const std::string& folder,
               Remarks& remarks) {
  static const TreeNode kNothing;
  Plan plan;
  scenario.require("plan", "a map with at least global_batch");
  const TreeNode* plan_node = scenario.find("plan");
  if (plan_node != nullptr) {
    MapReader reader(scenario.context(), *plan_node, scenario.path_of("plan"));
    read_tensor(reader, plan);
    read_size(reader, "pipeline", plan.pipeline);
    read_size(reader, "model_chunks", plan.model_chunks, kChunks);
    read_size(reader, "context", plan.context);
    read_experts(reader, around.software, plan);
    read_data(reader, around.cluster, plan, remarks);
    read_batch(reader, plan, remarks);
    read_micro_batches(reader, plan);
    read_sharding(reader, around, plan, remarks);
    read_recompute(reader, around.software, plan, remarks);
    read_precision(reader, around, plan, remarks);
    read_layers(reader, plan);
    read_overlaps(reader, around.software, plan);
    if (const auto order = reader.text("rank_order")) plan.rank_order = *order;
    check_product(reader, plan);
    reader.finish();
  }
  read_policy(scenario, folder, plan, remarks);
  const bool sized = plan_node != nullptr && plan_node->kind == TreeKind::Map;
  if (plan.schedule == ScheduleKind::Decoupled && sized) {
    MapReader reader(scenario.context(), *plan_node, scenario.path_of("plan"));
    if (is_auto(reader, "data")) plan.data = decoupled_data(around.cluster, plan);
  }
  return plan;
}

std::vector<std::string> plan_keys() {
  return {"tensor",
          "pipeline",
          "model_chunks",
          "context",
          "expert",
          "expert_tensor",
          "data",
          "micro_batch",
          "global_batch",
          "sequence_parallel",
          "zero",
          "recompute",
          "precision",
          "dispatcher",
          "overlap_grad_reduce",
          "overlap_param_gather",
          "overlap_tensor_parallel",
          "overlap_p2p",
          "schedule",
          "rank_order",
          "layers_per_stage"};
}

}  // namespace megatwin::scenarios
