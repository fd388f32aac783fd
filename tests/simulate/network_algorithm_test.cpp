// The flows of a step are of the algorithms that its closed forms were priced by, and an expert
// group's of its tokens: equal to the closed forms on an idle network, by hand on a short one.
#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "model/collective_cost.h"
#include "model/numbers.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "sim/group_algorithm.h"
#include "sim/group_contention.h"
#include "sim/group_lanes.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::CollectiveAlgorithm;
using model::GroupKind;
using model::RankId;
using sim::SimulationReport;

struct Made {
  int machines = 2;
  std::string plan = "tensor: 16";
  std::string fabric = "{type: rail-optimized-fat-tree, routing: spray}";
  std::string model = "llama-3-8b";
  std::string more;
  std::string network = "maxmin";
  std::string node = "type: dgx-h100";
};

model::Job job_of_made(const Made& made) {
  return job_from("model: {name: " + made.model + ", sequence_length: 4096}\n" +
                  "cluster: {nodes: [{" + made.node + ", count: " + std::to_string(made.machines) +
                  "}], fabric: " + made.fabric + "}\n" +
                  "software: {framework: megatron-2021}\nplan: {micro_batch: 1, " + made.plan +
                  "}\nnetwork: " + made.network + "\n" + made.more);
}

SimulationReport run_made(Made made, const std::string& network) {
  made.network = network;
  return report_of(job_of_made(made), {.sensitivities = false});
}

CollectiveAlgorithm algorithm_of_made(const Made& made, GroupKind kind) {
  const model::Job job = job_of_made(made);
  return sim::GroupAlgorithms(job, build_job_program(job)).of(kind).wish.algorithm;
}

const std::string kSharpRails = "{type: rail-optimized-fat-tree, routing: spray, sharp: true}";

// Tensor groups of two machines by NVLS and trees, data-parallel groups of one rank a machine by
// trees and by the switches: nobody shares a link with others, and the step is the closed form's.
TEST(GroupAlgorithm, IdleNetworkGivesTheClosedFormByEach) {
  struct Case {
    Made made;
    GroupKind kind;
    CollectiveAlgorithm algorithm;
  };
  const std::vector<Case> cases = {
      {{.plan = "tensor: 16, data: 1, global_batch: 2"},
       GroupKind::Tensor,
       CollectiveAlgorithm::NvlsTree},
      {{.machines = 4, .plan = "tensor: 2, data: 16, global_batch: 32"},
       GroupKind::Data,
       CollectiveAlgorithm::Ring},
      {{.machines = 2, .plan = "tensor: 2, data: 8, global_batch: 16"},
       GroupKind::Data,
       CollectiveAlgorithm::Tree},
      {{.machines = 8, .plan = "tensor: 8, data: 8, global_batch: 16", .fabric = kSharpRails},
       GroupKind::Data,
       CollectiveAlgorithm::CollNetDirect},
      {{.machines = 4, .plan = "tensor: 1, data: 32, global_batch: 32", .fabric = kSharpRails},
       GroupKind::Data,
       CollectiveAlgorithm::CollNetDirect},
      // 72 GPUs are no multiple of 16: the speakers of one tree are on unlike rails.
      {{.machines = 4,
        .plan = "tensor: 16, data: 18, global_batch: 288",
        .fabric = kSharpRails,
        .node = "type: gb200-nvl72"},
       GroupKind::Data,
       CollectiveAlgorithm::CollNetDirect}};
  for (const Case& c : cases) {
    EXPECT_EQ(algorithm_of_made(c.made, c.kind), c.algorithm)
        << name_of(algorithm_of_made(c.made, c.kind)) << ": " << c.made.plan;
    const SimulationReport flows = run_made(c.made, "maxmin");
    EXPECT_EQ(flows.step_time.value, run_made(c.made, "analytic").step_time.value) << c.made.plan;
    EXPECT_TRUE(flows.links.empty()) << c.made.plan;
  }
}

