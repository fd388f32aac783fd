// No order of requests deadlocks the coordinator: shown for every small case, then at random.
#include "policies/collective_coordinator.h"

#include <set>
#include <tuple>

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
// and the only one that is not has everything done. States that are equal go on alike.
class Exhaustion {
 public:
  explicit Exhaustion(const Groups& groups) : groups_(groups) {
    for (int group = 0; group < std::ssize(groups); ++group) {
      for (const RankId rank : groups[static_cast<std::size_t>(group)]) {
        requests_.push_back({rank, group});
      }
    }
  }

  int num_states() const { return static_cast<int>(seen_.size()); }
  void run() { visit(CollectiveCoordinator(groups_), 0, 0, 0); }

 private:
  struct Request {
    RankId rank;
    int group;
  };

  bool all_asked(unsigned asked, int group) const {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].group == group && (asked >> i & 1u) == 0) {
        return false;
      }
    }
    return true;
  }

  // Bits of requests posted, and of groups whose operation runs or is over.
  void visit(CollectiveCoordinator coordinator, unsigned asked, unsigned running, unsigned over) {
    for (const CollectiveOperation& operation : coordinator.release()) {
      ASSERT_TRUE(all_asked(asked, operation.group));
      ASSERT_EQ((running | over) >> operation.group & 1u, 0u);
      running |= 1u << operation.group;
    }
    const auto key = std::tuple(asked, running, over);
    if (!seen_.insert(key).second) {
      return;
    }
    bool moved = false;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if ((asked >> i & 1u) == 0) {
        CollectiveCoordinator next = coordinator;
        next.request(requests_[i].rank, {requests_[i].group, 0});
        visit(next, asked | 1u << i, running, over);
        moved = true;
      }
    }
    for (int group = 0; group < std::ssize(groups_); ++group) {
      if ((running >> group & 1u) != 0) {
        CollectiveCoordinator next = coordinator;
        next.finish({group, 0});
        visit(next, asked, running & ~(1u << group), over | 1u << group);
        moved = true;
      }
    }
    ASSERT_TRUE(moved || over == (1u << groups_.size()) - 1) << coordinator.state_line();
  }

  Groups groups_;
  std::vector<Request> requests_;
  std::set<std::tuple<unsigned, unsigned, unsigned>> seen_;
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
        Exhaustion exhaustion(Groups{ranks_of(a), ranks_of(b), ranks_of(c)});
        exhaustion.run();
        ASSERT_FALSE(HasFatalFailure());
        num_states += exhaustion.num_states();
      }
    }
  }
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
