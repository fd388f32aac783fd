// A whole step on the real placement: equal to the closed forms where the network suffices, slower
// where it does not, with the links that are short; and what disturbances do to it.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "model/stragglers.h"
#include "sim/group_algorithm.h"
#include "sim/group_contention.h"
#include "tests/simulate/bytes_over_links.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::Seconds;
using sim::SimulationReport;

struct Layout {
  int machines = 8, tensor = 8, pipeline = 1, micro_batches = 8;
  std::string fabric = "{type: rail-optimized-fat-tree, routing: spray}";
  std::string network = "maxmin";
  std::string more;  // Further keys.
};

// GPT-3 of a few layers would not be legal everywhere: Llama 3 8B has 32 layers and 32 heads.
model::Job job_of(const Layout& layout) {
  const int data = 8 * layout.machines / (layout.tensor * layout.pipeline);
  return job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: " +
      std::to_string(layout.machines) + "}], fabric: " + layout.fabric + "}\n" +
      "software: {framework: megatron-2021}\n"
      "plan: {tensor: " +
      std::to_string(layout.tensor) + ", pipeline: " + std::to_string(layout.pipeline) +
      ", data: " + std::to_string(data) +
      ", micro_batch: 1, global_batch: " + std::to_string(layout.micro_batches * data) + "}\n" +
      "network: " + layout.network + "\n" + layout.more);
}

SimulationReport run(const Layout& layout) {
  return report_of(job_of(layout), {.sensitivities = false});
}

double step_of(Layout layout, const std::string& network) {
  layout.network = network;
  return run(layout).step_time.value;
}

// What the closed form gives the reductions alone, as bus bandwidth.
double fastest_ring(const Layout& layout) {
  const model::Job job = job_of(layout);
  return sim::GroupAlgorithms(job, build_job_program(job)).of(model::GroupKind::Data).peak.value;
}

// Nobody shares a link with anybody: a pipeline of one machine a stage, and replicas of one machine
// each on rails. The same step to the nanosecond, in closed form.
TEST(NetworkStep, IsAnalyticOnAnIdleFullBisectionNetwork) {
  for (const Layout& layout :
       {Layout{.pipeline = 8}, Layout{.pipeline = 1}, Layout{.machines = 1, .tensor = 2}}) {
    const SimulationReport flows = run(layout);
    EXPECT_EQ(flows.step_time.value, step_of(layout, "analytic")) << layout.pipeline;
    EXPECT_TRUE(flows.links.empty());
    EXPECT_EQ(flows.network, "maxmin");
  }
}

// Eight machines, each on a leaf of its own, whose way up is a quarter of its eight adapters: 100
// GB/s for the eight rings that leave it, 12.5 GB/s each, and nothing hides their reductions.
TEST(NetworkStep, SlowsOnAnOversubscribedFabricAndNamesTheLinks) {
  Layout layout;
  layout.fabric = "{type: fat-tree, nodes_per_leaf: 1, oversubscription: 4, routing: spray}";
  const model::Job job = job_of(layout);
  const SimulationReport flows = report_of(job, {.sensitivities = false});
  model::Job idle = job;
  idle.cluster.fabric.oversubscription = 1;
  const SimulationReport full = report_of(idle, {.sensitivities = false});
  EXPECT_TRUE(full.links.empty());
  EXPECT_GT(flows.step_time, full.step_time);
  ASSERT_FALSE(flows.links.empty());
  const sim::LinkLoad& worst = flows.links.front();
  EXPECT_TRUE(worst.link.starts_with("leaf") || worst.link.starts_with("spine")) << worst.link;
  EXPECT_DOUBLE_EQ(worst.capacity.value, 100e9);
  EXPECT_EQ(worst.num_users, 8);
  EXPECT_GT(worst.delay.value, 0);
  EXPECT_LE(worst.full, 1 + 1e-9);
  const double by_hand = state_time_over(idle, 12.5e9).value;
  EXPECT_NEAR(flows.breakdown.exposed_dp.value, by_hand, 5e-4 * by_hand);
}