// By link, what a group's lanes ask of it at this rate.
std::vector<double> load_of_lanes(sim::JobNetwork& network, const std::vector<RankId>& members,
                                  const sim::GroupAlgorithm& algorithm,
                                  model::BytesPerSecond rate) {
  std::vector<double> load(static_cast<std::size_t>(network.topology().num_links()));
  const auto group = group_lanes(network, members, algorithm, rate);
  EXPECT_TRUE(group) << to_text(group.error());
  sim::LaneRoutes routes(network, group->pattern);
  for (const sim::GroupLane& lane : group->lanes) {
    const auto way = routes.way(lane);
    EXPECT_TRUE(way);
    for (const model::LinkId link : way->route.links) {
      load[static_cast<std::size_t>(link.value)] += lane.rate.value;
    }
  }
  return load;
}

// No group's lanes ask more of a link than it takes, whatever their algorithm, so that alone they
// are the closed form's. Between machines not even at the most that a closed form could let a
// machine send, its eight adapters' 400 GB/s: the middle of a double tree sends 2 S, not the mean.
TEST(GroupAlgorithm, LanesOfOneGroupFitTheirLinks) {
  for (const int machines : {2, 3, 4, 5, 8, 13}) {
    const std::string ranks = std::to_string(8 * machines);
    const model::Job job =
        job_of_made({.machines = machines,
                     .plan = "tensor: 1, data: " + ranks + ", global_batch: " + ranks,
                     .fabric = kSharpRails});
    auto network = sim::JobNetwork::build(job);
    ASSERT_TRUE(network);
    const model::Topology& topology = (*network)->topology();
    std::vector<RankId> members(model::as_index(std::int64_t{8} * machines));
    for (std::size_t r = 0; r < members.size(); ++r) members[r] = {static_cast<int>(r)};
    for (const auto algorithm :
         {CollectiveAlgorithm::Ring, CollectiveAlgorithm::Tree, CollectiveAlgorithm::NvlsTree,
          CollectiveAlgorithm::CollNetDirect}) {
      const double n = 8.0 * machines;
      const sim::GroupAlgorithm taken{
          .wish = {.kind = model::CollectiveKind::AllReduce, .algorithm = algorithm},
          .busiest = machines == 2 && algorithm != CollectiveAlgorithm::Ring ? 1 : 2 * (n - 1) / n};
      const model::Bytes large{1e9};
      const auto time =
          collective_time(model::CollectiveKind::AllReduce, large,
                          group_topology(job, GroupKind::Data), {.algorithm = algorithm})
              .time;
      const auto alone = load_of_lanes(**network, members, taken, taken.busiest * large / time);
      const auto most = load_of_lanes(**network, members, taken, {400e9});
      for (model::LinkId link; link.value < topology.num_links(); ++link.value) {
        const double fits = topology.link(link).bandwidth.value * (1 + 1e-9);
        const auto at = static_cast<std::size_t>(link.value);
        const std::string where = std::string(name_of(algorithm)) + " on " +
                                  std::to_string(machines) + ": " + topology.link_name(link);
        EXPECT_LE(alone[at], fits) << where;
        const bool between = topology.link(link).kind == model::LinkKind::Port ||
                             topology.link(link).kind == model::LinkKind::Fabric;
        if (between) {
          EXPECT_LE(most[at], fits) << where;
        }
      }
    }
  }
}

