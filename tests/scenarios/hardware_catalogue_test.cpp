#include "scenarios/hardware_catalogue.h"

#include <string>

#include <gtest/gtest.h>

#include "scenarios/hardware_reader.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

// The data sheets of A100-SXM4-80GB and H100-SXM5-80GB, per direction and dense.
TEST(HardwareCatalogue, HoldsTheDataSheets) {
  const model::HardwareCatalogue catalogue = load_hardware_catalogue();
  const model::Gpu& a100 = catalogue.gpus.at("A100-SXM4-80GB");
  EXPECT_EQ(a100.architecture, model::GpuArchitecture::Ampere);
  EXPECT_EQ(a100.num_sms, 108);
  EXPECT_EQ(a100.peak.bf16.value, 312e12);
  EXPECT_EQ(a100.peak.fp8.value, 0);
  EXPECT_EQ(a100.memory_bandwidth.value, 2039e9);
  EXPECT_EQ(a100.nvlink_per_direction.value, 300e9);
  EXPECT_EQ(a100.l2_cache, model::operator""_MiB(40));
  EXPECT_EQ(a100.power_max.value, 400);
  const model::Gpu& h100 = catalogue.gpus.at("H100-SXM5-80GB");
  EXPECT_EQ(h100.peak.fp8.value, 1979e12);
  EXPECT_EQ(h100.boost_clock.value, 1830e6);
  EXPECT_EQ(h100.sources.at("bf16"), "stas_acc, titan, dgxc");
  EXPECT_EQ(catalogue.gpus.at("B300-SXM").num_sms, 148);
  EXPECT_NE(catalogue.gpus.at("B300-SXM").sources.at("sm_count").find("low confidence"),
            std::string::npos);
}

// What is sold as 80 GB reports 79.15 GiB = 84.99e9 B.
TEST(HardwareCatalogue, KnowsTheUsableMemory) {
  const model::HardwareCatalogue catalogue = load_hardware_catalogue();
  EXPECT_NEAR(catalogue.gpus.at("A100-SXM4-80GB").memory_usable.value, 84.99e9, 0.01e9);
  EXPECT_NEAR(catalogue.gpus.at("V100-SXM2-32GB").memory_usable.value, 34.08e9, 0.01e9);
  for (const auto& [name, gpu] : catalogue.gpus) {
    EXPECT_GT(gpu.memory_usable.value, 0.9 * gpu.memory.value) << name;
    EXPECT_LT(gpu.memory_usable.value, 1.09 * gpu.memory.value) << name;
  }
}

TEST(HardwareCatalogue, LeavesNoNeededFieldEmpty) {
  for (const auto& [name, gpu] : load_hardware_catalogue().gpus) {
    EXPECT_GT(gpu.num_sms, 0) << name;
    EXPECT_GT(gpu.peak.fp16.value, 0) << name;
    EXPECT_GT(gpu.memory_bandwidth.value, 0) << name;
    EXPECT_GT(gpu.l2_cache.value, 0) << name;
    EXPECT_GT(gpu.pcie_per_direction.value, 0) << name;
    EXPECT_GT(gpu.power_max.value, 0) << name;
  }
  for (const auto& [name, node] : load_hardware_catalogue().nodes) {
    EXPECT_GT(node.num_gpus, 0) << name;
    EXPECT_GT(node.num_nics, 0) << name;
    EXPECT_GT(node.nic_per_direction.value, 0) << name;
    EXPECT_GT(node.nic_latency.value, 0) << name;
  }
}

TEST(HardwareCatalogue, NamesTheMachines) {
  const model::HardwareCatalogue catalogue = load_hardware_catalogue();
  const char* const names[] = {
      "dgx-1v-16g", "dgx-1v-32g", "dgx-2",       "dgx-a100-40g", "dgx-a100-80g", "dgx-h100",
      "hgx-h200",   "dgx-b200",   "gb200-nvl72", "gb300-nvl72",  "aws-p3dn",     "aws-p4d",
      "aws-p4de",   "aws-p5",     "aws-p5en",    "aws-p6-b200",  "azure-ndv2",   "azure-ndv4",
      "azure-ndv5", "gcp-a2",     "gcp-a3"};
  for (const char* name : names) EXPECT_EQ(catalogue.nodes.count(name), 1U) << name;
  const model::Node& dgx_a100 = catalogue.nodes.at("dgx-a100-80g");
  EXPECT_EQ(dgx_a100.num_nics, 8);
  EXPECT_EQ(dgx_a100.nic_per_direction.value, 25e9);
  EXPECT_EQ(dgx_a100.nic_type, "HDR IB");
  EXPECT_EQ(catalogue.nodes.at("aws-p5").num_nics, 32);
  EXPECT_EQ(catalogue.nodes.at("aws-p5").price_per_hour.value, 55.04);
  // Every GPU of the cube mesh has six links.
  const model::Node& dgx1 = catalogue.nodes.at("dgx-1v-32g");
  ASSERT_EQ(dgx1.nvlink_matrix.size(), 8U);
  for (const auto& row : dgx1.nvlink_matrix) {
    int links = 0;
    for (const int count : row) links += count;
    EXPECT_EQ(links, 6);
  }
}