// Cables that let through less than one adapter. Eight rings leave each machine: through a way up
// of 400 GB/s over the oversubscription, by a torus of two through half of that.
TEST(NetworkStep, SlowsByFabricCablesThatAreNarrowerThanAnAdapter) {
  struct Case {
    int machines;
    std::string fabric;
    double share;  // Of a ring, GB/s.
  };
  for (const Case& c : {Case{8, "type: fat-tree, nodes_per_leaf: 1, routing: spray", 50},
                        Case{2, "type: torus, torus: [2]", 25}}) {
    for (const double oversubscription : {2, 20, 400}) {
      Layout layout{.machines = c.machines};
      layout.fabric =
          "{" + c.fabric + ", oversubscription: " + std::to_string(oversubscription) + "}";
      const model::Job job = job_of(layout);
      const SimulationReport flows = report_of(job, {.sensitivities = false});
      // In closed form nobody that meets anybody; of the torus, whose cables closed forms know, one
      // switch less.
      layout.fabric =
          c.fabric.starts_with("type: torus") ? "{type: single-switch}" : "{" + c.fabric + "}";
      layout.network = "analytic";
      const SimulationReport full = run(layout);
      const double by_hand =
          state_time_over(job_of(layout), 1e9 * c.share / oversubscription).value;
      EXPECT_NEAR(flows.breakdown.exposed_dp.value, by_hand, 2e-4 * by_hand)
          << layout.fabric << oversubscription;
      ASSERT_FALSE(flows.links.empty());
    }
  }
}

// A torus of d dimensions gives each of a machine's 2·d cables that part of its adapters: of eight
// of 50 GB/s, 200 GB/s on a ring of four, 100 GB/s on 2 × 2 and 4 × 4. The eight rings of a machine
// all go to the next one, by one cable: on the ring of four 0-1, 1-2, 2-3, 3-0, 25 GB/s each. On 2
// × 2, x first, 0-1, 1-0-2, 2-3, 3-2-0: no cable twice the same way, 12.5 GB/s each; on 4 × 4 row
// ends go 3-0-4, the rest one step. On 3 × 2 × 2, 66.7 GB/s a cable, row ends go 2-0-3, 5-3-0-6,
// 8-6-9 and 11-9-6-0, 8.33 GB/s each. Closed forms count that, flows find it.
TEST(NetworkStep, IsAnalyticOnATorusThatNobodyElseUses) {
  struct Case {
    int machines;
    std::string torus;
    double ring;  // GB/s.
  };
  for (const Case& c : {Case{4, "[4]", 25}, Case{4, "[2, 2]", 12.5}, Case{16, "[4, 4]", 12.5},
                        Case{12, "[3, 2, 2]", 25.0 / 3}}) {
    SCOPED_TRACE(c.torus);
    Layout layout{.machines = c.machines};
    layout.fabric = "{type: torus, torus: " + c.torus + "}";
    layout.network = "analytic";
    const SimulationReport closed = run(layout);
    // Less what a collective takes to start, which flows count only where no cable takes longer.
    const double rate = fastest_ring(layout) / 1e9;
    EXPECT_LT(rate, c.ring);
    EXPECT_GT(rate, 0.93 * c.ring);
    layout.network = "maxmin";
    const SimulationReport flows = run(layout);
    EXPECT_LE(flows.step_time, closed.step_time);
    EXPECT_GT(ratio(flows.step_time / closed.step_time), 0.98);
    layout.fabric = "{type: single-switch}";
    layout.network = "analytic";
    const double alone = fastest_ring(layout) / 1e9;
    ASSERT_FALSE(flows.links.empty());
    EXPECT_NEAR(flows.links.front().slowdown, alone / c.ring, 2e-3 * alone / c.ring);
    EXPECT_GT(ratio(closed.breakdown.exposed_dp / run(layout).breakdown.exposed_dp), 1.8);
  }
}