// Eight groups of one rank a machine, each reduced in the switches over its own adapters. One of
// machine 0 is dead: two groups send S each over its neighbour of 50 GB/s. Such a step was refused.
TEST(GroupAlgorithm, SharpGoesOnWithADeadAdapter) {
  Made made{.machines = 8, .plan = "tensor: 8, data: 8, global_batch: 16", .fabric = kSharpRails};
  const SimulationReport whole = run_made(made, "maxmin");
  const model::JobProgram program = build_job_program(job_of_made(made));
  made.more = "disturbances: [{kind: dead-nic, nic: n0/nic0}]\n";
  ASSERT_EQ(algorithm_of_made(made, GroupKind::Data), CollectiveAlgorithm::CollNetDirect);
  const SimulationReport dead = run_made(made, "maxmin");
  const double by_hand = 2 * 2 * static_cast<double>(program.stages[0].parameters.dense) / 50e9;
  EXPECT_GE(dead.breakdown.exposed_dp.value, by_hand * (1 - 1e-6));
  // And latencies.
  EXPECT_LT(dead.breakdown.exposed_dp.value, 1.02 * by_hand);
  EXPECT_GT(dead.breakdown.exposed_dp.value, 1.05 * whole.breakdown.exposed_dp.value);
}

// Eight machines, each on a leaf of its own whose way up is a quarter of its adapters, 100 GB/s. A
// data-parallel group of each of eight tensor ranks reduces S in the switches: it crosses every way
// up once, eight groups 8 S, while closed forms take T(S) for it. Rings would cross it with
// 2 · 7/8 · S each. Time: 8 S over 100 GB/s.
TEST(GroupAlgorithm, SharpNeedsLessOfAShortFabric) {
  Made made{.machines = 8,
            .plan = "tensor: 8, data: 8, global_batch: 16",
            .fabric = "{type: fat-tree, nodes_per_leaf: 1, oversubscription: 4, routing: spray"};
  Made rings = made;
  made.fabric += ", sharp: true}";
  rings.fabric += "}";
  const SimulationReport sharp = run_made(made, "maxmin"), ring = run_made(rings, "maxmin");
  ASSERT_EQ(algorithm_of_made(made, GroupKind::Data), CollectiveAlgorithm::CollNetDirect);
  ASSERT_EQ(algorithm_of_made(rings, GroupKind::Data), CollectiveAlgorithm::Ring);
  const model::JobProgram program = build_job_program(job_of_made(made));
  const double bytes = 2 * static_cast<double>(program.stages[0].parameters.dense);
  const double by_hand = 8 * bytes / 100e9;
  EXPECT_GE(sharp.breakdown.exposed_dp.value, by_hand * (1 - 1e-6));
  // And latencies.
  EXPECT_LT(sharp.breakdown.exposed_dp.value, 1.01 * by_hand);
  ASSERT_FALSE(sharp.links.empty());
  EXPECT_NEAR(ratio(ring.breakdown.exposed_dp / sharp.breakdown.exposed_dp), 2 * 7.0 / 8, 0.05);
}

// SimGrid lays the same flows out; skipped where it was not built.
TEST(GroupAlgorithm, IsTheSameBySimgrid) {
  const std::string fabric =
      "{type: fat-tree, nodes_per_leaf: 1, oversubscription: 4, sharp: true}";
  for (const Made& made :
       {Made{.machines = 4, .plan = "tensor: 4, data: 8, global_batch: 16", .fabric = fabric},
        Made{.machines = 4, .plan = "tensor: 16, data: 2, global_batch: 4", .fabric = fabric}}) {
    Made asked = made;
    asked.network = "simgrid";
    const auto answer = sim::simulate(job_of_made(asked), {.sensitivities = false});
    if (const auto* refusal = std::get_if<sim::PlanRefusal>(&answer)) {
      ASSERT_EQ(refusal->code, "no_network");
      GTEST_SKIP() << refusal->reasons.front();
    }
    const auto& simgrid = std::get<SimulationReport>(answer);
    EXPECT_FALSE(simgrid.links.empty()) << made.plan;
    EXPECT_NEAR(ratio(simgrid.step_time / run_made(made, "maxmin").step_time), 1, 1e-8);
  }
}

