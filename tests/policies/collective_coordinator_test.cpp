// No order of requests deadlocks the coordinator: shown for every small case, then at random.
#include "policies/collective_coordinator.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "tests/sim/pipeline_specs.h"
#include "tests/sim/seeds.h"

namespace megatwin::policies {
namespace {

using model::RankId;
using Groups = std::vector<std::vector<RankId>>;

// Ranks 0 and 1 share a thread of control in the paper's example: 0–2 asked for early blocks 1–2.
// Here each is released when both of its own members have asked, whatever else waits.
TEST(CollectiveCoordinator, ReleasesWhenEveryMemberHasAsked) {
  const Groups groups{{RankId{0}, RankId{2}}, {RankId{1}, RankId{2}}};
  CollectiveCoordinator coordinator(groups);
  coordinator.request({0}, {0, 7});
  coordinator.request({2}, {1, 7});
  EXPECT_TRUE(coordinator.release().empty());
  coordinator.request({1}, {1, 7});
  EXPECT_EQ(coordinator.release(), (std::vector<CollectiveOperation>{{1, 7}}));
  coordinator.request({2}, {0, 7});
  EXPECT_EQ(coordinator.release(), (std::vector<CollectiveOperation>{{0, 7}}));
}

TEST(CollectiveCoordinator, OneAtATimeInsideAGroup) {
  const Groups groups(1, {RankId{0}, RankId{1}});
  CollectiveCoordinator coordinator(groups);
  for (const std::int64_t number : {1, 2}) {
    coordinator.request({0}, {0, number});
    coordinator.request({1}, {0, 3 - number});  // In the other order.
  }
  EXPECT_EQ(coordinator.state_line(), "coordinator |idle next 2 next 1");
  EXPECT_EQ(coordinator.release(), (std::vector<CollectiveOperation>{{0, 2}}));
  EXPECT_TRUE(coordinator.release().empty());
  coordinator.finish({0, 2});
  EXPECT_EQ(coordinator.release(), (std::vector<CollectiveOperation>{{0, 1}}));
}

// Every state that some order of requests and ends of operations reaches: each is left for another,
// and the only one that is not has everything done. States that are equal go on alike. A rank asks
// for the operations of a group in any order.
class Exhaustion {
 public:
  Exhaustion(const Groups& groups, int operations) : groups_(groups), operations_(operations) {
    for (int group = 0; group < std::ssize(groups); ++group) {
      for (int number = 0; number < operations; ++number) {
        for (const RankId rank : groups[static_cast<std::size_t>(group)]) {
          requests_.push_back({rank, {group, number}});
        }
      }
    }
  }

  std::int64_t num_states() const { return std::ssize(seen_); }
  void run() { visit(CollectiveCoordinator(groups_), {}); }

 private:
  struct Request {
    RankId rank;
    CollectiveOperation operation;
  };
  // Bits of requests posted, and of operations that run or are over.
  struct State {
    unsigned asked = 0, running = 0, over = 0;
  };

  unsigned bit_of(const CollectiveOperation& operation) const {
    return 1u << (operation.group * operations_ + static_cast<int>(operation.number));
  }
  unsigned bits_of_group(int group) const {
    return ((1u << operations_) - 1) << (group * operations_);
  }
  bool all_asked(unsigned asked, const CollectiveOperation& operation) const {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].operation == operation && (asked >> i & 1u) == 0) {
        return false;
      }
    }
    return true;
  }

  // What asked and over say and what runs; where operations of a group wait for each other also in
  // which order, which the coordinator's line has.
  void visit(CollectiveCoordinator coordinator, State state) {
    for (const CollectiveOperation& operation : coordinator.release()) {
      ASSERT_TRUE(all_asked(state.asked, operation));
      ASSERT_EQ((state.running | state.over) & bit_of(operation), 0u);
      ASSERT_EQ(state.running & bits_of_group(operation.group), 0u) << "two of a group at once";
      state.running |= bit_of(operation);
    }
    const std::string line = operations_ > 1 ? coordinator.state_line() : "";
    if (!seen_.insert({state.asked, state.running, state.over, line}).second) {
      return;
    }
    bool moved = false;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if ((state.asked >> i & 1u) == 0) {
        CollectiveCoordinator next = coordinator;
        next.request(requests_[i].rank, requests_[i].operation);
        visit(std::move(next), {state.asked | 1u << i, state.running, state.over});
        moved = true;
      }
    }
    for (int group = 0; group < std::ssize(groups_); ++group) {
      for (int number = 0; number < operations_; ++number) {
        const CollectiveOperation operation{group, number};
        const unsigned bit = bit_of(operation);
        if ((state.running & bit) != 0) {
          CollectiveCoordinator next = coordinator;
          next.finish(operation);
          visit(std::move(next), {state.asked, state.running & ~bit, state.over | bit});
          moved = true;
        }
      }
    }
    const unsigned all = (1u << (std::ssize(groups_) * operations_)) - 1;
    ASSERT_TRUE(moved || state.over == all) << coordinator.state_line();
  }

  Groups groups_;
  int operations_;
  std::vector<Request> requests_;
  std::set<std::tuple<unsigned, unsigned, unsigned, std::string>> seen_;
};

