// What `megatwin topology show` says and draws of a small cluster.
#include "cli/topology.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/files.h"
#include "cli/report/topology_picture.h"
#include "tests/cli/fake_world.h"
#include "tests/network/clusters.h"
#include "tests/temporary_folder.h"

namespace megatwin::cli {
namespace {

model::Topology two_machines() {
  return *model::build_topology(model::hopper_cluster({.machines = 2, .gpus = 2, .nics = 2},
                                                      model::FabricKind::RailOptimizedFatTree));
}

// Two machines of two GPUs: each GPU has a PCIe switch and an adapter; a leaf a rail, spines above.
TEST(TopologyText, CountsAndShowsWays) {
  const std::string text = topology_text(two_machines());
  EXPECT_NE(text.find("  gpu        4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("nvlink   8 links  450 GB/s each way"), std::string::npos) << text;
  EXPECT_NE(text.find("  1: 450 GB/s, 0.00 us, n0/gpu0 -> n0/nvswitch0 -> n0/gpu1\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  2: 50 GB/s, 0.90 us, n0/gpu0 -> n0/pcie0 -> n0/nic0 -> rail0/leaf0 -> "
                      "n1/nic0 -> n1/pcie0 -> n1/gpu0\n"),
            std::string::npos)
      << text;
}

TEST(TopologySvg, DrawsEveryPartOnceAndEscapesNames) {
  model::Topology topology = two_machines();
  topology.add_vertex({.kind = model::VertexKind::Core, .name = "<&\">"});
  const std::string svg = topology_svg(topology);
  EXPECT_EQ(svg.find("<title><&"), std::string::npos);
  EXPECT_NE(svg.find("&lt;&amp;&quot;&gt;"), std::string::npos);
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("rx=\"3\""); at != std::string::npos;
       at = svg.find("rx=\"3\"", at + 1)) {
    ++boxes;
  }
  EXPECT_EQ(boxes, static_cast<std::size_t>(topology.num_vertices()));
  EXPECT_EQ(svg, topology_svg(topology));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// A ring of four GPUs, of whose cables one joins the ends of the row, and one is double.
TEST(TopologySvg, DrawsCablesPastOthersAsArcs) {
  model::Topology topology;
  std::vector<model::VertexId> gpus;
  gpus.reserve(4);
  for (int i = 0; i < 4; ++i) {
    gpus.push_back(topology.add_vertex({.kind = model::VertexKind::Gpu,
                                        .name = "machine0/gpu" + std::to_string(i),
                                        .machine = 0,
                                        .position = i}));
  }
  const auto add = [&](int from, int to) {
    topology.add_cable({.from = gpus[static_cast<std::size_t>(from)],
                        .to = gpus[static_cast<std::size_t>(to)],
                        .bandwidth = {25e9},
                        .latency = {},
                        .kind = model::LinkKind::Nvlink});
  };
  for (int i = 0; i < 4; ++i) add(i, (i + 1) % 4);
  add(0, 1);
  const std::string svg = topology_svg(topology);
  EXPECT_EQ(count_of(svg, "<path d=\"M"), 4u + 2u);  // Cables, and a line of the legend a rate.
  EXPECT_EQ(count_of(svg, "C"), 1u) << svg;          // The only cubic.
  EXPECT_EQ(count_of(svg, ", 2 × 25 GB/s</title>"), 1u);
  EXPECT_EQ(count_of(svg, ">nvlink, 25 GB/s each way</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">nvlink, 50 GB/s each way</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">gpu0</text>"), 1u);
}

// A leaf a rail, each called leaf0: two parts of the name tell them apart.
TEST(TopologySvg, NamesAreAsLongAsItTakesToTellThemApart) {
  const std::string svg = topology_svg(two_machines());
  EXPECT_EQ(count_of(svg, ">rail0/leaf0</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">rail1/leaf0</text>"), 1u);
  EXPECT_EQ(count_of(svg, ">n1/gpu1</text>"), 1u);
}

class TopologyCommand : public testing::Test {
 protected:
  int show(const std::string& content, const std::string& svg = {}) {
    const std::string file = folder_.path("input");
    write_file(file, content);
    Console console{.out = out_, .err = err_};
    return topology_command({.file = file, .svg = svg}, world_, console);
  }
  tests::TemporaryFolder folder_;
  tests::FakeWorld world_;
  std::ostringstream out_, err_;
};

TEST_F(TopologyCommand, RecognisesWhatOthersWrite) {
  EXPECT_EQ(show(" GPU0 GPU1\nGPU0  X  NV4\nGPU1 NV4  X \n"), kExitAnswer) << err_.str();
  EXPECT_NE(out_.str().find("kind: nvidia-smi\n"), std::string::npos);
  EXPECT_EQ(show("SwitchName=a Nodes=n[1-8]\n"), kExitAnswer) << err_.str();
  EXPECT_NE(out_.str().find("1 with nodes, 8 nodes, roots a"), std::string::npos);
  EXPECT_EQ(show("<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"1\" class=\"0x030200\"/>"
                 "</cpu></system>"),
            kExitAnswer)
      << err_.str();
  EXPECT_NE(out_.str().find("kind: nccl-topology\n"), std::string::npos);
  EXPECT_EQ(show("<platform version=\"4.1\"><host id=\"a\"/></platform>"), kExitAnswer);
}

TEST_F(TopologyCommand, RefusesWhatItCannotReadOrDraw) {
  EXPECT_EQ(show("<topology/>"), kExitBadInput);
  EXPECT_NE(err_.str().find("hwloc's"), std::string::npos);
  EXPECT_EQ(show("SwitchName=a Switches=a\n"), kExitBadInput);
  EXPECT_NE(err_.str().find("in a circle"), std::string::npos);
  EXPECT_EQ(show("SwitchName=a Nodes=n1\n", folder_.path("no.svg")), kExitBadInput);
  EXPECT_NE(err_.str().find("has no picture"), std::string::npos);
}

TEST_F(TopologyCommand, WritesThePicture) {
  const std::string svg = folder_.path("topology.svg");
  EXPECT_EQ(show(" GPU0 GPU1\nGPU0  X  NV4\nGPU1 NV4  X \n", svg), kExitAnswer);
  EXPECT_TRUE(std::filesystem::exists(svg));
}

}  // namespace
}  // namespace megatwin::cli
