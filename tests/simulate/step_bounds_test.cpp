// No step over a network is faster than the bytes of its groups through the narrowest cut that they
// cross, whatever the group's size, its algorithm and how it lies over machines.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/data_parallel.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "model/rank_layout.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::GroupKind;
using sim::SimulationReport;

SimulationReport run_text(const std::string& text, const std::string& network) {
  return report_of(job_from(text + "network: " + network + "\n"), {.sensitivities = false});
}

// Llama 3 8B, all data-parallel, each machine on a leaf of its own.
std::string replicas(int machines, int oversubscription, int zero, const std::string& more) {
  const std::string gpus = std::to_string(8 * machines);
  return "model: {name: llama-3-8b, sequence_length: 4096}\n"
         "cluster: {nodes: [{type: dgx-h100, count: " +
         std::to_string(machines) +
         "}], fabric: {type: fat-tree, nodes_per_leaf: 1, routing: spray, oversubscription: " +
         std::to_string(oversubscription) +
         "}}\n"
         "plan: {data: " +
         gpus + ", micro_batch: 1, global_batch: " + gpus + ", zero: " + std::to_string(zero) +
         ", recompute: full, overlap_grad_reduce: false, overlap_param_gather: false}\n" + more;
}

// What must leave a machine, by any algorithm whose sums are made by the GPUs: of an all-gather
// what the others have not, (m − 1)/m, and as much of a reduce-scatter; of an all-reduce its sum
// once.
double least_leaving(const model::Job& job, int machines) {
  const model::JobProgram program = build_job_program(job);
  const auto parameters = static_cast<double>(program.stages.front().parameters.dense);
  const model::GradientReduction reduction = gradient_reduction(job);
  const double part = (machines - 1.0) / machines;
  const bool all = reduction.kind == model::CollectiveKind::AllReduce;
  const double reduced = (all ? 1 : part) * parameters * reduction.per_parameter.value;
  return reduced + (job.plan.zero_stage >= 1 ? part * parameters * 2 : 0);
}

TEST(StepBounds, ReductionsTakeTheirBytesOverTheNarrowestCut) {
  for (const int machines : {2, 8, 32, 64}) {
    for (const int oversubscription : {1, 4, 16}) {
      for (const int slow : {1, 4, 16}) {
        for (const int zero : {0, 1}) {
          const std::string text =
              replicas(machines, oversubscription, zero,
                       slow == 1 ? ""
                                 : "disturbances: [{kind: slow-link, from: n0/nic0, to: leaf0, "
                                   "factor: " +
                                       std::to_string(slow) + "}]\n");
          const SimulationReport report = run_text(text, "maxmin");
          // Of eight adapters of 50 GB/s; rings and trees give each its equal part.
          const double cut = 400e9 / std::max(oversubscription, slow);
          const double bound = least_leaving(job_from(text), machines) / cut;
          EXPECT_GE(report.breakdown.exposed_dp.value, bound * (1 - 1e-6)) << text;
        }
      }
    }
  }
}

// One machine whose first GPU has a share of its NVLink: switches add what all send once, gathers
// bring (n − 1)/n of all; frameworks that reduce whole gradients under ZeRO 1 do both.
TEST(StepBounds, InsideAMachineTheyTakeTheirBytesOverItsNvlink) {
  for (const char* machine : {"hgx-h200", "dgx-b200", "dgx-a100-80g"}) {
    for (const char* framework : {"megatron-core", "megatron-2021", "megatron-deepspeed"}) {
      for (const int factor : {4, 16, 64}) {
        const std::string text =
            std::string(
                "model: {name: llama-3-8b, sequence_length: 4096}\ncluster: {nodes: [{type: ") +
            machine + ", count: 1}]}\nsoftware: {framework: " + framework +
            "}\nplan: {data: 8, micro_batch: 1, global_batch: 8, zero: 1, recompute: full, "
            "overlap_grad_reduce: false, overlap_param_gather: false}\n"
            "disturbances: [{kind: slow-link, from: n0/gpu0, to: n0/nvswitch0, factor: " +
            std::to_string(factor) + "}]\n";
        const model::Job job = job_from(text);
        const model::JobProgram program = build_job_program(job);
        const auto parameters = static_cast<double>(program.stages.front().parameters.dense);
        const model::GradientReduction reduction = gradient_reduction(job);
        const bool all = reduction.kind == model::CollectiveKind::AllReduce;
        const double sent = (all ? 1 : 7.0 / 8) * parameters * reduction.per_parameter.value +
                            7.0 / 8 * parameters * 2;
        const double left = job.cluster.groups[0].gpu.nvlink_per_direction.value / factor;
        const SimulationReport report = report_of(job, {.sensitivities = false});
        EXPECT_GE(report.breakdown.exposed_dp.value, sent / left * (1 - 1e-6)) << text;
      }
    }
  }
}