// Eight expert ranks, one a machine of one GPU. A leaf lets 12.5 GB/s up and down.
Made expert_job(const std::string& imbalance) {
  return {.machines = 8,
          .plan = "tensor: 1, expert: 8, data: 8, global_batch: 16, recompute: full",
          .fabric = "{type: fat-tree, nodes_per_leaf: 1, oversubscription: 4, routing: spray}",
          .model = "mixtral-8x7b",
          .more = imbalance.empty()
                      ? ""
                      : "disturbances: [{kind: expert-imbalance, " + imbalance + "}]\n",
          .node = "type: dgx-h100, gpus: 1, nics: 1"};
}

model::Bytes all_to_all_bytes(const model::Job& job) {
  const model::JobProgram program = build_job_program(job);
  model::Bytes bytes;
  for (const auto* ops :
       {&program.stages[0].chunks[0].ops->forward, &program.stages[0].chunks[0].ops->backward}) {
    for (const model::MicroOp& op : *ops) {
      if (op.kind == model::MicroOpKind::Collective &&
          op.collective == model::CollectiveKind::AllToAll) {
        bytes += static_cast<double>(op.count) * op.bytes;
      }
    }
  }
  return static_cast<double>(job.plan.num_micro_batches()) * bytes;
}

// The first rank gets k times the mean. A leaf lets down what its GPU gets from the seven others, k
// · 7/8 of a GPU's bytes over 12.5 GB/s, and the busiest's decides. The messages' own start, a few
// µs each, is beside that.
TEST(ExpertTokens, TheLoadedRanksDownlinkDecides) {
  const model::Job even = job_of_made(expert_job(""));
  const double bytes = all_to_all_bytes(even).value;
  for (const double k : {1.0, 2.0, 3.0}) {
    const SimulationReport report =
        run_made(expert_job(k > 1 ? "factor: " + std::to_string(k) : std::string()), "maxmin");
    const double by_hand = k * 7 / 8 * bytes / 12.5e9;
    EXPECT_NEAR(report.breakdown.exposed_ep.value, by_hand, 0.03 * by_hand) << k;
  }
}

std::string table_of(int busy, double k) {
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    rows += rows.empty() ? "[[" : ", [";
    for (int j = 0; j < 8; ++j) {
      rows += (j == 0 ? "" : ", ") + std::to_string(j == busy ? 100 * k : 100 * (8 - k) / 7);
    }
    rows += "]";
  }
  return "tokens: " + rows + "]";
}

// The same by a table, whichever rank it names; the short link is that rank's.
TEST(ExpertTokens, ATableSaysWhoseDownlinkItIs) {
  const SimulationReport factor = run_made(expert_job("factor: 2"), "maxmin");
  for (const int busy : {0, 3, 7}) {
    const SimulationReport table = run_made(expert_job(table_of(busy, 2)), "maxmin");
    EXPECT_NEAR(ratio(table.step_time / factor.step_time), 1, 1e-6) << busy;
    ASSERT_GE(table.links.size(), 2U);
    EXPECT_EQ(table.links[0].link, "spine0 -> leaf" + std::to_string(busy));
    EXPECT_LT(table.links[1].delay, 0.5 * table.links[0].delay) << table.links[1].link;
  }
}

// Rank 0 gets three times the mean, the others 5/7 of it. The adapter of rank 5 at half its rate
// has room for that; that of rank 0 does not: three times 7/8 of a GPU's bytes over 25 GB/s.
TEST(ExpertTokens, OnlyTheLoadedRanksAdapterMustBeWhole) {
  Made made = expert_job("");
  made.fabric = "{type: rail-optimized-fat-tree, routing: spray}";
  const auto exposed = [&](const std::string& slow) {
    made.more = "disturbances: [{kind: expert-imbalance, factor: 3}" + slow + "]\n";
    return run_made(made, "maxmin").breakdown.exposed_ep;
  };
  const auto slow_link = [](int rank) {
    return ", {kind: slow-link, from: n" + std::to_string(rank) +
           "/nic0, to: rail0/leaf0, factor: 2}";
  };
  const auto whole = exposed("");
  EXPECT_EQ(exposed(slow_link(5)), whole);
  made.more.clear();
  const double by_hand = 3.0 * 7 / 8 * all_to_all_bytes(job_of_made(made)).value / 25e9;
  EXPECT_GT(by_hand, 1.5 * whole.value);
  EXPECT_NEAR(exposed(slow_link(0)).value, by_hand, 0.03 * by_hand);
}