std::vector<RankId> ranks_of(unsigned bits) {
  std::vector<RankId> ranks;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    if ((bits >> rank & 1u) != 0) {
      ranks.push_back({rank});
    }
  }
  return ranks;
}

TEST(CollectiveCoordinator, EveryRequestOrderOfFourRanksAndThreeGroups) {
  std::int64_t num_states = 0;
  for (unsigned a = 1; a < 16; ++a) {
    for (unsigned b = a; b < 16; ++b) {
      for (unsigned c = b; c < 16; ++c) {
        Exhaustion exhaustion(Groups{ranks_of(a), ranks_of(b), ranks_of(c)}, 1);
        exhaustion.run();
        ASSERT_FALSE(HasFatalFailure());
        num_states += exhaustion.num_states();
      }
    }
  }
  EXPECT_GT(num_states, 100'000);
}

// Whether no renaming of the four ranks gives sets that come before these.
bool is_first_of_its_names(const std::vector<unsigned>& sets) {
  std::array<unsigned, 4> names{0, 1, 2, 3};
  do {
    std::vector<unsigned> renamed;
    for (const unsigned set : sets) {
      unsigned bits = 0;
      for (unsigned rank = 0; rank < 4; ++rank) bits |= (set >> rank & 1u) << names[rank];
      renamed.push_back(bits);
    }
    std::sort(renamed.begin(), renamed.end());
    if (renamed < sets) return false;
  } while (std::next_permutation(names.begin(), names.end()));
  return true;
}

// Two operations a group, which its members may ask for in opposite orders: one to three groups of
// at most six members together, since their states grow fourfold with each member. Ranks are only
// told apart, so that one case stands for all that differ in their names.
TEST(CollectiveCoordinator, EveryRequestOrderOfTwoOperationsAGroup) {
  std::int64_t num_states = 0, num_cases = 0;
  const auto exhaust = [&](const std::vector<unsigned>& sets) {
    Groups groups;
    std::size_t members = 0;
    for (const unsigned set : sets) {
      groups.push_back(ranks_of(set));
      members += groups.back().size();
    }
    if (members > 6 || !is_first_of_its_names(sets)) return;
    Exhaustion exhaustion(groups, 2);
    exhaustion.run();
    num_states += exhaustion.num_states();
    ++num_cases;
  };
  for (unsigned a = 1; a < 16; ++a) {
    exhaust({a});
    for (unsigned b = a; b < 16; ++b) {
      exhaust({a, b});
      for (unsigned c = b; c < 16; ++c) {
        exhaust({a, b, c});
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
  EXPECT_GT(num_cases, 40);
  EXPECT_GT(num_states, 100'000);
}

// Every rank asks in an order of its own, also within a group.
TEST(CollectiveCoordinator, TenThousandLargerCases) {
  for (const std::uint64_t seed : tests::seeds(10'000)) {
    tests::Random random(seed);
    const auto num_ranks = static_cast<std::int32_t>(random.in(2, 12));
    Groups groups(static_cast<std::size_t>(random.in(1, 6)));
    std::vector<std::pair<RankId, CollectiveOperation>> to_ask;
    int num_operations = 0;
    for (int group = 0; group < std::ssize(groups); ++group) {
      auto& members = groups[static_cast<std::size_t>(group)];
      while (members.empty()) {
        for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
          if (random.coin()) {
            members.push_back({rank});
          }
        }
      }
      const std::int64_t count = random.in(1, 3);
      num_operations += static_cast<int>(count);
      for (std::int64_t number = 0; number < count; ++number) {
        for (const RankId rank : members) {
          to_ask.push_back({rank, {group, number}});
        }
      }
    }
    CollectiveCoordinator coordinator(groups);
    std::vector<CollectiveOperation> running;
    int num_over = 0;
    while (num_over < num_operations) {
      for (const CollectiveOperation& operation : coordinator.release()) {
        running.push_back(operation);
      }
      ASSERT_TRUE(!to_ask.empty() || !running.empty()) << "seed " << seed;
      const bool ask = running.empty() || (!to_ask.empty() && random.coin());
      const auto last = static_cast<std::int64_t>(ask ? to_ask.size() : running.size()) - 1;
      const auto index = static_cast<std::ptrdiff_t>(random.in(0, last));
      if (ask) {
        const auto [rank, operation] = to_ask[static_cast<std::size_t>(index)];
        coordinator.request(rank, operation);
        to_ask.erase(to_ask.begin() + index);
        continue;
      }
      coordinator.finish(running[static_cast<std::size_t>(index)]);
      running.erase(running.begin() + index);
      ++num_over;
    }
  }
}

}  // namespace
}  // namespace megatwin::policies