// Without a disturbance the closed forms know the oversubscription as well: the flows' answer is
// theirs to a few percent, at every size: every ring leaves its leaf at every machine.
TEST(StepBounds, ClosedFormsKnowTheOversubscriptionAsFlowsDo) {
  for (const int machines : {8, 32, 64}) {
    for (const int oversubscription : {2, 4, 16}) {
      const std::string text = replicas(machines, oversubscription, 1, "");
      const double flows = run_text(text, "maxmin").breakdown.exposed_dp.value;
      const double closed = run_text(text, "analytic").breakdown.exposed_dp.value;
      EXPECT_NEAR(flows / closed, 1, 0.1) << text;
    }
  }
}

// Traffic that hides behind compute hides only as long as it is short.
TEST(StepBounds, HiddenTrafficComesOutWhereItsLinkIsSlow) {
  const auto step = [](int factor) {
    return run_text(
               "model: {name: llama-3-8b, sequence_length: 4096}\n"
               "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"

               "plan: {tensor: 8, data: 2, micro_batch: 1, global_batch: 4, sequence_parallel: "
               "true, overlap_tensor_parallel: true}\ndisturbances: [{kind: slow-link, from: "
               "n0/gpu0, to: n0/nvswitch0, factor: " +
                   std::to_string(factor) + "}]\n",
               "maxmin")
        .step_time.value;
  };
  EXPECT_GT(step(64), 4 * step(4));
}

// Mixtral whose experts are cut over eight ranks of two machines; a leaf lets an eighth up.
std::string expert_tensor(const std::string& fabric, const std::string& more) {
  return "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
         "cluster: {nodes: [{type: dgx-h200, gpus: 4, nics: 4, count: 2}], fabric: " +
         fabric +
         "}\n"
         "plan: {tensor: 1, expert: 1, expert_tensor: 8, data: 8, micro_batch: 1, global_batch: 8, "
         "zero: 1, recompute: full}\n" +
         more;
}

TEST(StepBounds, ExpertTensorGroupsMeetTheFabric) {
  const std::string wide = "{type: fat-tree, nodes_per_leaf: 1, routing: spray}";
  const std::string narrow =
      "{type: fat-tree, nodes_per_leaf: 1, routing: spray, oversubscription: 8}";
  const double plain = run_text(expert_tensor(wide, ""), "maxmin").breakdown.exposed_ep.value;
  const double short_leaf =
      run_text(expert_tensor(narrow, ""), "maxmin").breakdown.exposed_ep.value;
  const double closed = run_text(expert_tensor(narrow, ""), "analytic").breakdown.exposed_ep.value;
  EXPECT_GT(short_leaf, 4 * plain);
  EXPECT_NEAR(short_leaf / closed, 1, 0.1);
  const std::string cable =
      "disturbances: [{kind: slow-link, from: n0/nic0, to: leaf0, factor: 50}]\n";
  EXPECT_GT(run_text(expert_tensor(wide, cable), "maxmin").breakdown.exposed_ep.value, 20 * plain);
}

// Eight experts on the GPUs of one machine, one of which has a hundredth of its NVLink.
TEST(StepBounds, ExpertGroupsMeetSlowNvlink) {
  const std::string text =
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 4}]}\n"
      "plan: {pipeline: 4, expert: 8, data: 8, micro_batch: 1, global_batch: 32, zero: 1, "
      "recompute: full}\n";
  const std::string slow =
      "disturbances: [{kind: slow-link, from: n0/gpu0, to: n0/nvswitch0, factor: 100}]\n";
  const SimulationReport plain = run_text(text, "maxmin"), slowed = run_text(text + slow, "maxmin");
  EXPECT_EQ(plain.breakdown.exposed_ep.value,
            run_text(text, "analytic").breakdown.exposed_ep.value);
  ASSERT_EQ(slowed.critical_stage, 0);
  EXPECT_GT(slowed.breakdown.exposed_ep.value, 20 * plain.breakdown.exposed_ep.value);
}

// Six GPUs a stage on machines of eight: the stages in the middle reduce over two machines, the
// others inside one. Each runs what suits it.
TEST(StepBounds, GroupsThatLieOtherwiseAreNotRefused) {
  for (const char* more :
       {"", "disturbances: [{kind: slow-link, from: n0/gpu0, to: n0/nvswitch0, factor: 4}]\n"}) {
    const std::string text =
        std::string(
            "model: {name: llama-3-8b, sequence_length: 4096}\n"
            "cluster: {nodes: [{type: dgx-h100, count: 3}]}\n"
            "plan: {pipeline: 4, data: 6, micro_batch: 1, global_batch: 48, zero: 0, recompute: "
            "full}\n") +
        more;
    EXPECT_GT(run_text(text, "maxmin").step_time.value, 0) << more;
  }
}

