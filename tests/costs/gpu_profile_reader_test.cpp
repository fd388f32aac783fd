#include "scenarios/gpu_profile_reader.h"

#include <gtest/gtest.h>

#include "model/compute_cost.h"
#include "tests/costs/gpus.h"

namespace megatwin::scenarios {
namespace {

using tests::h200;

TEST(GpuProfileReader, EveryShippedProfileParsesAndIsComplete) {
  for (const std::string& name : shipped_profile_names()) {
    model::Gpu gpu = h200();
    gpu.name = name;
    const model::Result<model::GpuProfile> profile = gpu_profile(gpu);
    ASSERT_TRUE(profile.has_value()) << name << "\n" << model::to_text(profile.error());
    EXPECT_EQ(profile->gpu_name, name);
    EXPECT_GT(profile->memory.stream.value, 0) << name;
    EXPECT_FALSE(profile->gemm.empty()) << name;
    EXPECT_FALSE(profile->attention.empty()) << name;
    EXPECT_GT(profile->kernel_gap.value, 0) << name;
  }
}

TEST(GpuProfileReader, ReportsEveryMistakeWithItsPlace) {
  const auto profile = parse_gpu_profile("gpu: X\nmemory:\n  strem: 1 GB/s\n  ramp: 3\n", "x.yaml");
  ASSERT_FALSE(profile.has_value());
  ASSERT_EQ(profile.error().size(), 2U);
  EXPECT_EQ(profile.error()[0].line, 3);
  EXPECT_EQ(profile.error()[0].column, 3);
  EXPECT_EQ(profile.error()[0].allowed, "such as 'memory.stream'");
  EXPECT_EQ(profile.error()[1].line, 4);
}

// A GPU that no file knows: scaled from a sibling, and says so.
TEST(GpuProfileReader, UnknownGpuIsDerived) {
  model::Gpu gpu = h200();
  gpu.name = "H100-SXM5-80GB";
  gpu.memory_bandwidth = {3.35e12};
  const auto profile = gpu_profile(gpu);
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->gpu_name, "H100-SXM5-80GB");
  EXPECT_TRUE(profile->sources.contains("derived"));
  const auto measured = gpu_profile(h200());
  ASSERT_TRUE(measured.has_value());
  EXPECT_NEAR(profile->memory.stream.value / measured->memory.stream.value, 3.35 / 4.8, 1e-9);
  EXPECT_DOUBLE_EQ(profile->gemm.at(model::DataType::Bf16).sustained.value,
                   measured->gemm.at(model::DataType::Bf16).sustained.value);
}

}  // namespace
}  // namespace megatwin::scenarios