// A stage's eight ranks send to the next machine by one cable of 200 GB/s.
TEST(NetworkStep, MessagesOnATorusGoByOneCable) {
  Layout layout{.machines = 4, .pipeline = 4};
  layout.fabric = "{type: torus, torus: [4]}";
  const double flows = step_of(layout, "maxmin"), closed = step_of(layout, "analytic");
  EXPECT_NEAR(flows / closed, 1, 2e-3);
  layout.fabric = "{type: single-switch}";
  EXPECT_GT(closed, 1.001 * step_of(layout, "analytic"));
}

// Nor does fixed hashing beat spraying, nor less of the fabric more of it.
TEST(NetworkStep, IsNoFasterOnLessOfAFabric) {
  for (const std::string fabric :
       {"type: fat-tree, nodes_per_leaf: 1, routing: spray",
        "type: fat-tree, nodes_per_leaf: 1, spines: 8, routing: ecmp",
        "type: fat-tree, nodes_per_leaf: 1, spines: 24, routing: ecmp",
        "type: rail-optimized-fat-tree, nodes_per_leaf: 2", "type: torus, torus: [2, 2, 2]",
        "type: dragonfly+, nodes_per_leaf: 1, leaves_per_pod: 2"}) {
    for (const int pipeline : {1, 4}) {
      double before = 0;
      for (const int oversubscription : {1, 2, 3, 8, 64}) {
        Layout layout{.pipeline = pipeline};
        layout.fabric =
            "{" + fabric + ", oversubscription: " + std::to_string(oversubscription) + "}";
        const double step = run(layout).step_time.value;
        EXPECT_GE(step, before) << layout.fabric;
        if (fabric.find("ecmp") != std::string::npos) {
          layout.fabric = "{type: fat-tree, nodes_per_leaf: 1, routing: spray, oversubscription: " +
                          std::to_string(oversubscription) + "}";
          EXPECT_GE(step, run(layout).step_time.value) << fabric << oversubscription;
        }
        before = step;
      }
      EXPECT_GT(before, step_of({.pipeline = pipeline}, "analytic") * 1.05) << fabric;
    }
  }
}

// 32 adapters for eight GPUs, four each: one at half its rate halves what is dealt to it, one that
// is gone leaves its part to the other three.
TEST(Disturbances, AllAdaptersOfAGpuCarryItsTraffic) {
  const auto exposed = [](const std::string& disturbance) {
    return report_of(job_from("model: {name: llama-3-8b, sequence_length: 4096}\n"
                              "cluster: {nodes: [{type: dgx-h100, count: 2, nics: 32, "
                              "nic_bandwidth: 12.5 GB/s}]}\n"
                              "software: {framework: megatron-2021}\n"
                              "plan: {tensor: 8, data: 2, micro_batch: 1, global_batch: 16}\n"
                              "network: maxmin\n" +
                              disturbance),
                     {.sensitivities = false})
        .breakdown.exposed_dp;
  };
  const Seconds plain = exposed("");
  for (const int nic : {0, 1, 3, 30}) {
    const std::string name = "n0/nic" + std::to_string(nic);
    const std::string leaf = "rail" + std::to_string(nic) + "/leaf0";
    const Seconds half = exposed("disturbances: [{kind: slow-link, from: " + name +
                                 ", to: " + leaf + ", factor: 2}]\n");
    const Seconds gone = exposed("disturbances: [{kind: dead-nic, nic: " + name + "}]\n");
    EXPECT_NEAR(ratio(half / plain), 2, 0.15) << nic;
    EXPECT_NEAR(ratio(gone / plain), 4.0 / 3, 0.1) << nic;
  }
}

