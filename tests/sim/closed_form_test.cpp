// Makespans of uniform pipelines against the formulas of their papers, exactly.
#include <gtest/gtest.h>

#include "sim/pipeline_simulation.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::sim {
namespace {

using model::ScheduleKind;
using tests::uniform_spec;

constexpr Engine kEngines[] = {Engine::Dataflow, Engine::Events};

std::int64_t makespan(const tests::UniformPipeline& u, Engine engine) {
  return simulate_pipeline(uniform_spec(u), engine).makespan.ns;
}

// The last stage starts after p−1 forwards, then never waits, and its last gradient needs p−1
// backwards to reach stage 0: (p−1)·tf + m(tf + tb) + (p−1)·tb = (m+p−1)(tf+tb).
// By hand for p = 4, m = 8, tf = 1, tb = 2: 11 · 3 = 33.
TEST(ClosedForm, GPipeAndOneForwardOneBackward) {
  for (const Engine engine : kEngines) {
    EXPECT_EQ(makespan({ScheduleKind::OneForwardOneBackward, 4, 1, 8, 1, 1, 1}, engine), 33);
    for (int p = 1; p <= 9; ++p) {
      for (int m = 1; m <= 12; ++m) {
        for (const auto schedule : {ScheduleKind::GPipe, ScheduleKind::OneForwardOneBackward}) {
          EXPECT_EQ(makespan({schedule, p, 1, m, 7, 6, 5}, engine), (m + p - 1) * (7 + 11))
              << "p=" << p << " m=" << m;
        }
      }
    }
  }
}

// Ramp of one chunk instead of one stage: m·v(tf+tb) + (p−1)(tf+tb) with tf, tb of a chunk.
TEST(ClosedForm, Interleaved) {
  for (const Engine engine : kEngines) {
    for (int p = 2; p <= 6; ++p) {
      for (int v = 1; v <= 4; ++v) {
        for (int m = p; m <= 4 * p; m += p) {
          EXPECT_EQ(makespan({ScheduleKind::Interleaved, p, v, m, 4, 4, 4}, engine),
                    (m * v + p - 1) * 12)
              << "p=" << p << " v=" << v << " m=" << m;
        }
      }
    }
  }
}

// m(F+B+W) + (p−1)(F+B−W) for m ≥ p and B ≥ W (arXiv:2401.10241, Table 1).
TEST(ClosedForm, ZeroBubbleH1) {
  for (const Engine engine : kEngines) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = p; m <= 3 * p; ++m) {
        EXPECT_EQ(makespan({ScheduleKind::ZeroBubbleH1, p, 1, m, 5, 5, 5}, engine),
                  m * 15 + (p - 1) * 5)
            << "p=" << p << " m=" << m;
        EXPECT_EQ(makespan({ScheduleKind::ZeroBubbleH1, p, 1, m, 10, 12, 8}, engine),
                  m * 30 + (p - 1) * 14)
            << "p=" << p << " m=" << m;
      }
    }
  }
}

// Stage i cannot start before i forwards have passed; from there it works without a gap, so the
// step takes the 6m of work a stage and the p−1 forwards before the last stage starts.
TEST(ClosedForm, ZeroBubbleVHasNoBubble) {
  for (const Engine engine : kEngines) {
    for (int p = 1; p <= (engine == Engine::Dataflow ? 16 : 7); ++p) {
      for (int m = 2 * p; m <= 4 * p + 1; ++m) {
        const PipelineResult result =
            simulate_pipeline(uniform_spec({ScheduleKind::ZeroBubbleV, p, 2, m, 3, 3, 3}), engine);
        EXPECT_EQ(result.makespan.ns, 18 * m + 3 * (p - 1)) << "p=" << p << " m=" << m;
        for (const RankResult& rank : result.ranks) {
          EXPECT_EQ(rank.finish.ns, 18 * m + 3 * rank.stage.value) << "p=" << p << " m=" << m;
        }
      }
    }
  }
}

// Idle over total of a stage in 1F1B: (p−1)/(m+p−1) (Narayanan et al., arXiv:2104.04473, section
// 2.2, turned from idle over ideal).
TEST(ClosedForm, BubbleFraction) {
  for (const Engine engine : kEngines) {
    for (const auto& [p, m] : {std::pair{64, 512}, {16, 64}, {4, 8}, {1, 3}}) {
      const PipelineResult result = simulate_pipeline(
          uniform_spec({ScheduleKind::OneForwardOneBackward, p, 1, m, 1, 1, 1}), engine);
      for (const RankResult& rank : result.ranks) {
        EXPECT_EQ(rank.bubble.ns * (m + p - 1), result.makespan.ns * (p - 1));
        EXPECT_EQ(rank.compute.ns + rank.bubble.ns, result.makespan.ns);
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::sim
