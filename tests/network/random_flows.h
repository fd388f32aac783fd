// Flow sets by a seed, for comparing one FlowNet with another: routes over a real fabric, many of
// which share two links or more with others, of unlike sizes, starting at unlike times.
#ifndef MEGATWIN_TESTS_NETWORK_RANDOM_FLOWS_H_
#define MEGATWIN_TESTS_NETWORK_RANDOM_FLOWS_H_

#include <cmath>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "sim/flow/flow_set.h"
#include "tests/network/clusters.h"

namespace megatwin::sim {

enum class Pattern { Ring, Permutation, Incast, Random, AllToAll, Tree };

struct RandomFlows {
  Pattern pattern = Pattern::Random;
  int count = 100;  // Of Random.
  unsigned seed = 1;
  double stagger = 1e-3;  // Starts are spread over so many seconds.
  bool equal_sizes = false;
  // Jobs or dimensions that overlap: so many permutations, or rings of different strides.
  int layers = 1;
};

// Neighbours, and the same GPU of the next, the third next and the 33rd machine of eight.
inline constexpr int kRingStrides[] = {1, 8, 24, 264};

inline std::vector<std::pair<int, int>> pairs_of(const RandomFlows& what, int n,
                                                 std::mt19937_64& random) {
  std::vector<std::pair<int, int>> pairs;
  std::vector<int> order(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) order[static_cast<std::size_t>(i)] = i;
  switch (what.pattern) {
    case Pattern::Ring:
      for (int layer = 0; layer < what.layers; ++layer) {
        const int stride = kRingStrides[layer % 4];
        for (int i = 0; i < n; ++i) pairs.emplace_back(i, (i + stride) % n);
      }
      break;
    case Pattern::Permutation:
      for (int layer = 0; layer < what.layers; ++layer) {
        for (int i = n - 1; i > 0; --i) {
          std::swap(order[static_cast<std::size_t>(i)],
                    order[random() % static_cast<std::uint64_t>(i + 1)]);
        }
        for (int i = 0; i < n; ++i) pairs.emplace_back(i, order[static_cast<std::size_t>(i)]);
      }
      break;
    case Pattern::Incast:
      for (int i = 1; i < n; ++i) pairs.emplace_back(i, i % 3);
      break;
    case Pattern::Random:
      for (int i = 0; i < what.count; ++i) {
        pairs.emplace_back(static_cast<int>(random() % static_cast<std::uint64_t>(n)),
                           static_cast<int>(random() % static_cast<std::uint64_t>(n)));
      }
      break;
    case Pattern::AllToAll:
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) pairs.emplace_back(i, j);
      }
      break;
    case Pattern::Tree:
      for (int i = 1; i < n; ++i) {
        pairs.emplace_back(i, (i - 1) / 2);
        pairs.emplace_back((i - 1) / 2, i);
      }
      break;
  }
  return pairs;
}

inline FlowSet random_flows(model::Router& router, const RandomFlows& what) {
  std::mt19937_64 random(what.seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11U) * 0x1p-53; };
  FlowSet flows(router.topology());
  for (const auto& [from, to] : pairs_of(what, router.topology().num_gpus(), random)) {
    if (from == to) continue;
    const auto route = router.route({.from = model::RankId{from}, .to = model::RankId{to}});
    const double size = what.equal_sizes ? 1e6 : std::floor(std::exp(uniform() * 9.2 + 9.2));
    flows.add({.size = {size}, .start = {uniform() * what.stagger}, .latency = route->latency},
              *route);
  }
  return flows;
}

// Part of the flows that share at least two of their links with flows of other routes.
inline double sharing(const FlowSet& flows) {
  std::map<std::int32_t, int> users;
  const auto count = static_cast<FlowIndex>(flows.size());
  for (FlowIndex i = 0; i < count; ++i) {
    for (const std::int32_t link : flows.links_of(i)) ++users[link];
  }
  int sharing = 0;
  for (FlowIndex i = 0; i < count; ++i) {
    int shared = 0;
    for (const std::int32_t link : flows.links_of(i)) shared += users[link] > 1 ? 1 : 0;
    if (shared >= 2) ++sharing;
  }
  return sharing / static_cast<double>(count);
}

}  // namespace megatwin::sim

#endif  // MEGATWIN_TESTS_NETWORK_RANDOM_FLOWS_H_