// Rings inside a machine: four lanes leave a GPU for its data-parallel group, two for its pair of
// tensor-parallel ranks, and share its 450 GB/s with eight flows of another job, each as a twelfth
// and a tenth.
TEST(Disturbances, BackgroundTrafficInsideAMachineMeetsItsGroups) {
  Layout layout{.machines = 1, .tensor = 2};
  const auto sharded = [&](const std::string& traffic) {
    layout.more.clear();
    for (int flow = 0; flow < (traffic.empty() ? 0 : 8); ++flow) {
      layout.more += layout.more.empty() ? "disturbances: [" : ", ";
      layout.more += "{kind: background, from: n0/gpu0, to: n0/gpu1, rate: " + traffic + " GB/s}";
    }
    if (!layout.more.empty()) layout.more += "]\n";
    model::Job job = job_of(layout);
    job.plan.zero_stage = 1;
    return report_of(job, {.sensitivities = false}).breakdown;
  };
  const sim::StepBreakdown alone = sharded(""), busy = sharded("200"), idle = sharded("1");
  model::Job sharded_job = job_of(layout);
  sharded_job.plan.zero_stage = 1;
  const double by_hand = state_time_by_bytes(sharded_job, 4 * 450e9 / 12).value;
  EXPECT_GT(by_hand, 1.2 * alone.exposed_dp.value);
  EXPECT_NEAR(busy.exposed_dp.value, by_hand, 0.01 * by_hand);
  const double tensor = tensor_time_over(sharded_job, alone.exposed_tp, 2 * 450e9 / 10).value;
  EXPECT_GT(tensor, 1.2 * alone.exposed_tp.value);
  EXPECT_NEAR(busy.exposed_tp.value, tensor, 0.05 * tensor);
  EXPECT_NEAR(ratio(idle.exposed_dp / alone.exposed_dp), 1, 1e-6);
  EXPECT_NEAR(ratio(idle.exposed_tp / alone.exposed_tp), 1, 1e-6);
}

// Two stages whose replicas share leaves: their reductions overlap in part, so that the one that is
// last is between alone on its uplink (25 GB/s a ring) and sharing it all the time (12.5 GB/s).
TEST(NetworkStep, StagesShareWhereTheirReductionsOverlap) {
  Layout layout{.tensor = 8, .pipeline = 2};
  layout.fabric = "{type: fat-tree, nodes_per_leaf: 2, oversubscription: 4, routing: spray}";
  model::Job job = job_of(layout);
  job.plan.rank_order = "tp-cp-ep-pp-dp";
  const SimulationReport flows = report_of(job, {.sensitivities = false});
  model::Job idle = job;
  idle.cluster.fabric.oversubscription = 1;
  EXPECT_GT(flows.breakdown.exposed_dp.value, state_time_over(idle, 25e9).value);
  EXPECT_LT(flows.breakdown.exposed_dp.value, state_time_over(idle, 12.5e9).value);
}

// SimGrid and our own solver lay out the same step; skipped where it was not built.
TEST(NetworkStep, IsTheSameBySimgrid) {
  Layout layout{.machines = 4, .tensor = 4, .pipeline = 2, .micro_batches = 4};
  layout.fabric = "{type: fat-tree, nodes_per_leaf: 1, oversubscription: 8}";
  layout.network = "simgrid";
  const auto answer = sim::simulate(job_of(layout), {.sensitivities = false});
  if (const auto* refusal = std::get_if<sim::PlanRefusal>(&answer)) {
    ASSERT_EQ(refusal->code, "no_network");
    EXPECT_NE(refusal->reasons.front().find("SimGrid"), std::string::npos);
    GTEST_SKIP() << refusal->reasons.front();
  }
  const auto& simgrid = std::get<SimulationReport>(answer);
  EXPECT_GT(simgrid.network_flows, 0);
  EXPECT_NEAR(simgrid.step_time.value / step_of(layout, "maxmin"), 1, 1e-8);
}

