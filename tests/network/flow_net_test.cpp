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
  links.reserve(capacities.size());
  for (const double c : capacities) links.push_back({c});
  MaxMinNetwork network(links);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    network.start(static_cast<int>(i), Bytes{1e6}, flows[i]);
  }
  std::vector<double> result;
  result.reserve(flows.size());
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

// The same among three: 2, and 4 for each of the others.
TEST(MaxMin, CappedFlowOfThree) { expect_rates(rates({10, 2}, {{0, 1}, {0}, {0}}), {2, 4, 4}); }

// Links of 2, 7 and 10 fill one after the other: the first flow has 2, which leaves (7 − 2) / 2 =
// 2.5 for each of the two beside it, and 10 − 2.5 = 7.5 for the last.
TEST(MaxMin, ThreeLevels) {
  expect_rates(rates({2, 7, 10}, {{0, 1}, {1, 2}, {2}, {1}}), {2, 2.5, 7.5, 2.5});
}

// A message in two pieces has two shares: 3 and 2 · 3 = 6 of 9. It is what SimGrid calls a sharing
// penalty of 2 to 1; ours knows none.
TEST(MaxMin, TwoPiecesHaveTwoShares) {
  const auto three = rates({9, 100}, {{0}, {0, 1}, {0, 1}});
  expect_rates({three[0], three[1] + three[2]}, {3, 6});
}

// Two flows of one route fill a link of 4 with 2 each, and leave 10 − 2 · 2 for another.
TEST(MaxMin, FlowsOfOneRouteLeaveTheRest) {
  expect_rates(rates({4, 10}, {{0, 1}, {0, 1}, {1}}), {2, 2, 6});
}

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

// Ends of the same flows by every net that shares links as told.
void expect_ends(const FlowSet& flows, const std::vector<double>& want, bool alone) {
  for (const auto& net : {make_max_min_net(), make_analytic_net()}) {
    if (!alone && net->name() == "analytic") continue;
    const auto finish = net->finish_times(flows);
    ASSERT_TRUE(finish);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR((*finish)[i].value, want[i], 1e-12) << net->name() << ", flow " << i;
    }
  }
}

// 1 GB over 50 GB/s. At 10 ms, 0.5 GB is there; at 25 GB/s the rest takes 20 ms: 30 ms. A flow that
// starts at 40 ms takes 40 ms at 25 GB/s.
TEST(FlowChanges, LinkHalvedInMidFlow) {
  FlowSet flows = one_link(50e9);
  flows.add({.size = {1e9}}, Links{0});
  flows.add({.size = {1e9}, .start = {40e-3}}, Links{0});
  flows.change_capacity(Seconds{10e-3}, 0, BytesPerSecond{25e9});
  expect_ends(flows, {30e-3, 80e-3}, true);
}

// As above, but whole again from 20 ms: 0.5 GB by 10 ms, 0.25 GB more by 20 ms, and 0.25 GB at 50
// GB/s take 5 ms: 25 ms. The later flow finds nothing wrong: 40 + 20 = 60 ms.
TEST(FlowChanges, LinkHalvedForAWhile) {
  FlowSet flows = one_link(50e9);
  flows.add({.size = {1e9}}, Links{0});
  flows.add({.size = {1e9}, .start = {40e-3}}, Links{0});
  flows.change_capacity(Seconds{10e-3}, 0, BytesPerSecond{25e9});
  flows.change_capacity(Seconds{20e-3}, 0, BytesPerSecond{50e9});
  expect_ends(flows, {25e-3, 60e-3}, true);
}

// Two of 1 GB share 50 GB/s until 10 ms: 0.25 GB each. Then 10 GB/s for both, 5 each: 0.75 GB take
// 150 ms: 160 ms.
TEST(FlowChanges, WhoSharesGoesOnSharing) {
  FlowSet flows = one_link(50e9);
  flows.add({.size = {1e9}}, Links{0});
  flows.add({.size = {1e9}}, Links{0});
  flows.change_capacity(Seconds{10e-3}, 0, BytesPerSecond{10e9});
  expect_ends(flows, {160e-3, 160e-3}, false);
}

// 1 GB on a link of 50 GB/s goes over to one of 25 at 10 ms, with 0.5 GB left. There 0.75 GB began
// at 0, of which 0.5 GB are left. Both at 12.5 GB/s: 10 + 40 = 50 ms.
TEST(FlowChanges, WayThatLeadsElsewhereTakesItsFlowsAlong) {
  FlowSet flows({BytesPerSecond{50e9}, BytesPerSecond{25e9}});
  const WayIndex first = flows.add_way(Links{0}), second = flows.add_way(Links{1});
  flows.add_on({.size = {1e9}}, first);
  flows.add_on({.size = {0.75e9}}, second);
  flows.change_way(Seconds{10e-3}, first, second);
  expect_ends(flows, {50e-3, 50e-3}, false);
}

// Two ways over one link of 50 GB/s, 1 GB each. At 10 ms each has moved 0.25 GB and the second way
// leads nowhere: its flow ends, what comes after it starts, and the first has 0.75 GB at 50 GB/s:
// 10 + 15 = 25 ms.
TEST(FlowChanges, WayThatLeadsNowhereEndsItsFlowsOnly) {
  FlowSet flows({BytesPerSecond{50e9}, BytesPerSecond{1e9}});
  flows.add_on({.size = {1e9}}, flows.add_way(Links{0}));
  const WayIndex second = flows.add_way(Links{0});
  const FlowIndex cut = flows.add_on({.size = {1e9}}, second);
  flows.add({.size = {1e6}, .after = {cut}}, Links{1});
  flows.add_on({.size = {1e9}, .start = {20e-3}}, second);
  flows.change_way(Seconds{10e-3}, second, 0);
  expect_ends(flows, {25e-3, 10e-3, 11e-3, 20e-3}, false);
}

// Changes before the first flow and after the last.
TEST(FlowChanges, ThatNobodyMeetsChangeNothing) {
  FlowSet flows = one_link(50e9);
  flows.add({.size = {1e9}, .start = {10e-3}}, Links{0});
  flows.change_capacity(Seconds{2e-3}, 0, BytesPerSecond{1e9});
  flows.change_capacity(Seconds{5e-3}, 0, BytesPerSecond{50e9});
  flows.change_capacity(Seconds{31e-3}, 0, BytesPerSecond{1e9});
  expect_ends(flows, {30e-3}, true);
}

}  // namespace
}  // namespace megatwin::sim