// Two machines of four GPUs, each with its adapter of 50 GB/s, and a group of all eight.
Made table_job(const std::string& tokens) {
  Made made = expert_job(tokens.empty() ? "" : "tokens: " + tokens);
  made.machines = 2;
  made.fabric = "{type: rail-optimized-fat-tree, routing: spray}";
  made.node = "type: dgx-h100, gpus: 4, nics: 4";
  return made;
}

// Of eight ranks, 1 from i to j where `sends` says so.
template <class Sends>
std::string table_where(Sends sends) {
  std::string rows;
  for (int i = 0; i < 8; ++i) {
    rows += i == 0 ? "[[" : ", [";
    for (int j = 0; j < 8; ++j) rows += (j == 0 ? "" : ", ") + std::to_string(sends(i, j) ? 1 : 0);
    rows += "]";
  }
  return rows + "]";
}

// Every rank sends all its bytes to the rank of its number on the other machine: they all pass its
// adapter, of which NCCL's all-to-all gets 88 % of 97 %. Evenly half of them do, so that it takes
// half the time. On the idle network that is the step by flows as well.
TEST(ExpertTokens, APermutationPaysForItsAdapters) {
  const std::string across = table_where([](int i, int j) { return j == (i + 4) % 8; });
  const double bytes = all_to_all_bytes(job_of_made(table_job(""))).value;
  const double by_hand = bytes / (50e9 * 0.97 * 0.88);
  for (const char* network : {"analytic", "maxmin"}) {
    const SimulationReport table = run_made(table_job(across), network);
    EXPECT_GE(table.breakdown.exposed_ep.value, bytes / 50e9) << network;
    EXPECT_NEAR(table.breakdown.exposed_ep.value, by_hand, 0.03 * by_hand) << network;
    const SimulationReport even = run_made(table_job(""), network);
    EXPECT_NEAR(even.breakdown.exposed_ep.value, by_hand / 2, 0.03 * by_hand) << network;
    EXPECT_TRUE(table.links.empty()) << network;
  }
}

// A slow cable of rank 0's at 1/k of its rate: what it sends takes k times as long as at the rate
// of the others, less what NCCL leaves of it.
TEST(ExpertTokens, APermutationMeetsASlowAdapter) {
  const std::string across = table_where([](int i, int j) { return j == (i + 4) % 8; });
  Made made = table_job(across);
  const double whole = run_made(made, "maxmin").breakdown.exposed_ep.value;
  made.more = "disturbances: [{kind: expert-imbalance, tokens: " + across +
              "}, {kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 4}]\n";
  const double slower = run_made(made, "maxmin").breakdown.exposed_ep.value / whole;
  EXPECT_NEAR(slower, 4 * 0.97 * 0.88, 0.03 * 4);
}