TEST(NetworkStep, IsDeterministic) {
  Layout layout{.pipeline = 4, .micro_batches = 8};
  layout.fabric = "{type: fat-tree, nodes_per_leaf: 2, oversubscription: 2}";
  const SimulationReport a = run(layout), b = run(layout);
  EXPECT_EQ(a.step_time.value, b.step_time.value);
  EXPECT_EQ(a.network_flows, b.network_flows);
}

// One GPU of a data-parallel job, f times slower: all m micro-batches and the optimizer of its
// machine take f times as long but for collectives, and everybody waits: the step grows by
// (f − 1) · (m · kernels of a micro-batch + optimizer).
TEST(Disturbances, OneSlowGpuStretchesTheStepByItsClosedForm) {
  const double factor = 1.25;
  for (const char* network : {"analytic", "maxmin"}) {
    Layout layout;
    layout.network = network;
    layout.more = "disturbances: [{kind: slow-gpu, rank: 13, factor: 1.25}]\n";
    const model::Job job = job_of(layout);
    const SimulationReport slow = report_of(job, {.sensitivities = false});
    model::Job plain = job;
    plain.disturbances.clear();
    const model::JobProgram program = build_job_program(plain);
    Seconds kernels = program.stages[0].optimizer;
    for (const auto* price :
         {&program.stages[0].chunks[0].forward, &program.stages[0].chunks[0].backward}) {
      kernels += static_cast<double>(layout.micro_batches) * (price->compute() - price->host_bound);
    }
    ASSERT_TRUE(slow.disturbed);
    const double grown = (slow.step_time - slow.disturbed->undisturbed_step_time).value;
    // Every task is rounded to a nanosecond.
    EXPECT_NEAR(grown, (factor - 1) * kernels.value, 2e-9 * (2 * layout.micro_batches + 1));
    EXPECT_EQ(slow.disturbed->causes.front(), "slow-gpu n1/gpu5 × 1.25");
    EXPECT_NE(slow.disturbed->chain.front().find("rank 13"), std::string::npos);
    EXPECT_NE(slow.disturbed->chain.back().find("the step takes"), std::string::npos);
  }
}

// Two slow GPUs of one tensor group are no worse than the slower one; in two groups of a stage they
// are not either, since replicas wait for the slowest.
TEST(Disturbances, TheSlowestOfAGroupCounts) {
  const auto step = [](const std::string& list) {
    Layout layout;
    layout.network = "analytic";
    layout.more = "disturbances: [" + list + "]\n";
    return run(layout).step_time.value;
  };
  const std::string one = "{kind: slow-gpu, rank: 3, factor: 1.5}";
  EXPECT_EQ(step(one), step(one + ", {kind: slow-gpu, rank: 4, factor: 1.2}"));
  EXPECT_EQ(step(one), step(one + ", {kind: slow-gpu, rank: 40, factor: 1.5}"));
}

// Replicas of one GPU: each step waits for the slowest of n normal draws, μ + σ·E[max of n].
TEST(Disturbances, JitterCostsTheExpectedMaximum) {
  Layout layout{.machines = 1, .tensor = 1, .micro_batches = 1};
  layout.network = "analytic";
  layout.more = "disturbances: [{kind: jitter, deviation: 2 %}]\n";
  model::Job job = job_of(layout);
  job.plan.tensor = 1;
  double sum = 0;
  constexpr int kSeeds = 200;
  Seconds plain, kernels;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    job.seed = static_cast<std::uint64_t>(seed);
    const SimulationReport report = report_of(job, {.sensitivities = false});
    plain = report.disturbed->undisturbed_step_time;
    sum += (report.step_time - plain).value;
  }
  model::Job quiet = job;
  quiet.disturbances.clear();
  const model::JobProgram program = build_job_program(quiet);
  kernels = program.stages[0].optimizer;
  for (const auto* price :
       {&program.stages[0].chunks[0].forward, &program.stages[0].chunks[0].backward}) {
    kernels += price->compute() - price->host_bound;
  }
  const double expected =
      (model::expected_max_normal({Seconds{0}, Seconds{0.02}}, 8)).value * kernels.value;
  // The mean of 200 maxima of eight: their deviation is about 0.37 σ of 1.42 σ, a 54th of the mean.
  EXPECT_NEAR(sum / kSeeds, expected, 0.06 * expected);
}

