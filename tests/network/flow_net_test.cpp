// Fair shares by hand, for each FlowNet that needs nothing installed.
#include "sim/flow/flow_net.h"

#include <gtest/gtest.h>

#include "sim/flow/max_min_network.h"
#include "tests/network/clusters.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::BytesPerSecond;
using model::Seconds;

using Links = std::vector<std::int32_t>;

// Rates of flows that all run at once.
std::vector<double> rates(const std::vector<double>& capacities, const std::vector<Links>& flows) {
  std::vector<BytesPerSecond> links;
  for (const double c : capacities) links.push_back({c});
  MaxMinNetwork network(links);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    network.start(static_cast<int>(i), Bytes{1e6}, flows[i]);
  }
  std::vector<double> result;
  for (const Links& flow : flows) result.push_back(network.rate_of(flow).value);
  return result;
}

void expect_rates(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12 * want[i]) << i;
}

// Links A and B of 10: the long flow shares both with one short flow each.
TEST(MaxMin, ParkingLot) { expect_rates(rates({10, 10}, {{0, 1}, {0}, {1}}), {5, 5, 5}); }

// Links of 10 and 4. The link of 4 is shared by two: 2 each; the other flow on the link of 10 has
// what is left, 8.
TEST(MaxMin, UnequalLinks) { expect_rates(rates({10, 4}, {{0, 1}, {0}, {1}}), {2, 8, 2}); }

// A flow capped at 2 by a link of its own leaves 8 for two others.
TEST(MaxMin, CappedFlow) { expect_rates(rates({10, 2}, {{0, 1}, {0}}), {2, 8}); }

// Three into one of 50, and a bystander on the third sender's uplink of 50: 50/3 each, the
// bystander has 50 − 50/3.
TEST(MaxMin, IncastWithABystander) {
  expect_rates(rates({50, 50, 50, 50, 50}, {{0, 3}, {1, 3}, {2, 3}, {2, 4}}),
               {50.0 / 3, 50.0 / 3, 50.0 / 3, 100.0 / 3});
}

// Four senders of 50 over an uplink of 50, and one of them also sends inside the leaf: 12.5 each,
// 37.5 for the last.
TEST(MaxMin, OversubscribedUplink) {
  expect_rates(rates({50, 50, 50, 50, 50}, {{0, 4}, {1, 4}, {2, 4}, {3, 4}, {0}}),
               {12.5, 12.5, 12.5, 12.5, 37.5});
}

// NVLink 450 GB/s and an adapter of 50: two flows leave by the adapter, one stays: 25, 25, 425.
TEST(MaxMin, NvlinkBesideTheAdapter) {
  expect_rates(rates({450e9, 50e9}, {{0, 1}, {0}, {1}}), {25e9, 425e9, 25e9});
}

// Four flows of one route and one of another on a link of 10: 2 each.
TEST(MaxMin, FlowsOfOneRouteAreOneVariable) {
  expect_rates(rates({10, 100}, {{0}, {0}, {0}, {0}, {0, 1}}), {2, 2, 2, 2, 2});
}

FlowSet one_link(double capacity) { return FlowSet({BytesPerSecond{capacity}}); }

TEST(FlowNet, LoneFlowTakesLatencyPlusSizeOverBandwidth) {
  for (const double size : {4096.0, 1e6, 1e9}) {
    FlowSet flows({BytesPerSecond{50e9}, BytesPerSecond{25e9}});
    flows.add({.size = {size}, .start = {1e-3}, .latency = {5e-6}}, Links{0, 1});
    for (const auto& net : {make_analytic_net(), make_max_min_net()}) {
      const auto finish = net->finish_times(flows);
      ASSERT_TRUE(finish);
      EXPECT_DOUBLE_EQ((*finish)[0].value, 1e-3 + 5e-6 + size / 25e9) << net->name();
    }
  }
}

// 1 GB each over 50 GB/s. The first has 10 ms alone (0.5 GB); then 25 GB/s each: the first ends at
// 10 + 20 = 30 ms; the second has moved 0.5 GB by then and ends at 30 + 10 = 40 ms. Latency has no
// say in who gets how much.
TEST(FlowNet, StaggeredStarts) {
  FlowSet flows = one_link(50e9);
  flows.add({.size = {1e9}, .start = {0}, .latency = {0}}, Links{0});
  flows.add({.size = {1e9}, .start = {8e-3}, .latency = {2e-3}}, Links{0});
  const auto finish = make_max_min_net()->finish_times(flows);
  EXPECT_NEAR((*finish)[0].value, 30e-3, 1e-15);
  EXPECT_NEAR((*finish)[1].value, 40e-3, 1e-15);
}

// 3 bytes, then 2 after it, then nothing after that: 3 + (1 + 2) + 1.
TEST(FlowNet, FollowersWaitForWhatIsBeforeThem) {
  FlowSet flows = one_link(1);
  const FlowIndex first = flows.add({.size = {3}}, Links{0});
  const FlowIndex second = flows.add({.size = {2}, .latency = {1}, .after = {first}}, Links{0});
  flows.add({.latency = {1}, .after = {first, second}}, Links{});
  for (const auto& net : {make_analytic_net(), make_max_min_net()}) {
    const auto finish = net->finish_times(flows);
    EXPECT_DOUBLE_EQ((*finish)[0].value, 3);
    EXPECT_DOUBLE_EQ((*finish)[1].value, 6);
    EXPECT_DOUBLE_EQ((*finish)[2].value, 7);
  }
}

TEST(FlowNet, SameFlowsSameBits) {
  FlowSet flows({BytesPerSecond{3}, BytesPerSecond{5}, BytesPerSecond{7}});
  for (int i = 0; i < 200; ++i) {
    flows.add({.size = {1.0 + i % 13}, .start = {0.1 * (i % 7)}},
              Links{i % 3, (i + 1 + i % 2) % 3});
  }
  const auto a = make_max_min_net()->finish_times(flows);
  const auto b = make_max_min_net()->finish_times(flows);
  EXPECT_EQ(*a, *b);
}

// Bytes over a link never exceed what it can carry, and at each end of a run somebody is limited:
// n equal flows over one link end together at n·S/B.
TEST(FlowNet, EqualFlowsEndTogether) {
  FlowSet flows = one_link(1e9);
  for (int i = 0; i < 1000; ++i) flows.add({.size = {1e6}}, Links{0});
  const auto finish = make_max_min_net()->finish_times(flows);
  for (const Seconds end : *finish) EXPECT_NEAR(end.value, 1.0, 1e-12);
}

}  // namespace
}  // namespace megatwin::sim