// All traffic stays on its machine: the all-to-all of one machine's four ranks of as many bytes,
// which sends each of the three others a quarter, as the table does.
TEST(ExpertTokens, TrafficThatStaysOnItsMachineIsPricedThere) {
  const Made made = table_job(table_where([](int i, int j) { return i / 4 == j / 4; }));
  const model::Job job = job_of_made(made);
  const model::NodeGroup& machine = job.cluster.groups.front();
  const auto inside = group_topology({.ranks = 4, .ranks_per_node = 4}, machine.node, machine.gpu,
                                     job.cluster.fabric, job.profile);
  double by_hand = 0;
  const model::JobProgram program = build_job_program(job_of_made(table_job("")));
  for (const auto* ops :
       {&program.stages[0].chunks[0].ops->forward, &program.stages[0].chunks[0].ops->backward}) {
    for (const model::MicroOp& op : *ops) {
      if (op.kind != model::MicroOpKind::Collective || op.group != GroupKind::Expert) continue;
      by_hand += op.count * collective_time(op.collective, op.bytes, inside).time.value;
    }
  }
  by_hand *= static_cast<double>(job.plan.num_micro_batches());
  for (const char* network : {"analytic", "maxmin"}) {
    const double exposed = run_made(made, network).breakdown.exposed_ep.value;
    EXPECT_NEAR(exposed, by_hand, 0.01 * by_hand) << network;
    const double even = run_made(table_job(""), network).breakdown.exposed_ep.value;
    EXPECT_LT(exposed, 0.5 * even) << network;
  }
}

// A table of equal numbers is no table.
TEST(ExpertTokens, AnEvenTableChangesNothing) {
  const Made made = table_job(table_where([](int, int) { return true; }));
  for (const char* network : {"analytic", "maxmin"}) {
    EXPECT_EQ(run_made(made, network).step_time.value,
              run_made(table_job(""), network).step_time.value)
        << network;
  }
}

// An idle network gives the closed form, which has the busiest rank's all-to-all as well.
TEST(ExpertTokens, IdleNetworkGivesTheClosedForm) {
  for (const std::string& imbalance : {std::string("factor: 2"), table_of(5, 3)}) {
    Made made = expert_job(imbalance);
    made.fabric = "{type: rail-optimized-fat-tree, routing: spray}";
    const SimulationReport flows = run_made(made, "maxmin");
    EXPECT_EQ(flows.step_time.value, run_made(made, "analytic").step_time.value);
    made.more.clear();
    const double even = run_made(made, "analytic").breakdown.exposed_ep.value;
    const double factor = imbalance.starts_with("factor") ? 2 : 3;
    EXPECT_NEAR(flows.breakdown.exposed_ep.value, factor * even, 0.05 * factor * even);
  }
}

// Machines in one: the same bytes into and out of every adapter as pair by pair, also unevenly.
TEST(ExpertTokens, RailLanesLoadAdaptersAsPairsDo) {
  const model::Job job =
      job_of_made({.machines = 3, .plan = "tensor: 8, data: 3, global_batch: 3"});
  auto network = sim::JobNetwork::build(job);
  ASSERT_TRUE(network);
  std::vector<RankId> members;
  sim::PairWeights weights;
  for (int r = 0; r < 24; ++r) {
    members.push_back({r});
    weights.emplace_back();
    for (int to = 0; to < 24; ++to) weights.back().push_back(0.1 * ((3 * r + 7 * to) % 11));
  }
  const auto load = [&](const std::vector<sim::GroupLane>& lanes) {
    std::map<std::string, double> rates;
    for (const sim::GroupLane& lane : lanes) {
      const auto way = (*network)->way(lane.key);
      for (const model::LinkId link : way->route.links) {
        if ((*network)->topology().link(link).kind != model::LinkKind::Port) continue;
        rates[(*network)->topology().link_name(link)] += lane.rate.value;
      }
    }
    return rates;
  };
  for (const sim::PairWeights& taken : {sim::PairWeights{}, weights}) {
    const auto pairs = load(pair_lanes(**network, members, {1e9}, taken));
    const auto rails = rail_lanes(**network, members, {1e9}, taken);
    EXPECT_EQ(rails.size(), 24U * 2);
    EXPECT_EQ(pairs.size(), 48U);
    for (const auto& [link, rate] : load(rails)) EXPECT_NEAR(rate, pairs.at(link), 1) << link;
  }
}

}  // namespace
}  // namespace megatwin::tests