// A cable of a quarter of the rate on the way of one ring: the reduction takes what its bytes take
// over what is left.
TEST(Disturbances, ASlowCableSlowsTheRingThatHoldsIt) {
  Layout layout;
  layout.more = "disturbances: [{kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 4}]\n";
  const model::Job job = job_of(layout);
  const SimulationReport slow = report_of(job, {.sensitivities = false});
  const double by_hand =
      state_time_over(job, job.cluster.groups[0].node.nic_per_direction.value / 4).value;
  EXPECT_NEAR(slow.breakdown.exposed_dp.value, by_hand, 0.02 * by_hand);
  ASSERT_FALSE(slow.links.empty());
  EXPECT_NE(slow.links.front().link.find("n0/nic0"), std::string::npos);
}

// Without its adapter a GPU shares its neighbour's: two rings at half the port each.
TEST(Disturbances, ADeadAdapterHalvesItsNeighbour) {
  Layout layout;
  layout.more = "disturbances: [{kind: dead-nic, nic: n3/nic2}]\n";
  const SimulationReport slow = run(layout);
  EXPECT_GT(slow.step_time, slow.disturbed->undisturbed_step_time);
  ASSERT_FALSE(slow.links.empty());
  const bool named = std::any_of(slow.links.begin(), slow.links.end(), [](const auto& load) {
    return load.link.find("n3/nic3") != std::string::npos;
  });
  EXPECT_TRUE(named);
}

// A machine without any adapter is cut off, and the refusal says by what.
TEST(Disturbances, DeadAdaptersThatCutAMachineOffAreNamed) {
  Layout layout{.machines = 2};
  layout.more = "disturbances: [";
  for (int nic = 0; nic < 8; ++nic) {
    layout.more += std::string(nic == 0 ? "" : ", ") + "{kind: dead-nic, nic: n1/nic" +
                   std::to_string(nic) + "}";
  }
  layout.more += "]\n";
  const auto answer = sim::simulate(job_of(layout), {.sensitivities = false});
  const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
  ASSERT_NE(refusal, nullptr);
  ASSERT_FALSE(refusal->reasons.empty());
  const std::string& reason = refusal->reasons.front();
  EXPECT_NE(reason.find("disturbances: dead-nic n1/nic0"), std::string::npos) << reason;
  EXPECT_NE(reason.find("dead-nic n1/nic7"), std::string::npos) << reason;
}

// Two groups on rails of their own, tensor by tensor; the one that lost its adapter joins the
// other's port. With closed forms asked for, it joined nobody. Over two machines NCCL takes trees,
// which send all bytes once each way, a quarter on each of a group's four adapters: twice that over
// the port is left.
TEST(Disturbances, ADeadAdapterIsFeltWithClosedFormsToo) {
  Layout layout{.machines = 2, .tensor = 2};
  layout.network = "analytic";
  layout.more = "disturbances: [{kind: dead-nic, nic: n1/nic2}]\n";
  const model::Job job = job_of(layout);
  const SimulationReport slow = report_of(job, {.sensitivities = false});
  EXPECT_EQ(slow.network, "maxmin");
  model::Job plain = job;
  plain.disturbances.clear();
  plain.network = model::NetworkKind::MaxMin;
  const SimulationReport before = report_of(plain, {.sensitivities = false});
  EXPECT_EQ(before.step_time.value, slow.disturbed->undisturbed_step_time.value);
  const sim::GroupAlgorithm tree =
      sim::GroupAlgorithms(plain, build_job_program(plain)).of(model::GroupKind::Data);
  EXPECT_EQ(tree.wish.algorithm, model::CollectiveAlgorithm::Tree);
  const double bytes = 2 * static_cast<double>(build_job_program(plain).stages[0].parameters.dense);
  const double by_hand = 2 * bytes / 4 / job.cluster.groups[0].node.nic_per_direction.value;
  EXPECT_GT(by_hand, 1.5 * before.breakdown.exposed_dp.value);
  EXPECT_NEAR(slow.breakdown.exposed_dp.value, by_hand, 0.01 * by_hand);
  // With PXN its traffic leaves the other machine by the adapter on that rail, so that is full,
  // too.
  const bool named = std::any_of(slow.links.begin(), slow.links.end(), [](const auto& load) {
    return load.link.find("/nic3") != std::string::npos;
  });
  EXPECT_TRUE(named);
}

