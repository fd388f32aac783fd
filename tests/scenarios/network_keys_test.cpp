// The keys of the fabric, of disturbances and of failures: what they become, and what is refused.
#include <gtest/gtest.h>

#include "model/topology/fabric_topology.h"
#include "scenarios/scenario.h"

namespace megatwin::scenarios {
namespace {

const std::string kModel = "model: {name: llama-3-8b, sequence_length: 4096}\n";
const std::string kPlan = "plan: {tensor: 8, data: auto, micro_batch: 1, global_batch: 64}\n";

model::Result<Scenario> read(const std::string& fabric, const std::string& more = "") {
  return parse_scenario(
      "test.yaml", kModel + "cluster: {nodes: [{type: dgx-h100, count: 8}], fabric: " + fabric +
                       "}\n" + kPlan + more);
}

model::Job job_of(const std::string& fabric, const std::string& more = "") {
  auto scenario = read(fabric, more);
  EXPECT_TRUE(scenario) << (scenario ? "" : to_text(scenario.error()));
  return scenario ? scenario->jobs.front() : model::Job{};
}

std::string faults(const std::string& fabric, const std::string& more = "") {
  const auto scenario = read(fabric, more);
  return scenario ? "" : to_text(scenario.error());
}

int count(const model::Topology& topology, model::VertexKind kind) {
  int number = 0;
  for (model::VertexId id; id.value < topology.num_vertices(); ++id.value) {
    number += topology.vertex(id).kind == kind ? 1 : 0;
  }
  return number;
}

// Eight machines, one a leaf; two leaves a pod, three spines a pod, two cores a spine of a plane.
TEST(FabricKeys, BuildThreeLevels) {
  const model::Job job = job_of(
      "{type: fat-tree, levels: 3, nodes_per_leaf: 1, leaves_per_pod: 2, spines: 3, "
      "cores_per_spine: 2, routing: ecmp}");
  const auto topology = build_topology(job.cluster);
  ASSERT_TRUE(topology) << to_text(topology.error());
  EXPECT_EQ(count(*topology, model::VertexKind::Leaf), 8);
  EXPECT_EQ(count(*topology, model::VertexKind::Spine), 4 * 3);
  EXPECT_EQ(count(*topology, model::VertexKind::Core), 3 * 2);
}

TEST(FabricKeys, SprayMakesTheSpinesOne) {
  const model::Job job = job_of("{type: fat-tree, nodes_per_leaf: 2, routing: spray}");
  EXPECT_EQ(count(*build_topology(job.cluster), model::VertexKind::Spine), 1);
}

// Where it is not given, the network of the machines says it: InfiniBand up to HDR routes
// statically (dgx-a100-80g), NDR does not have to (dgx-h100).
TEST(FabricKeys, RoutingIsThatOfTheMachines) {
  const auto spines = [](const std::string& type, const std::string& routing) {
    const auto scenario =
        parse_scenario("test.yaml", kModel + "cluster: {nodes: [{type: " + type +
                                        ", count: 8}], fabric: {type: fat-tree, nodes_per_leaf: 2" +
                                        routing + "}}\n" + kPlan);
    EXPECT_TRUE(scenario) << (scenario ? "" : to_text(scenario.error()));
    return scenario
               ? count(*build_topology(scenario->jobs.front().cluster), model::VertexKind::Spine)
               : -1;
  };
  EXPECT_EQ(spines("dgx-h100", ""), 1);
  EXPECT_EQ(spines("dgx-a100-80g", ""), 16);
  EXPECT_EQ(spines("dgx-h100", ", routing: ecmp"), 16);
  EXPECT_EQ(spines("dgx-a100-80g", ", routing: spray"), 1);
}

TEST(FabricKeys, ATorusHoldsItsMachines) {
  const model::Job job = job_of("{type: torus, torus: [4, 2]}");
  EXPECT_EQ(count(*build_topology(job.cluster), model::VertexKind::Router), 8);
  EXPECT_NE(faults("{type: torus, torus: [3, 2]}").find("does not hold 8 machines"),
            std::string::npos);
  EXPECT_NE(faults("{type: fat-tree, torus: [4, 2]}").find("is no torus"), std::string::npos);
}

TEST(FabricKeys, RefuseWhatMeansNothing) {
  EXPECT_NE(faults("{type: single-switch, spines: 4}").find("means nothing"), std::string::npos);
  EXPECT_NE(faults("{type: fat-tree, levels: 1}").find("single switch"), std::string::npos);
  EXPECT_NE(faults("{type: fat-tree, routing: adaptive}").find("allowed: ecmp, spray"),
            std::string::npos);
  EXPECT_NE(faults("{type: dragonfly+, leafs_per_pod: 2}").find("leaves_per_pod"),
            std::string::npos);
}

model::Diagnostic only_fault(const model::Result<Scenario>& scenario) {
  EXPECT_FALSE(scenario);
  if (scenario) return {};
  EXPECT_EQ(scenario.error().size(), 1U) << to_text(scenario.error());
  return scenario.error().front();
}

TEST(FabricKeys, SayWhatIsAllowedWhereTheyAreWrong) {
  for (const char* levels : {"0", "4"}) {
    const model::Diagnostic fault =
        only_fault(read("{type: fat-tree, levels: " + std::string(levels) + "}"));
    EXPECT_EQ(fault.key, "cluster.fabric.levels");
    EXPECT_EQ(fault.allowed, "a whole number from 2 to 3");
  }
  const model::Diagnostic alone = only_fault(read("{type: fat-tree, uplink: 50 GB/s}"));
  EXPECT_EQ(alone.key, "cluster.fabric.uplink");
  EXPECT_EQ(alone.message, "means nothing without from");
  const model::Diagnostic none = only_fault(read("{from: ''}"));
  EXPECT_EQ(none.key, "cluster.fabric.from");
  EXPECT_EQ(none.message, "names no file");
  const model::Diagnostic machine = only_fault(parse_scenario(
      "test.yaml", kModel + "cluster: {nodes: [{type: dgx-h100, topology: ''}]}\n" + kPlan));
  EXPECT_EQ(machine.key, "cluster.nodes[0].topology");
  EXPECT_EQ(machine.message, "names no file");
}

// A side's entry of cluster.nodes was ignored where no cluster is given, as for train.
TEST(PolicyKeys, NameNoMachinesWithoutACluster) {
  const auto with = [](const std::string& nodes) {
    return parse_scenario(
        "test.yaml",
        "model: {family: llama, num_layers: 2, hidden_size: 64, ffn_hidden_size: 128, "
        "num_attention_heads: 4, vocab_size: 256, sequence_length: 32}\nplan: {data: 1, pipeline: "
        "2, micro_batch: 1, "
        "global_batch: 4}\npolicy: {schedule: fbd, forward: {tensor: 1" +
            nodes + "}}\n",
        {.needs_cluster = false});
  };
  EXPECT_TRUE(with("")) << to_text(with("").error());
  const model::Diagnostic fault = only_fault(with(", nodes: 0"));
  EXPECT_EQ(fault.key, "policy.forward.nodes");
  EXPECT_EQ(fault.line, 3);
  EXPECT_NE(fault.message.find("no cluster is given"), std::string::npos);
}

TEST(DisturbanceKeys, NameTheirGpu) {
  const model::Job job = job_of("{type: fat-tree}",
                                "seed: 9\ndisturbances:\n"
                                "  - {kind: slow-gpu, rank: 13, factor: 1.5}\n"
                                "  - {kind: slow-gpu, gpu: n1/gpu5, clock: 990 MHz}\n"
                                "  - {kind: flapping-link, from: n0/nic0, to: leaf0, down: 5 ms, "
                                "every: 100 ms}\n");
  ASSERT_EQ(job.disturbances.size(), 3U);
  EXPECT_EQ(job.seed, 9U);
  EXPECT_EQ(job.disturbances[0].at, "n1/gpu5");
  EXPECT_EQ(to_text(job.disturbances[0]), "slow-gpu n1/gpu5 × 1.5");
  // An H100 boosts to 1,980 or 1,830 MHz by source; the catalogue's own clock counts.
  EXPECT_DOUBLE_EQ(job.disturbances[1].factor, job.cluster.groups[0].gpu.boost_clock.value / 990e6);
  EXPECT_EQ(job.disturbances[2].period.value, 0.1);
  EXPECT_EQ(to_text(job.disturbances[2]),
            "flapping-link n0/nic0 - leaf0 down 5 ms of every 100 ms");
  model::Disturbance down = job.disturbances[2];
  down.down = model::Seconds{0.0999999};
  EXPECT_EQ(to_text(down), "flapping-link n0/nic0 - leaf0 down 99.9999 ms of every 100 ms");
}

// A cable of an adapter that is dead all the while: there was no such cable. Where one of them is
// over before the other, both hold.
TEST(DisturbanceKeys, ACableHangsOnItsAdapter) {
  const std::string dead = "disturbances:\n  - {kind: dead-nic, nic: n0/nic3";
  const std::string slow = "}\n  - {kind: slow-link, from: leaf0, to: n0/nic3, factor: 2";
  const std::string fault = faults("{type: fat-tree}", dead + slow + "}\n");
  EXPECT_NE(fault.find("test.yaml:6:"), std::string::npos) << fault;
  EXPECT_NE(
      fault.find("disturbances[1].to: the cable from leaf0 to n0/nic3 hangs on n0/nic3, which "
                 "is dead by disturbances[0] (line 5): it carries nothing"),
      std::string::npos)
      << fault;
  const auto refused = [&](const std::string& of_dead, const std::string& of_slow) {
    return !faults("{type: fat-tree}", dead + of_dead + slow + of_slow + "}\n").empty();
  };
  EXPECT_TRUE(refused(", start: 4 ms", ", start: 5 ms"));
  EXPECT_TRUE(refused(", until: 9 ms", ", until: 9 ms"));
  EXPECT_FALSE(refused(", start: 4 ms", ""));
  EXPECT_FALSE(refused(", until: 9 ms", ""));
  EXPECT_FALSE(refused(", until: 9 ms", ", until: 10 ms"));
  // Another adapter's cable, and the adapter's own way inside its machine.
  EXPECT_TRUE(faults("{type: fat-tree}",
                     dead + "}\n  - {kind: slow-link, from: n0/nic4, to: leaf0, factor: 2}\n")
                  .empty());
}

// Spines that spraying makes one are not there by their numbers.
TEST(DisturbanceKeys, SayWhySprayedSpinesAreMissing) {
  const std::string slow =
      "disturbances: [{kind: slow-link, from: leaf0, to: spine5, factor: 2}]\n";
  const std::string fabric = "{type: fat-tree, nodes_per_leaf: 2, spines: 8";
  EXPECT_NE(faults(fabric + "}", slow).find("unless cluster.fabric.routing is ecmp"),
            std::string::npos);
  EXPECT_EQ(faults(fabric + ", routing: ecmp}", slow), "");
}

TEST(DisturbanceKeys, HaveAWindow) {
  const model::Job job =
      job_of("{type: fat-tree}",
             "disturbances:\n"
             "  - {kind: slow-gpu, rank: 1, factor: 2, start: 4 ms, until: 10 ms}\n"
             "  - {kind: jitter, deviation: 2 %, start: 1 s, duration: 250 us}\n"
             "  - {kind: dead-nic, nic: n0/nic0, until: 3 ms}\n"
             "  - {kind: jitter, deviation: 2 %, start: 5 ms}\n"
             "  - {kind: jitter, deviation: 2 %}\n");
  ASSERT_EQ(job.disturbances.size(), 5U);
  EXPECT_EQ(job.disturbances[0].start.ns, 4'000'000);
  EXPECT_EQ(job.disturbances[0].until->ns, 10'000'000);
  EXPECT_EQ(job.disturbances[1].until->ns, 1'000'250'000);
  EXPECT_EQ(window_of(job.disturbances[0]), " from 4 ms until 10 ms");
  EXPECT_EQ(window_of(job.disturbances[2]), " until 3 ms");
  EXPECT_EQ(window_of(job.disturbances[3]), " from 5 ms on");
  EXPECT_EQ(window_of(job.disturbances[4]), "");
  EXPECT_TRUE(job.disturbances[0].holds_at({4'000'000}));
  EXPECT_FALSE(job.disturbances[0].holds_at({3'999'999}));
  EXPECT_FALSE(job.disturbances[0].holds_at({10'000'000}));
}

TEST(DisturbanceKeys, WindowsThatMeanNothingAreRefused) {
  const auto fault = [](const std::string& entry) {
    return faults("{type: fat-tree}", "disturbances:\n  - {" + entry + "}\n");
  };
  const std::string slow = "kind: slow-gpu, rank: 1, factor: 2, ";
  EXPECT_NE(fault(slow + "start: 4").find("no unit"), std::string::npos);
  for (const char* key : {"start", "until", "duration"}) {
    const std::string text = fault(slow + key + ": 9e9 s");  // 285 years, taken as 31.
    EXPECT_NE(text.find(std::string(key) + ": is beyond any step\n"), std::string::npos) << text;
    EXPECT_NE(text.find("at most 1000000 s"), std::string::npos) << text;
  }
  EXPECT_NE(fault(slow + "start: 4 ms, until: 4 ms").find("is not after start"), std::string::npos);
  EXPECT_NE(fault(slow + "start: 4 ms, until: 2 ms").find("is not after start"), std::string::npos);
  EXPECT_NE(fault(slow + "until: 2 ms, duration: 2 ms").find("one of until and duration"),
            std::string::npos);
  EXPECT_NE(fault(slow + "duration: 0 ms"), "");
  EXPECT_NE(fault(slow + "start: 1 ms, duration: 0.1 ns").find("shorter than the nanosecond"),
            std::string::npos);
  EXPECT_EQ(fault(slow + "start: 0 ms, until: 4 ms"), "");
  EXPECT_NE(fault("kind: expert-imbalance, factor: 2, start: 4 ms").find("goes by the tokens"),
            std::string::npos);
  EXPECT_NE(
      fault("kind: slow-storage, bandwidth: 1 GB/s, until: 4 ms").find("written between steps"),
      std::string::npos);
}

TEST(DisturbanceKeys, AreRefusedWithPlaceAndReason) {
  const auto fault = [](const std::string& entry) {
    return faults("{type: fat-tree}", "disturbances:\n  - " + entry + "\n");
  };
  EXPECT_NE(fault("{kind: slow-gpu, rank: 64, factor: 2}").find("no such GPU"), std::string::npos);
  EXPECT_NE(fault("{kind: slow-gpu, rank: 64, factor: 2}").find("test.yaml:5:"), std::string::npos);
  EXPECT_NE(fault("{kind: slow-gpu, rank: 1}").find("factor and clock"), std::string::npos);
  EXPECT_NE(fault("{kind: slow-gpu, rank: 1, factor: 0.5}").find("out of range"),
            std::string::npos);
  EXPECT_NE(fault("{kind: dead-nic, nic: n9/nic0}").find("no part 'n9/nic0'"), std::string::npos);
  EXPECT_NE(
      fault("{kind: slow-link, from: n0/nic0, to: n1/nic0, factor: 2}").find("no cable joins"),
      std::string::npos);
  EXPECT_NE(fault("{kind: flapping-link, from: n0/nic0, to: leaf0, down: 2 s, every: 1 s}")
                .find("never up"),
            std::string::npos);
  EXPECT_NE(fault("{kind: background, from: n0/gpu0, to: n1/gpu0, rate: 500 GB/s}")
                .find("allowed: at most 50 GB/s"),
            std::string::npos);
  EXPECT_NE(
      fault("{kind: background, from: n0/gpu0, to: n0/gpu0, rate: 5 GB/s}").find("are one GPU"),
      std::string::npos);
  EXPECT_NE(fault("{kind: background, from: n0/nic0, to: n1/gpu0, rate: 5 GB/s}")
                .find("'n0/nic0' is no GPU"),
            std::string::npos);
  EXPECT_EQ(fault("{kind: background, from: n0/gpu0, to: n1/gpu0, rate: 50 GB/s}"), "");
  EXPECT_NE(fault("{kind: slow-gpu, rank: 1, gpu: n0/gpu2, factor: 2}")
                .find("allowed: one of rank and gpu"),
            std::string::npos);
  EXPECT_NE(fault("{kind: slow-gpu, rank: 1, clock: 1 GHz, factor: 2}")
                .find("allowed: one of factor and clock"),
            std::string::npos);
  EXPECT_NE(fault("{kind: slow-gpu, rank: 1}").find("clock: 1.2 GHz"), std::string::npos);
  // One fault, one message.
  for (const char* value : {"factor: 0.5", "clock: 90 GHz", "clock: 2"}) {
    const std::string text = fault(std::string("{kind: slow-gpu, rank: 1, ") + value + "}");
    EXPECT_EQ(text.find("allowed"), text.rfind("allowed")) << text;
    EXPECT_NE(text, "") << value;
  }
  EXPECT_NE(fault("{kind: gremlin}").find("allowed: slow-gpu, jitter"), std::string::npos);
  EXPECT_NE(fault("{kind: background, from: n0/gpu0, to: n1/gpu0, rate: 20}").find("has no unit"),
            std::string::npos);
}

// A GPU that was named where an adapter belongs got exit 1 without a place, and an adapter named
// where a GPU belongs ended in an assertion.
TEST(DisturbanceKeys, NamePartsOfTheKindThatCanBeStruck) {
  struct Row {
    std::string before, value, after, key, message, allowed;
  };
  const std::string names =
      "names as 'megatwin topology show' prints them, such as n0/gpu0, n0/nic1, rail0/leaf0";
  const std::string gpu = "a GPU, such as n0/gpu0";
  const std::vector<Row> rows = {
      {"kind: dead-nic, nic: ", "n0/gpu3", "", "nic", "'n0/gpu3' is no adapter",
       "an adapter, such as n0/nic0"},
      {"kind: dead-nic, nic: ", "n9/nic0", "", "nic", "the cluster has no part 'n9/nic0'", names},
      {"kind: slow-gpu, gpu: ", "n0/nic0", ", factor: 2", "gpu", "'n0/nic0' is no GPU", gpu},
      {"kind: slow-gpu, gpu: ", "n8/gpu0", ", factor: 2", "gpu",
       "the cluster has no part 'n8/gpu0'", names},
      {"kind: pcie-width, lanes: 4, at: ", "leaf0", "", "at", "'leaf0' is in no PCIe slot",
       "a GPU or an adapter in one, such as n0/nic0"},
      {"kind: background, rate: 1 GB/s, from: n0/gpu0, to: ", "n1/nic0", "", "to",
       "'n1/nic0' is no GPU", gpu},
      {"kind: slow-link, factor: 2, to: leaf0, from: ", "n0/nic77", "", "from",
       "the cluster has no part 'n0/nic77'", names},
      {"kind: slow-link, factor: 2, from: n0/gpu0, to: ", "n1/gpu0", "", "to",
       "no cable joins 'n0/gpu0' and 'n1/gpu0'", "two neighbours of 'megatwin topology show'"}};
  for (const Row& row : rows) {
    const auto scenario = read("{type: fat-tree}", "disturbances:\n  - {kind: jitter}\n  - {" +
                                                       row.before + row.value + row.after + "}\n");
    ASSERT_FALSE(scenario) << row.value;
    // The jitter's deviation is missing, which hides nothing of the second entry.
    ASSERT_EQ(scenario.error().size(), 2U) << to_text(scenario.error());
    const model::Diagnostic& fault = scenario.error().back();
    EXPECT_EQ(fault.line, 6);
    EXPECT_EQ(fault.column, 6 + static_cast<int>(row.before.size()));
    EXPECT_EQ(fault.length, static_cast<int>(row.value.size()));
    EXPECT_EQ(fault.key, "disturbances[1]." + row.key);
    EXPECT_EQ(fault.message, row.message);
    EXPECT_EQ(fault.allowed, row.allowed);
  }
}

TEST(FailureKeys, TakeRatesInThreeForms) {
  const auto rate = [](const std::string& keys) {
    const model::Job job =
        job_of("{type: fat-tree}", "failures: {" + keys + ", checkpoint: {blocks: 30 s}}\n");
    double per_day = 0;
    for (const model::PartFailures& part : job.failures->parts) {
      per_day += part.count * part.per_day;
    }
    return per_day;
  };
  EXPECT_DOUBLE_EQ(rate("mean_time_between_failures: 6 h"), 4);
  EXPECT_DOUBLE_EQ(rate("per_node_day: 0.5"), 4);  // Eight machines.
  EXPECT_DOUBLE_EQ(rate("parts: [{part: gpu, count: 64, per_day: 0.0625}]"), 4);
  EXPECT_NE(faults("{type: fat-tree}", "failures: {span: 3 d}\n").find("checkpoint"),
            std::string::npos);
  EXPECT_NE(faults("{type: fat-tree}", "failures: {per_node_day: 0, checkpoint: {blocks: 1 s}}\n")
                .find("nothing ever fails"),
            std::string::npos);
}

TEST(FailureKeys, ReadTheBuilding) {
  const model::Job job =
      job_of("{type: fat-tree}", "energy: {power_usage_effectiveness: 1.1, carbon: 414 g/kWh}\n");
  EXPECT_DOUBLE_EQ(job.facility.power_usage_effectiveness, 1.1);
  EXPECT_DOUBLE_EQ(job.facility.carbon_kg_per_kilowatt_hour, 0.414);
  EXPECT_NE(faults("{type: fat-tree}", "energy: {carbon: 414}\n").find("g/kWh"), std::string::npos);
}

}  // namespace
}  // namespace megatwin::scenarios
