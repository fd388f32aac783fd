// One comparison of our solver with SimGrid, flow by flow.
#ifndef MEGATWIN_TESTS_NETWORK_AGAINST_SIMGRID_H_
#define MEGATWIN_TESTS_NETWORK_AGAINST_SIMGRID_H_

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "sim/flow/flow_net.h"
#include "tests/network/random_flows.h"

namespace megatwin::sim {

inline std::unique_ptr<FlowNet> simgrid_net() {
#ifdef MEGATWIN_SIMGRID_PLUGIN
  return make_simgrid_net(MEGATWIN_SIMGRID_PLUGIN);
#else
  return nullptr;
#endif
}

class AgainstSimgrid : public testing::Test {
 protected:
  void SetUp() override {
    simgrid_ = simgrid_net();
    if (!simgrid_) GTEST_SKIP() << "no SimGrid; apt-get install libsimgrid-dev and build again";
  }

  // Every end within 1e-9 of the other's, as a part of it.
  void expect_equal(const FlowSet& flows) {
    const auto ours = make_max_min_net()->finish_times(flows);
    const auto theirs = simgrid_->finish_times(flows);
    ASSERT_TRUE(theirs) << to_text(theirs.error());
    ASSERT_EQ(ours->size(), theirs->size());
    double worst = 0;
    for (std::size_t i = 0; i < ours->size(); ++i) {
      const double end = (*theirs)[i].value;
      if (flows.flows()[i].size.value <= 0 && end == 0) {  // A barrier at the start.
        EXPECT_EQ((*ours)[i].value, 0) << "flow " << i;
        continue;
      }
      ASSERT_GT(end, 0) << "flow " << i;
      worst = std::max(worst, std::abs((*ours)[i].value - end) / end);
    }
    EXPECT_LE(worst, 1e-9) << flows.size() << " flows";
  }

  std::unique_ptr<FlowNet> simgrid_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_TESTS_NETWORK_AGAINST_SIMGRID_H_
