#include "model/all_to_all_load.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/assert.h"
#include "model/numbers.h"

namespace megatwin::model {
namespace {

// Machines of the members numbered, and their adapters, all in one list.
struct Places {
  explicit Places(const std::vector<MemberSite>& members) {
    std::map<int, std::size_t> numbers;
    for (const MemberSite& member : members) {
      machine.push_back(numbers.emplace(member.machine, numbers.size()).first->second);
      width = std::max(width, as_index(member.adapter) + 1);
    }
    num_adapters = numbers.size() * width;
  }
  std::vector<std::size_t> machine;  // By member.
  std::size_t width = 1, num_adapters = 0;
};

struct PairSums {
  std::vector<double> sent_inside, got_inside, up, down;
  std::vector<int> sends_to, gets_from;
};

double largest(const std::vector<double>& list) {
  return list.empty() ? 0 : *std::max_element(list.begin(), list.end());
}

}  // namespace

AllToAllLoad all_to_all_load(const AllToAllPairs& pairs) {
  const std::vector<MemberSite>& members = pairs.members;
  const std::size_t n = members.size();
  if (n < 2) return {};
  MEGATWIN_ASSERT(pairs.weights.empty() || pairs.weights.size() == n, pairs.weights.size());
  const Places places(members);
  PairSums sums{.sent_inside = std::vector<double>(n),
                .got_inside = std::vector<double>(n),
                .down = std::vector<double>(places.num_adapters),
                .sends_to = std::vector<int>(n),
                .gets_from = std::vector<int>(n)};
  sums.up = sums.down;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double weight = pairs.weights.empty() ? 1 : pairs.weights[i][j];
      if (i == j || weight <= 0) continue;
      const std::size_t from = places.machine[i], to = places.machine[j];
      if (from == to) {
        sums.sent_inside[i] += weight;
        sums.got_inside[j] += weight;
        continue;
      }
      const std::size_t in = as_index(members[j].adapter);
      const std::size_t out = pairs.forwards ? in : as_index(members[i].adapter);
      sums.up[from * places.width + out] += weight;
      sums.down[to * places.width + in] += weight;
      ++sums.sends_to[i];
      ++sums.gets_from[j];
    }
  }
  const double mean = static_cast<double>(n);
  return {.inside = std::max(largest(sums.sent_inside), largest(sums.got_inside)) / mean,
          .adapter = std::max(largest(sums.up), largest(sums.down)) / mean,
          .peers = std::max(*std::max_element(sums.sends_to.begin(), sums.sends_to.end()),
                            *std::max_element(sums.gets_from.begin(), sums.gets_from.end()))};
}

int fewest_adapters(const std::vector<MemberSite>& members) {
  std::map<int, std::set<int>> by_machine;
  for (const MemberSite& member : members) by_machine[member.machine].insert(member.adapter);
  std::size_t fewest = members.size();
  for (const auto& [machine, adapters] : by_machine) fewest = std::min(fewest, adapters.size());
  return static_cast<int>(fewest);
}

}  // namespace megatwin::model