// Tensor groups of four on machines of six: ranks 4 to 7 are two and two, and all wait for them. On
// machines of two all groups are.
TEST(StepBounds, TheWorstOfGroupsThatDoNotNestCounts) {
  const auto exposed = [](int gpus, const std::string& network) {
    return run_text(
               "model: {name: llama-3-8b, sequence_length: 4096}\n"
               "cluster: {nodes: [{type: dgx-h100, gpus: " +
                   std::to_string(gpus) + ", nics: " + std::to_string(gpus) +
                   ", count: " + std::to_string(24 / gpus) +
                   "}], fabric: {type: rail-optimized-fat-tree, routing: spray}}\n"
                   "plan: {tensor: 4, data: 6, micro_batch: 1, global_batch: 24, zero: 1}\n",
               network)
        .breakdown.exposed_tp.value;
  };
  for (const char* network : {"analytic", "maxmin"}) {
    EXPECT_GT(exposed(6, network), 2 * exposed(8, network)) << network;
    EXPECT_NEAR(exposed(6, network) / exposed(2, network), 1, 0.05) << network;
  }
}

// By hand: machines of six, groups of four in order: 0-3 | 4-5, 6-7 | 8-11 | 12-15 | 16-17, 18-19 …
// Of those over two machines each machine has members of one.
TEST(RankLayout, SpreadsTellApartGroupsThatDoNotNest) {
  model::Plan plan;
  plan.tensor = 4;
  plan.data = 6;
  const model::RankLayout layout(plan);
  const std::vector<model::GroupSpread> spreads = layout.spreads(GroupKind::Tensor, 6);
  ASSERT_EQ(spreads.size(), 2U);
  EXPECT_EQ(spreads[0].num_nodes, 1);
  EXPECT_EQ(spreads[0].ranks_per_node, 4);
  EXPECT_EQ(spreads[1].num_nodes, 2);
  EXPECT_EQ(spreads[1].ranks_per_node, 2);
  EXPECT_EQ(spreads[1].groups_per_node, 1);
  EXPECT_EQ(layout.spreads(GroupKind::Tensor, 8).size(), 1U);
  EXPECT_EQ(layout.spreads(GroupKind::Data, 8).size(), 1U);
}

// Machines of 72 and tensor groups of 16 repeat after 144 ranks: groups 0 to 8, of which the fifth
// (64 to 79) alone is on two machines, eight and eight. A plain count over all 16,416 ranks.
TEST(RankLayout, SpreadsOfARepeatingPatternAreThoseOfAllItsRanks) {
  model::Plan plan;
  plan.tensor = 16;
  plan.pipeline = 6;
  plan.data = 171;
  const model::RankLayout layout(plan);
  for (const GroupKind kind : {GroupKind::Tensor, GroupKind::Data}) {
    std::set<std::pair<int, int>> counted;  // Machines, members on the fullest.
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      if (layout.leader(kind, {rank}).value != rank) continue;
      std::map<int, int> on;
      for (const model::RankId member : layout.members(kind, {rank})) ++on[member.value / 72];
      int most = 0;
      for (const auto& [machine, count] : on) most = std::max(most, count);
      counted.emplace(static_cast<int>(on.size()), most);
    }
    std::set<std::pair<int, int>> told;
    for (const model::GroupSpread& spread : layout.spreads(kind, 72)) {
      told.emplace(spread.num_nodes, spread.ranks_per_node);
    }
    EXPECT_EQ(told, counted);
  }
  EXPECT_EQ(layout.spreads(GroupKind::Tensor, 72).size(), 2U);
}

// Stages of 16 machines inside leaves of 32: their reductions cross no spine, whatever the job's
// size; with leaves of 8 they do.
TEST(StepBounds, OnlyGroupsThatCrossLeavesPayForTheSpine) {
  const auto exposed = [](int per_leaf, int oversubscription, const std::string& network) {
    return run_text(
               "model: {name: llama-3-8b, sequence_length: 4096}\n"
               "cluster: {nodes: [{type: dgx-h100, count: 64}], fabric: {type: fat-tree, routing: "
               "spray, nodes_per_leaf: " +
                   std::to_string(per_leaf) +
                   ", oversubscription: " + std::to_string(oversubscription) +
                   "}}\n"
                   "plan: {tensor: 8, pipeline: 4, data: 16, micro_batch: 1, global_batch: 128, "
                   "zero: 1, overlap_grad_reduce: false, overlap_param_gather: false}\n",
               network)
        .breakdown.exposed_dp.value;
  };
  for (const char* network : {"analytic", "maxmin"}) {
    const double whole = exposed(32, 1, network);
    EXPECT_NEAR(exposed(32, 16, network) / whole, 1, 1e-3) << network;
    EXPECT_GT(exposed(8, 16, network), 1.9 * whole) << network;
  }
  // Only one machine of a leaf's eight sends up: eight rings share 8 · 400 / 16 GB/s. Closed forms
  // take it that all do.
  EXPECT_NEAR(exposed(8, 16, "maxmin") / exposed(32, 1, "maxmin"), 2, 0.1);
}

}  // namespace
}  // namespace megatwin::tests
