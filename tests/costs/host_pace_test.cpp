#include "sim/host_pace.h"

#include <vector>

#include <gtest/gtest.h>

#include "model/compute_cost.h"
#include "scenarios/gpu_profile_reader.h"
#include "sim/product_row.h"
#include "tests/costs/gpus.h"

namespace megatwin::sim {
namespace {

class HostPaceTest : public testing::Test {
 protected:
  // A product that the host decides, at `slowdown` times what the profile says.
  scenarios::OperationRow short_product(int line, double slowdown) const {
    scenarios::OperationRow row{.line = line, .kind = "gemm", .m = 128, .n = 128, .k = 128};
    row.time = slowdown * benchmark_time(product_of(row).value(), gpu_, profile_);
    return row;
  }

  model::Gpu gpu_ = tests::h200();
  model::GpuProfile profile_ = scenarios::gpu_profile(gpu_).value();
};

TEST_F(HostPaceTest, FollowsTheStretchesOfARun) {
  std::vector<scenarios::OperationRow> run;
  for (int line = 1; line <= 20; ++line) run.push_back(short_product(line, line <= 10 ? 1 : 1.4));
  const HostPace pace(run, gpu_, profile_);
  EXPECT_NEAR(pace.slowdown(1), 1, 1e-9);
  EXPECT_NEAR(pace.slowdown(5), 1, 1e-9);
  EXPECT_NEAR(pace.slowdown(16), 1.4, 1e-9);
  EXPECT_NEAR(pace.slowdown(20), 1.4, 1e-9);
  EXPECT_NEAR(pace.slowdown(30), 1.4, 1e-9);
}

// Whatever a row says of itself changes nothing for it.
TEST_F(HostPaceTest, NeverLooksAtTheRowItself) {
  std::vector<scenarios::OperationRow> run;
  for (int line = 1; line <= 20; ++line) run.push_back(short_product(line, 0.9 + 0.01 * line));
  for (std::size_t i = 0; i < run.size(); ++i) {
    const double before = HostPace(run, gpu_, profile_).slowdown(run[i].line);
    std::vector<scenarios::OperationRow> changed = run;
    changed[i] = short_product(run[i].line, 3);
    EXPECT_EQ(HostPace(changed, gpu_, profile_).slowdown(run[i].line), before) << i;
  }
}

TEST_F(HostPaceTest, IsTheProfilesWhereARunShowsTooLittle) {
  std::vector<scenarios::OperationRow> run;
  for (int line = 1; line <= 7; ++line) run.push_back(short_product(line, 2));
  EXPECT_EQ(HostPace(run, gpu_, profile_).slowdown(3), 1);
  // Large products say nothing of the host.
  for (int line = 8; line <= 30; ++line) {
    scenarios::OperationRow large{.line = line, .kind = "gemm", .m = 8192, .n = 8192, .k = 8192};
    large.time = model::Seconds{1e-3};
    run.push_back(large);
  }
  EXPECT_EQ(HostPace(run, gpu_, profile_).slowdown(3), 1);
}

}  // namespace
}  // namespace megatwin::sim
