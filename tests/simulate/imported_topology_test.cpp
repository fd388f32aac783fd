// Machines and networks that a file describes, simulated: the same step as the catalogue's where
// the file says the same, slower by hand where it says less, refused where it does not fit.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "model/program/job_program.h"
#include "model/topology/fabric_topology.h"
#include "scenarios/scenario.h"
#include "sim/group_algorithm.h"
#include "tests/simulate/bytes_over_links.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::SimulationReport;

std::string file_of(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// A machine of two GPUs behind a bridge each, with an adapter of 400 Gbit/s beside it; `slow` is
// the slot of the second adapter.
std::string two_gpus(const std::string& slow = "link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"") {
  const std::string full = "link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"";
  std::string xml =
      "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\" "
      "familyid=\"6\" modelid=\"143\">\n";
  for (const int g : {0, 1}) {
    const std::string bus = "0000:" + std::to_string(g + 1);
    xml += "<pci busid=\"" + bus + "0:00.0\" class=\"0x060400\" " + full + ">\n";
    xml += "<pci busid=\"" + bus + "1:00.0\" class=\"0x030200\" " + full + "><gpu dev=\"" +
           std::to_string(g) +
           "\" sm=\"90\"><nvlink target=\"0000:70:00.0\" count=\"24\" "
           "tclass=\"0x068000\"/></gpu></pci>\n";
    xml += "<pci busid=\"" + bus + "2:00.0\" class=\"0x020700\" " + (g == 1 ? slow : full) +
           "><nic><net name=\"mlx5_" + std::to_string(g) + "\" speed=\"400000\"/></nic></pci>\n";
    xml += "</pci>\n";
  }
  return xml + "</cpu>\n</system>\n";
}

std::string scenario(const std::string& node, const std::string& plan,
                     const std::string& network = "maxmin", const std::string& fabric = "") {
  return "model: {name: llama-3-8b, sequence_length: 4096}\ncluster: {nodes: [{" + node + "}]" +
         (fabric.empty() ? "" : ", fabric: {" + fabric + "}") +
         "}\nsoftware: {framework: megatron-2021}\nplan: {micro_batch: 1, " + plan +
         "}\nnetwork: " + network + "\n";
}

SimulationReport step(const std::string& text) {
  return report_of(job_from(text), {.sensitivities = false});
}

const std::string kTwo = "type: dgx-h100, gpus: 2, nics: 2, count: 2";
const std::string kSprayed = "type: rail-optimized-fat-tree, routing: spray";

// Wider than the catalogue's machine inside: the closed form's step to the nanosecond.
TEST(DescribedMachine, ThatSufficesGivesTheClosedForm) {
  const std::string path = file_of("full.xml", two_gpus());
  for (const char* plan : {"tensor: 1, data: 4, global_batch: 8",
                           "tensor: 2, pipeline: 2, data: 1, global_batch: 8"}) {
    const SimulationReport described =
        step(scenario(kTwo + ", topology: " + path, plan, "maxmin", kSprayed));
    EXPECT_TRUE(described.links.empty()) << plan;
    EXPECT_EQ(described.step_time.value,
              step(scenario(kTwo, plan, "analytic", kSprayed)).step_time.value)
        << plan;
  }
}

// The second adapter behind 2.5 GT/s × 1, 0.19 GB/s, as virtual machines show it. Of two rings over
// two machines one leaves by it, with half the bytes.
TEST(DescribedMachine, ASlowBridgeIsSeenInTheStep) {
  const std::string path =
      file_of("bridge.xml", two_gpus("link_speed=\"2.5 GT/s PCIe\" link_width=\"1\""));
  const std::string plan = "tensor: 1, data: 4, global_batch: 8";
  const model::Job job = job_from(scenario(kTwo + ", topology: " + path, plan, "maxmin", kSprayed));
  ASSERT_FALSE(job.warnings.empty());
  EXPECT_NE(job.warnings.front().find("bridge.xml:"), std::string::npos) << job.warnings.front();
  EXPECT_NE(job.warnings.front().find("'2.5 GT/s PCIe' × 1 = 0.19 GB/s"), std::string::npos);
  const sim::GroupAlgorithm ring =
      sim::GroupAlgorithms(job, build_job_program(job)).of(model::GroupKind::Data);
  EXPECT_EQ(ring.wish.algorithm, model::CollectiveAlgorithm::Ring);
  const double by_hand = state_time_over(job, 2 * 0.1875e9).value;
  const SimulationReport described = report_of(job, {.sensitivities = false});
  EXPECT_NEAR(described.breakdown.exposed_dp.value, by_hand, 1e-3 * by_hand);
  ASSERT_FALSE(described.links.empty());
  EXPECT_NE(described.links.front().link.find("/nic1"), std::string::npos)
      << described.links.front().link;
  EXPECT_EQ(described.links.front().capacity.value, 0.1875e9);
}

// An adapter of speed 0 is one of 10 Gbit/s, in the warning and in the step; of unlike ones the
// node type's rate is taken, and that is said.
TEST(DescribedMachine, AdaptersAreAsFastAsTheWarningSays) {
  const auto job_with = [](const std::string& first, const std::string& second) {
    std::string xml = two_gpus();
    const auto put = [&](const std::string& name, const std::string& speed) {
      const std::string was = name + "\" speed=\"400000\"";
      xml.replace(xml.find(was), was.size(), name + "\" speed=\"" + speed + "\"");
    };
    put("mlx5_0", first);
    put("mlx5_1", second);
    return job_from(scenario(kTwo + ", topology: " + file_of("speeds.xml", xml),
                             "tensor: 1, data: 4, global_batch: 8", "maxmin", kSprayed));
  };
  const auto warns = [](const model::Job& job, const std::string& words) {
    return std::any_of(job.warnings.begin(), job.warnings.end(), [&](const std::string& warning) {
      return warning.find(words) != std::string::npos;
    });
  };
  const model::Job none = job_with("0", "0");
  EXPECT_DOUBLE_EQ(none.cluster.groups.front().node.nic_per_direction.value, 1.25e9);
  EXPECT_TRUE(warns(none, "the adapter mlx5_0 has no speed: 10 Gbit/s is taken, as NCCL does"));
  const model::Job slow = job_with("10000", "10000");
  EXPECT_EQ(report_of(none, {.sensitivities = false}).step_time,
            report_of(slow, {.sensitivities = false}).step_time);
  const model::Job unlike = job_with("0", "200000");
  EXPECT_DOUBLE_EQ(unlike.cluster.groups.front().node.nic_per_direction.value, 50e9);
  EXPECT_TRUE(warns(unlike,
                    "its adapters are of 10 to 200 Gbit/s; all are taken to be as fast as "
                    "those of dgx-h100, 400 Gbit/s"));
}

// GPU i is device i of CUDA, wherever it stands in the file: here the second is device 0, beside
// the second adapter, which is then the first.
TEST(DescribedMachine, GpusAreInTheOrderOfTheirDevices) {
  std::string xml = two_gpus("link_speed=\"16.0 GT/s PCIe\" link_width=\"4\"");
  const auto narrow_of = [&](const std::string& text) {
    const model::Job job = job_from(scenario(kTwo + ", topology: " + file_of("order.xml", text),
                                             "tensor: 1, data: 4, global_batch: 8"));
    const model::Topology& inside = *job.cluster.groups.front().node.inside;
    return inside.link(inside.links_from(inside.machine(0).nics.front()).front()).bandwidth;
  };
  // 4 lanes of 1.5 GB/s.
  EXPECT_GT(narrow_of(xml).value, 6e9);
  xml.replace(xml.find("dev=\"0\""), 7, "dev=\"9\"");
  EXPECT_DOUBLE_EQ(narrow_of(xml).value, 6e9);
}

// A matrix without NVLink or adapters: two GPUs a socket over PCIe 3.0, adapters beside them.
TEST(DescribedMachine, MayBeAMatrix) {
  const std::string path = file_of("matrix.txt",
                                   "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n"
                                   "GPU0\t X \tPIX\tSYS\tSYS\t0-15\n"
                                   "GPU1\tPIX\t X \tSYS\tSYS\t0-15\n"
                                   "GPU2\tSYS\tSYS\t X \tPIX\t16-31\n"
                                   "GPU3\tSYS\tSYS\tPIX\t X \t16-31\n");
  const model::Job job =
      job_from(scenario("type: dgx-a100-80g, gpus: 4, nics: 2, count: 2, topology: " + path,
                        "tensor: 4, data: 2, global_batch: 8"));
  const model::Topology topology = *build_topology(job.cluster);
  EXPECT_EQ(topology.num_gpus(), 8);
  EXPECT_GE(topology.find_link("n1/gpu2", "n1/pcie1").value, 0);
  EXPECT_GE(topology.find_link("n1/nic1", "n1/pcie1").value, 0);
  EXPECT_GE(topology.find_link("n0/nic1", "rail1/leaf0").value, 0);
  EXPECT_EQ(topology.find_link("n0/gpu0", "n0/nvswitch0").value, -1);
  const SimulationReport report = report_of(job, {.sensitivities = false});
  const SimulationReport built = step(scenario("type: dgx-a100-80g, gpus: 4, nics: 2, count: 2",
                                               "tensor: 4, data: 2, global_batch: 8"));
  EXPECT_GT(report.step_time, built.step_time);
}

// Four nodes on two leaves under one switch say what a fat tree of two nodes a leaf with sprayed
// packets does: the same step, short or not.
TEST(DescribedFabric, OfSlurmIsTheTreeThatItSays) {
  const std::string path = file_of("topology.conf",
                                   "SwitchName=root Switches=leaf[0-1]\n"
                                   "SwitchName=leaf0 Nodes=a[1-2]\n"
                                   "SwitchName=leaf1 Nodes=a[3-4]\n");
  const std::string plan = "tensor: 8, data: 4, global_batch: 16";
  for (const char* over : {"1", "4"}) {
    const std::string more = std::string(", oversubscription: ") + over;
    const SimulationReport told =
        step(scenario("type: dgx-h100, count: 4", plan, "maxmin", "from: " + path + more));
    const SimulationReport built =
        step(scenario("type: dgx-h100, count: 4", plan, "maxmin",
                      "type: fat-tree, nodes_per_leaf: 2, routing: spray" + more));
    EXPECT_EQ(told.step_time.value, built.step_time.value) << over;
    EXPECT_EQ(told.links.empty(), std::string(over) == "1");
  }
  // Two nodes of it, on leaves of their own; the way up is stated, 100 of 400 GB/s.
  const std::string two = "tensor: 8, data: 2, global_batch: 16";
  const model::Job job = job_from(scenario("type: dgx-h100, count: 2, names: 'a1,a4'", two,
                                           "maxmin", "from: " + path + ", uplink: 100 GB/s"));
  EXPECT_EQ(job.cluster.fabric.nodes_per_leaf, 1);
  const model::Topology topology = *build_topology(job.cluster);
  const model::LinkId up = topology.find_link("leaf1", "root");
  ASSERT_GE(up.value, 0);
  EXPECT_EQ(topology.link(up).bandwidth.value, 100e9);
  EXPECT_GE(topology.find_link("n1/nic7", "leaf1").value, 0);
  const SimulationReport stated = report_of(job, {.sensitivities = false});
  EXPECT_GT(stated.step_time, step(scenario("type: dgx-h100, count: 2, names: 'a1,a4'", two,
                                            "maxmin", "from: " + path))
                                  .step_time);
}

// Two hosts of two adapters, each adapter on a leaf of its own rail, the leaves on one spine by two
// cables of 4xHDR: rails, and 25 GB/s where both machines meet across.
TEST(DescribedFabric, OfInfinibandHasItsCables) {
  const std::string path = file_of("ib.out",
                                   "vendid=0x2c9\n"
                                   "Switch\t40 \"S-01\"\t\t# \"rail-a\" base port 0 lid 1 lmc 0\n"
                                   "[1]\t\"H-a0\"[1](a0) \t\t# \"alpha mlx5_0\" lid 11 4xNDR\n"
                                   "[2]\t\"H-b0\"[1](b0) \t\t# \"beta mlx5_0\" lid 12 4xNDR\n"
                                   "[3]\t\"S-03\"[1] \t\t# \"spine\" lid 3 4xHDR\n"
                                   "Switch\t40 \"S-02\"\t\t# \"rail-b\" base port 0 lid 2 lmc 0\n"
                                   "[1]\t\"H-a1\"[1](a1) \t\t# \"alpha mlx5_1\" lid 13 4xHDR\n"
                                   "[2]\t\"H-b1\"[1](b1) \t\t# \"beta mlx5_1\" lid 14 4xHDR\n"
                                   "[3]\t\"S-03\"[2] \t\t# \"spine\" lid 3 4xHDR\n"
                                   "Switch\t40 \"S-03\"\t\t# \"spine\" base port 0 lid 3 lmc 0\n"
                                   "[1]\t\"S-01\"[3] \t\t# \"rail-a\" lid 1 4xHDR\n"
                                   "[2]\t\"S-02\"[3] \t\t# \"rail-b\" lid 2 4xHDR\n"
                                   "Ca\t1 \"H-a1\"\t\t# \"alpha mlx5_1\"\n[1](a1) "
                                   "\t\"S-02\"[1]\t\t# lid 13 lmc 0 \"rail-b\" lid 2 "
                                   "4xHDR\n"
                                   "Ca\t1 \"H-a0\"\t\t# \"alpha mlx5_0\"\n[1](a0) "
                                   "\t\"S-01\"[1]\t\t# lid 11 lmc 0 \"rail-a\" lid 1 "
                                   "4xNDR\n"
                                   "Ca\t1 \"H-b0\"\t\t# \"beta mlx5_0\"\n[1](b0) "
                                   "\t\"S-01\"[2]\t\t# lid 12 lmc 0 \"rail-a\" lid 1 "
                                   "4xNDR\n"
                                   "Ca\t1 \"H-b1\"\t\t# \"beta mlx5_1\"\n[1](b1) "
                                   "\t\"S-02\"[2]\t\t# lid 14 lmc 0 \"rail-b\" lid 2 "
                                   "4xHDR\n");
  const model::Job job =
      job_from(scenario(kTwo + ", names: 'beta,alpha'", "tensor: 2, data: 2, global_batch: 8",
                        "maxmin", "from: " + path));
  const model::Topology topology = *build_topology(job.cluster);
  const auto rate = [&](const char* from, const char* to) {
    const model::LinkId link = topology.find_link(from, to);
    return link.value < 0 ? -1 : topology.link(link).bandwidth.value / 1e9;
  };
  EXPECT_EQ(rate("n0/nic0", "rail-a"), 50);
  EXPECT_EQ(rate("rail-b", "n1/nic1"), 25);  // The port is narrower than the adapter.
  EXPECT_EQ(rate("rail-a", "spine"), 25);
  EXPECT_EQ(rate("n0/nic0", "rail-b"), -1);
  EXPECT_GT(report_of(job, {.sensitivities = false}).step_time.value, 0);
}

std::string refusal(const std::string& text) {
  const auto read = scenarios::parse_scenario("test.yaml", text, {});
  return read ? "" : to_text(read.error());
}

TEST(DescribedCluster, ThatDoesNotFitIsRefused) {
  const std::string xml = file_of("two.xml", two_gpus());
  const std::string plan = "tensor: 2, data: 2, global_batch: 8";
  const auto refuses = [&](const std::string& node, const std::string& fabric,
                           const std::string& words) {
    const std::string text = refusal(scenario(node, plan, "maxmin", fabric));
    EXPECT_NE(text.find(words), std::string::npos) << words << " not in: " << text;
    EXPECT_NE(text.find("test.yaml:2:"), std::string::npos) << text;
  };
  refuses("type: dgx-h100, count: 2, topology: " + xml, "", "two.xml' has 2 GPUs, dgx-h100 has 8");
  refuses("type: dgx-h100, gpus: 2, nics: 1, count: 2, topology: " + xml, "",
          "has 2 adapters, dgx-h100 has 1");
  refuses("type: dgx-h100, count: 2, topology: " +
              file_of("none.xml", "<system version=\"1\">\n</system>\n"),
          "", "none.xml' has 0 GPUs, dgx-h100 has 8");
  refuses(kTwo + ", topology: no/such.xml", "", "cannot be read as a machine");
  const std::string bad = file_of("bad.xml",
                                  "<system><cpu><pci class=\"0x030200\" "
                                  "link_width=\"wide\"/></cpu></system>");
  refuses(kTwo + ", topology: " + bad, "", "'wide' is no whole number");
  const std::string conf =
      file_of("islands.conf", "SwitchName=s0 Nodes=a[1-2]\nSwitchName=s1 Nodes=a[3-4]\n");
  refuses(kTwo + ", names: 'a1,b1'", "from: " + conf, "has no node 'b1'");
  refuses(kTwo, "from: " + conf, "has 4 nodes, the cluster 2 machines");
  refuses(kTwo + ", names: 'a1,a4'", "from: " + conf, "joins 'a1' and 'a4'");
  refuses(kTwo + ", names: 'a1,a1'", "from: " + conf, "'a1' is named twice");
  refuses(kTwo + ", names: 'a[1-3]'", "from: " + conf, "names 3 of 2 machines");
  refuses("type: dgx-h100, count: 1, names: a1}, {type: dgx-h100", "from: " + conf,
          "some machines have names and others none");
  refuses(kTwo + ", names: 'a[1-2]'", "", "cluster.nodes[0].names: means nothing");
  refuses(kTwo + ", names: 'a[1-2]'", "from: " + conf + ", spines: 2",
          "is what the file of from tells");
  const std::string line = file_of("line.conf", "SwitchName=s0 Nodes=a[1-2]\nnonsense\n");
  EXPECT_NE(refusal(scenario(kTwo, plan, "maxmin", "from: " + line)).find("line.conf:2:"),
            std::string::npos);
}

// Closed forms do not look into the file, and say so.
TEST(DescribedCluster, WarnsWhereClosedFormsAreAskedFor) {
  const std::string xml = file_of("warn.xml", two_gpus());
  const model::Job job = job_from(
      scenario(kTwo + ", topology: " + xml, "tensor: 2, data: 2, global_batch: 8", "analytic"));
  ASSERT_FALSE(job.warnings.empty());
  EXPECT_NE(job.warnings.back().find("laid out by network: maxmin"), std::string::npos);
}

// Descriptions of real machines and trees, where they lie beside the checkout.
TEST(DescribedCluster, OfPublishedFilesIsSimulated) {
  const char* given = std::getenv("MEGATWIN_SHARED");
  const std::string files = (given != nullptr ? std::string(given) : "../shared") + "/data/files/";
  if (!std::filesystem::exists(files)) GTEST_SKIP() << "no " << files << "; set MEGATWIN_SHARED";
  const std::string plan = "tensor: 8, data: 2, global_batch: 8";
  for (const auto& [type, path] :
       {std::pair{"aws-p4d", "nccl_topo/aws_p4d-24xl-topo.xml"},
        std::pair{"azure-ndv4", "nccl_topo/azure_ndv4-topo.xml"},
        std::pair{"azure-ndv5", "nccl_topo/azure_ndv5-topo.xml"},
        std::pair{"dgx-h100", "nvidia_smi_topo/s_8h100_ht_affinity.txt"},
        std::pair{"dgx-1v-32g", "nvidia_smi_topo/dgx1_v100_hybrid_cube_mesh_4ib.txt"}}) {
    const std::string node = std::string("type: ") + type + ", count: 2";
    const SimulationReport built = step(scenario(node, plan));
    const SimulationReport described = step(scenario(node + ", topology: " + files + path, plan));
    EXPECT_GE(described.step_time.value, built.step_time.value * (1 - 1e-9)) << path;
    EXPECT_LT(described.step_time.value, built.step_time.value * 3) << path;
  }
  const std::string conf = files + "cluster_descriptions/slurm_topology_testcase6.conf";
  const SimulationReport tree = step(
      scenario("type: dgx-h100, count: 2, names: 'node[8-9]'", plan, "maxmin", "from: " + conf));
  EXPECT_GT(tree.step_time.value, 0);
  // Of several topologies the default; two leaves of two nodes under one switch.
  const std::string yaml = files + "cluster_descriptions/slurm_topology.yaml";
  const std::string four = "tensor: 8, data: 4, global_batch: 16";
  EXPECT_EQ(step(scenario("type: dgx-h100, count: 4", four, "maxmin",
                          "from: " + yaml + ", oversubscription: 4"))
                .step_time.value,
            step(scenario("type: dgx-h100, count: 4", four, "maxmin",
                          "type: fat-tree, nodes_per_leaf: 2, routing: spray, oversubscription: 4"))
                .step_time.value);
  // Racks of four adapters a tray, each on a leaf of its own.
  const std::string racks = files + "cluster_descriptions/ibnetdiscover_gb200_ndr_topograph.out";
  const model::Job trays = job_from(
      scenario("type: dgx-h100, gpus: 4, nics: 4, count: 3, names: 'b08-p1-dgx-08-c[16-18]'",
               "tensor: 4, data: 3, global_batch: 6", "maxmin", "from: " + racks));
  const model::Topology topology = *build_topology(trays.cluster);
  std::set<std::string> leaves;
  for (const model::VertexId nic : topology.machine(2).nics) {
    for (const model::LinkId link : topology.links_from(nic)) {
      if (topology.link(link).kind != model::LinkKind::Port) continue;
      EXPECT_EQ(topology.link(link).bandwidth.value, 50e9);  // 4xNDR.
      leaves.insert(topology.vertex(topology.link(link).to).name);
    }
  }
  EXPECT_EQ(leaves.size(), 4U);
  EXPECT_GT(report_of(trays, {.sensitivities = false}).step_time.value, 0);
  EXPECT_NE(refusal(scenario("type: aws-p4d, count: 2, topology: " + files +
                                 "nccl_topo/azure_ncv4-topo.xml",
                             plan))
                .find("has 4 GPUs, aws-p4d has 8"),
            std::string::npos);
}

}  // namespace
}  // namespace megatwin::tests