// Traffic of others goes on when the step has ended; no link is more than full, and their own delay
// is not the job's: it is at most what all flows of the job together can wait in a step.
TEST(Disturbances, OthersTrafficIsNotDelayedInTheReport) {
  Layout layout;
  layout.more = "disturbances: [{kind: background, from: n0/gpu0, to: n4/gpu0, rate: 50 GB/s}]\n";
  model::Job job = job_of(layout);
  job.disturbances.front().rate = model::BytesPerSecond{500e9};  // Beyond what a file may say.
  const SimulationReport shared = report_of(job, {.sensitivities = false});
  ASSERT_FALSE(shared.links.empty());
  for (const sim::LinkLoad& load : shared.links) {
    EXPECT_LE(load.full, 1 + 1e-9) << load.link;
    EXPECT_LE(load.demand, 2.0 * load.capacity) << load.link;
    EXPECT_LT(load.delay, shared.step_time) << load.link;
  }
}

// What changes nothing says why.
TEST(Disturbances, WithoutEffectSayWhy) {
  const auto chain = [](const std::string& entry) {
    Layout layout;
    layout.more = "disturbances: [" + entry + "]\n";
    std::string lines;
    const SimulationReport report = run(layout);
    for (const std::string& line : report.disturbed->chain) lines += line + "\n";
    return lines;
  };
  const auto says = [&](const std::string& entry, const std::string& words) {
    return chain(entry).find(words) != std::string::npos;
  };
  EXPECT_TRUE(says("{kind: expert-imbalance, factor: 2}", "the model has no experts"));
  EXPECT_TRUE(says("{kind: slow-storage, bandwidth: 1 GB/s}", "none are given"));
  const std::string cable = "{kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: ";
  EXPECT_TRUE(says(cable + "1.001}", "has room for"));
  EXPECT_TRUE(says("{kind: slow-link, from: n0/pcie0, to: n0/socket0, factor: 4}",
                   "carries nothing of this job"));
  EXPECT_TRUE(says("{kind: background, from: n0/gpu0, to: n4/gpu0, rate: 1 kB/s}", "has room for"));
  EXPECT_FALSE(says(cable + "4}", "has room for"));
}

// Closed forms of collectives and the step's flows both saw the link: it stood there twice, with
// other users each time.
TEST(Disturbances, ALinkIsListedOnce) {
  Layout layout{.machines = 4, .tensor = 2, .pipeline = 2};
  layout.more = "disturbances: [{kind: slow-link, from: n3/nic2, to: rail2/leaf0, factor: 4}]\n";
  const SimulationReport slow = run(layout);
  ASSERT_FALSE(slow.links.empty());
  for (const sim::LinkLoad& load : slow.links) {
    EXPECT_EQ(std::count_if(slow.links.begin(), slow.links.end(),
                            [&](const sim::LinkLoad& l) { return l.link == load.link; }),
              1)
        << load.link;
  }
}

