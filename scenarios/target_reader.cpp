#include "scenarios/target_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/parameters.h"
#include "scenarios/cluster_reader.h"
#include "scenarios/gpu_profile_reader.h"

namespace megatwin::scenarios {
namespace {

using model::MachineOffer;
using model::Operations;
using model::TrainingWish;

// Llama 3 405B: 419 unexpected interruptions in 54 days on 2,048 machines of 8 (arXiv:2407.21783).
constexpr double kFailuresPerNodeDay = 3.79e-3;
// BLOOM: 2.3 TB in 40 s (its training chronicle): 16-bit weights, 32-bit weights and moments.
constexpr double kCheckpointBytesPerParameter = 14;
constexpr model::BytesPerSecond kCheckpointRate{2.3e12 / 40};
constexpr model::Seconds kRestart{20 * 60};
constexpr model::Seconds kReplacement{86400};
// Mean of the industry, Uptime Institute's survey of 2021.
constexpr double kFacilityFactor = 1.57;
// Without a bound of the user's. Larger ladders cost time and rarely matter.
constexpr int kMachinesMax = 1024;

void read_checkpoint(MapReader& reader, const model::Job& job, Operations& operations,
                     Remarks& remarks) {
  const auto total = static_cast<double>(model::count_parameters(job.transformer).total);
  operations.checkpoint = {kCheckpointBytesPerParameter * total};
  operations.checkpoint_time = operations.checkpoint / kCheckpointRate;
  if (const auto time = reader.read("checkpoint_time", parse_time, Zero::Allowed)) {
    operations.checkpoint_time = *time;
    return;
  }
  remarks.assumptions.emplace_back(
      "A checkpoint's time was not given: 14 bytes a parameter at 57.5 GB/s are taken (BLOOM, 2.3 "
      "TB in 40 s).");
}

Operations read_operations(MapReader& reader, const model::Job& job, Remarks& remarks) {
  Operations operations{.failures_per_node_day = kFailuresPerNodeDay,
                        .restart = kRestart,
                        .replacement = kReplacement,
                        .facility_factor = kFacilityFactor};
  const auto assume = [&](const char* sentence) { remarks.assumptions.emplace_back(sentence); };
  if (const auto rate = reader.number("failures_per_node_day", {.min = 0, .max = 100})) {
    operations.failures_per_node_day = *rate;
  } else if (!reader.has("failures_per_node_day")) {
    assume("Failures were not given: 0.00379 a machine and day are taken (Llama 3 405B).");
  }
  read_checkpoint(reader, job, operations, remarks);
  if (const auto time = reader.read("restart", parse_time, Zero::Allowed)) {
    operations.restart = *time;
  } else if (!reader.has("restart")) {
    assume("The time of a restart was not given: 20 minutes are taken.");
  }
  if (const auto time = reader.read("replacement", parse_time, Zero::Allowed)) {
    operations.replacement = *time;
  } else if (!reader.has("replacement")) {
    assume("The time to replace a machine was not given: a day is taken.");
  }
  if (const auto share = reader.number("shortage", {.min = 1e-6, .max = 1})) {
    operations.shortage = *share;
  }
  if (const auto factor = reader.number("facility_factor", {.min = 1, .max = 10})) {
    operations.facility_factor = *factor;
  } else if (!reader.has("facility_factor")) {
    assume("The building's overhead was not given: a power usage effectiveness of 1.57 is taken.");
  }
  if (const auto carbon = reader.number("carbon_kg_per_kwh", {.min = 0, .max = 10})) {
    operations.carbon_kg_per_kwh = *carbon;
  }
  return operations;
}

void attach_profile(MachineOffer& offer, const model::Job& job) {
  if (offer.group.gpu.name == job.profile.gpu_name) {
    offer.profile = job.profile;
    return;
  }
  model::Result<model::GpuProfile> profile = gpu_profile(offer.group.gpu);
  MEGATWIN_ASSERT(profile.has_value(), offer.group.gpu.name, ": ", to_text(profile.error()));
  offer.profile = *std::move(profile);
  offer.profile.gpu_name = offer.group.gpu.name;
}

void read_machines(MapReader& reader, const TreeNode& list,
                   const model::HardwareCatalogue& catalogue, const std::string& folder,
                   TrainingWish& wish, Remarks& remarks) {
  constexpr IntegerRange kCount{.min = 1, .max = 100'000};
  if (list.kind != TreeKind::Sequence || list.items.empty()) {
    reader.error_at(list, "machines", "is no list of machines",
                    "a list such as [{type: dgx-h100, max: 128}]");
    return;
  }
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    MapReader item(reader.context(), list.items[i],
                   reader.path_of("machines[" + std::to_string(i) + "]"));
    if (list.items[i].kind != TreeKind::Map) continue;
    MachineOffer offer;
    offer.count_min = static_cast<int>(item.integer("min", kCount).value_or(1));
    offer.count_max = static_cast<int>(
        item.integer("max", kCount).value_or(std::max(kMachinesMax, offer.count_min)));
    if (offer.count_min > offer.count_max) {
      item.error_at(*item.find("min"), "min",
                    "is more than max, " + std::to_string(offer.count_max),
                    "a whole number from 1 to " + std::to_string(offer.count_max));
    }
    std::optional<model::NodeGroup> group = read_machine_group(item, catalogue, folder, remarks);
    item.finish();
    if (!group) continue;
    offer.group = *std::move(group);
    wish.offers.push_back(std::move(offer));
  }
}

// A budget cannot be held against a machine whose price nobody knows.
void check_prices(MapReader& reader, const TrainingWish& wish) {
  if (!wish.budget) return;
  for (const MachineOffer& offer : wish.offers) {
    if (offer.group.node.price_per_hour.value > 0) continue;
    reader.error_at(*reader.find("budget"), "budget",
                    "cannot be kept: the price of " + offer.group.node.name + " is not known",
                    "give it as price_per_hour of the machine, such as 30 USD/h");
  }
}

}  // namespace

std::optional<TrainingWish> read_target(MapReader& scenario, const model::Job& job,
                                        const model::HardwareCatalogue& catalogue,
                                        const std::string& folder, Remarks& remarks) {
  const TreeNode* node = scenario.find("target");
  if (node == nullptr) return std::nullopt;
  MapReader reader(scenario.context(), *node, scenario.path_of("target"));
  TrainingWish wish;
  reader.require("tokens", "how many tokens to train on, such as 300e9");
  wish.tokens = reader.number("tokens", {.min = 1, .max = 1e18}).value_or(0);
  wish.deadline = reader.read("deadline", parse_time);
  wish.budget = reader.read("budget", parse_money);
  wish.power = reader.read("power", parse_power);
  wish.operations = read_operations(reader, job, remarks);
  if (const TreeNode* machines = reader.find("machines")) {
    read_machines(reader, *machines, catalogue, folder, wish, remarks);
  } else if (!job.cluster.groups.empty()) {
    for (const model::NodeGroup& group : job.cluster.groups) {
      wish.offers.push_back({.group = group, .profile = {}, .count_max = group.count});
    }
  }
  for (MachineOffer& offer : wish.offers) attach_profile(offer, job);
  check_prices(reader, wish);
  reader.finish();
  return wish;
}

}  // namespace megatwin::scenarios