TEST(HardwareCatalogue, ExplainsItsSourcesAndAliases) {
  EXPECT_GT(hardware_source_texts().size(), 40U);
  EXPECT_EQ(load_hardware_catalogue().gpu_aliases.at("H100"), "H100-SXM5-80GB");
  EXPECT_TRUE(is_ambiguous_gpu_name("A100"));
  EXPECT_FALSE(is_ambiguous_gpu_name("A100-40GB"));
}

TEST(HardwareReader, TakesWhatAUserAdds) {
  const auto document = parse_yaml("f.yaml", R"(
gpus:
  H20: {like: H100-SXM5-80GB, sms: 78, bf16: 148 TFLOP/s, memory: 96 GB, memory_bandwidth: 4 TB/s}
  New: {memory: 100 GB, memory_usable: 90 GiB, memory_bandwidth: 5 TB/s, fp32: 90 TFLOP/s,
        bf16: 2 PFLOP/s}
nodes:
  my-box: {gpu: H20, gpus: 8, nics: 4, nic_bandwidth: 200 Gbit/s, price_per_hour: 12.5 USD/h}
  my-big-box: {like: my-box, gpus: 16}
)");
  ASSERT_TRUE(document);
  ReadContext context(document->sources);
  MapReader reader(context, document->root, "hardware");
  model::HardwareCatalogue catalogue = load_hardware_catalogue();
  add_user_hardware(reader, catalogue);
  EXPECT_EQ(to_text(context.diagnostics()), "");
  const model::Gpu& h20 = catalogue.gpus.at("H20");
  EXPECT_EQ(h20.name, "H20");
  EXPECT_EQ(h20.peak.bf16.value, 148e12);
  EXPECT_EQ(h20.peak.fp8.value, 1979e12);
  EXPECT_EQ(h20.memory_usable.value, kUsableMemoryFraction * 96e9);
  EXPECT_EQ(catalogue.gpus.at("New").memory_usable, model::operator""_GiB(90));
  EXPECT_EQ(catalogue.nodes.at("my-big-box").gpu_name, "H20");
  EXPECT_EQ(catalogue.nodes.at("my-big-box").num_gpus, 16);
  EXPECT_EQ(catalogue.nodes.at("my-big-box").price_per_hour.value, 12.5);
}

// Restated, the catalogue's own network lost its static routes.
TEST(HardwareReader, AnotherNetworkHasItsOwnRoutesAndTheSameKeepsThem) {
  const auto document = parse_yaml("f.yaml", R"(
nodes:
  same: {like: dgx-a100-80g, nic_type: HDR IB}
  other: {like: dgx-a100-80g, nic_type: NDR IB}
  said: {like: dgx-a100-80g, nic_type: NDR IB, static_routes: true}
)");
  ASSERT_TRUE(document);
  ReadContext context(document->sources);
  MapReader reader(context, document->root, "hardware");
  model::HardwareCatalogue catalogue = load_hardware_catalogue();
  add_user_hardware(reader, catalogue);
  EXPECT_EQ(to_text(context.diagnostics()), "");
  EXPECT_TRUE(catalogue.nodes.at("same").static_routes);
  EXPECT_FALSE(catalogue.nodes.at("other").static_routes);
  EXPECT_TRUE(catalogue.nodes.at("said").static_routes);
}

TEST(HardwareReader, SaysWhatAUserForgot) {
  const auto document =
      parse_yaml("f.yaml", "gpus: {X: {memory: 80}}\nnodes: {n: {like: dgx-h10}}\n");
  ReadContext context(document->sources);
  MapReader reader(context, document->root, "hardware");
  model::HardwareCatalogue catalogue;
  catalogue.nodes["dgx-h100"] = {};
  add_user_hardware(reader, catalogue);
  EXPECT_EQ(to_text(context.diagnostics()),
            "f.yaml:1:20: error: hardware.gpus.X.memory: '80' has no unit\n"
            "    1 | gpus: {X: {memory: 80}}\n"
            "      |                    ^~\n"
            "  allowed: a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, greater than 0\n"
            "f.yaml:1:11: error: hardware.gpus.X.memory_bandwidth: is missing\n"
            "    1 | gpus: {X: {memory: 80}}\n"
            "      |           ^\n"
            "  allowed: a rate, such as 3350 GB/s\n"
            "f.yaml:1:11: error: hardware.gpus.X.fp32: is missing\n"
            "    1 | gpus: {X: {memory: 80}}\n"
            "      |           ^\n"
            "  allowed: a rate, such as 67 TFLOP/s\n"
            "f.yaml:2:19: error: hardware.nodes.n.like: unknown node 'dgx-h10'\n"
            "    2 | nodes: {n: {like: dgx-h10}}\n"
            "      |                   ^~~~~~~\n"
            "  allowed: dgx-h100; did you mean 'dgx-h100'?\n"
            "4 errors; nothing was run\n");
}

}  // namespace
}  // namespace megatwin::scenarios