// Of a link that only closed forms know, delay and fullness are of one collective: the report had
// them as the step's. How many times as long its collectives take is theirs at any size: eight
// rings leave the leaf, and 100 GB/s of it are 12.5 GB/s each.
TEST(NetworkStep, ALinkOfClosedFormsSaysHowMuchLongerItsCollectivesTake) {
  Layout layout;
  layout.fabric = "{type: fat-tree, nodes_per_leaf: 1, oversubscription: 4, routing: spray}";
  model::Job job = job_of(layout);
  job.plan.zero_stage = 3;  // All of it inside tasks, so that no flow of the step is there.
  const SimulationReport report = report_of(job, {.sensitivities = false});
  const auto load = std::find_if(report.links.begin(), report.links.end(),
                                 [](const sim::LinkLoad& l) { return l.of_one_collective; });
  ASSERT_NE(load, report.links.end());
  model::Job idle = job;
  idle.cluster.fabric.oversubscription = 1;
  const double rate =
      sim::GroupAlgorithms(idle, build_job_program(idle)).of(model::GroupKind::Data).peak.value;
  EXPECT_NEAR(load->slowdown, rate / 12.5e9, 1e-3 * rate / 12.5e9);
  EXPECT_EQ(load->num_users, 8);
}

TEST(Disturbances, BackgroundTrafficTakesItsShare) {
  Layout layout;
  layout.more = "disturbances: [{kind: background, from: n0/gpu0, to: n4/gpu0, rate: 50 GB/s}]\n";
  const SimulationReport shared = run(layout);
  EXPECT_GT(shared.step_time, shared.disturbed->undisturbed_step_time);
  // An idle neighbour costs nothing.
  layout.more = "disturbances: [{kind: background, from: n0/gpu0, to: n4/gpu0, rate: 1 kB/s}]\n";
  const SimulationReport quiet = run(layout);
  EXPECT_NEAR(ratio(quiet.step_time / quiet.disturbed->undisturbed_step_time), 1, 1e-6);
}

// Collectives inside tasks meet it, too: with 45 GB/s beside them on 50, a fair half is left, as on
// a cable of half the rate. They were priced as if alone.
TEST(Disturbances, BackgroundTrafficTakesItsShareOfShardedWeights) {
  const auto step = [](const std::string& disturbance) {
    return report_of(job_from("model: {name: llama-3-8b, sequence_length: 4096}\n"
                              "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
                              "plan: {tensor: 1, data: auto, micro_batch: 1, global_batch: 32, "
                              "zero: 3, recompute: full}\n"
                              "disturbances: [{" +
                              disturbance + "}]\n"),
                     {.sensitivities = false});
  };
  const SimulationReport shared =
      step("kind: background, from: n0/gpu0, to: n1/gpu0, rate: 45 GB/s");
  const SimulationReport half = step("kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 2");
  EXPECT_GT(ratio(shared.step_time / shared.disturbed->undisturbed_step_time), 1.05);
  EXPECT_NEAR(ratio(shared.step_time / half.step_time), 1, 1e-6);
  // What is left has room for it.
  const SimulationReport quiet = step("kind: background, from: n0/gpu0, to: n1/gpu0, rate: 1 GB/s");
  EXPECT_EQ(quiet.step_time, quiet.disturbed->undisturbed_step_time);
}

TEST(Disturbances, ExpertImbalanceSlowsTheExperts) {
  const std::string text =
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
      "plan: {tensor: 2, expert: 8, data: auto, micro_batch: 1, global_batch: 64, "
      "recompute: full, zero: 1}\n";
  const SimulationReport busy =
      report_of(job_from(text + "disturbances: [{kind: expert-imbalance, factor: 1.5}]\n"),
                {.sensitivities = false});
  EXPECT_GT(busy.step_time, busy.disturbed->undisturbed_step_time);
}

}  // namespace
}  // namespace megatwin::tests
