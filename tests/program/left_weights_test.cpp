// Which micro-batches leave their weight gradients, against plain counting and cases by hand.
#include "model/program/left_weights.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/pipeline_shape.h"

namespace megatwin::model {
namespace {

std::string marked(int micro_batches, int left, int forward, int backward) {
  const LeftWeights rule{.share = static_cast<double>(left) / micro_batches,
                         .micro_batches = micro_batches,
                         .round = round_of(forward, backward)};
  std::string marks;
  for (std::int32_t n = 0; n < micro_batches; ++n) marks += rule.has({n}) ? 'x' : '.';
  return marks;
}

TEST(LeftWeights, AreSpreadEvenlyOverTheStep) {
  EXPECT_EQ(marked(8, 0, 1, 1), "........");
  EXPECT_EQ(marked(8, 2, 1, 1), "...x...x");
  EXPECT_EQ(marked(8, 4, 1, 1), ".x.x.x.x");
  EXPECT_EQ(marked(8, 6, 1, 1), ".xxx.xxx");
  EXPECT_EQ(marked(8, 8, 1, 1), "xxxxxxxx");
}

// Half of eight: on two instances each second one in turn, where the odd micro-batches are all of
// the second instance.
TEST(LeftWeights, GoRoundTheInstances) {
  EXPECT_EQ(marked(8, 4, 2, 1), "x..xx..x");
  EXPECT_EQ(marked(8, 4, 1, 2), ".x.x.x.x") << "one forward instance";
  EXPECT_EQ(marked(8, 2, 2, 2), "..x....x");
  EXPECT_EQ(marked(12, 4, 2, 4), "x....x....xx");
}

// Rounds of six, the last of two, whose turn would be the sixth's: it begins anew.
TEST(LeftWeights, ALastRoundGoesOnWithThoseThatItHas) {
  EXPECT_EQ(marked(8, 7, 2, 3), "xxxxx.xx");
  EXPECT_EQ(marked(8, 4, 2, 3), "xxx...x.");
  EXPECT_EQ(marked(7, 3, 3, 4), "xxx....");
}

// As many as the share; and in whole rounds of every instance of either side as many as of any
// other, or one more, where there are several forward instances.
TEST(LeftWeights, EveryInstanceLeavesAsManyOrOneMore) {
  for (int forward = 1; forward <= 4; ++forward) {
    for (int backward = 1; backward <= 4; ++backward) {
      const int round = static_cast<int>(round_of(forward, backward));
      for (int m = std::max(forward, backward); m <= 26; ++m) {
        for (int left = 0; left <= m; ++left) {
          SCOPED_TRACE(std::to_string(forward) + " to " + std::to_string(backward) + ", " +
                       std::to_string(left) + " of " + std::to_string(m));
          const std::string marks = marked(m, left, forward, backward);
          ASSERT_EQ(std::count(marks.begin(), marks.end(), 'x'), left);
          const int whole = forward == 1 ? 0 : m / round * round;
          for (const int instances : {forward, backward}) {
            std::vector<int> of_instance(static_cast<std::size_t>(instances));
            for (int n = 0; n < whole; ++n) {
              if (marks[static_cast<std::size_t>(n)] == 'x') {
                ++of_instance[static_cast<std::size_t>(n % instances)];
              }
            }
            const auto [least, most] = std::minmax_element(of_instance.begin(), of_instance.end());
            ASSERT_LE(*most - *least, 1);
          }
        }
      }
    }
  }
}

// What a shape says of its own micro-batches, against counting them.
TEST(LeftWeights, AnInstanceCountsItsOwn) {
  for (const SideInstances instances :
       {SideInstances{1, 1}, SideInstances{1, 3}, SideInstances{2, 4}, SideInstances{3, 2}}) {
    for (int left = 0; left <= 17; ++left) {
      ProgramSpec spec{.micro_batches = 17, .instances = instances};
      spec.weight_share = left / 17.0;
      int all = 0;
      for (int instance = 0; instance < instances.forward; ++instance) {
        const PipelineShape shape = side_shape(spec, PipelineSide::Forward, instance);
        int before = 0;
        for (int place = 0; place < shape.micro_batches; ++place) {
          ASSERT_EQ(shape.left_before(place), before) << left << " instance " << instance;
          before += shape.leaves(shape.micro_batch(place)) ? 1 : 0;
        }
        ASSERT_EQ(shape.left_before(shape.micro_batches), before);
        all += before;
      }
      EXPECT_EQ(all, left);
    }
  }
}

}  // namespace
}  // namespace megatwin::model
