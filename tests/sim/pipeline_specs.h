// Small pipelines for tests: uniform ones with round numbers, and random ones from a seed.
#ifndef MEGATWIN_TESTS_SIM_PIPELINE_SPECS_H_
#define MEGATWIN_TESTS_SIM_PIPELINE_SPECS_H_

#include <cstdint>

#include "model/program/program_spec.h"

namespace megatwin::tests {

struct UniformPipeline {
  model::ScheduleKind schedule = model::ScheduleKind::OneForwardOneBackward;
  int p = 1, v = 1, m = 1;
  std::int64_t forward = 0, backward_input = 0, backward_weight = 0;  // ns of a chunk.
};

// All stages and chunks alike, nothing else takes time.
inline model::ProgramSpec uniform_spec(const UniformPipeline& u) {
  model::ProgramSpec spec{
      .pipeline = u.p, .model_chunks = u.v, .micro_batches = u.m, .schedule = u.schedule};
  model::ChunkCost chunk{.forward = {u.forward},
                         .backward = {u.backward_input + u.backward_weight},
                         .backward_input = {u.backward_input},
                         .backward_weight = {u.backward_weight}};
  chunk.activation = {100};
  chunk.weight_gradient_input = {40};
  model::StageCost stage;
  stage.chunks.assign(static_cast<std::size_t>(u.v), chunk);
  spec.stages.assign(static_cast<std::size_t>(u.p), stage);
  return spec;
}

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [low, high].
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool coin() { return (next() & 1u) != 0; }

 private:
  std::uint64_t state_;
};

inline model::StageCost random_stage(Random& random, int model_chunks) {
  model::StageCost stage;
  for (int chunk = 0; chunk < model_chunks; ++chunk) {
    model::ChunkCost cost{.forward = {random.in(1, 40)}};
    cost.backward_input = {random.in(1, 60)};
    cost.backward_weight = {random.in(0, 40)};
    cost.backward = cost.backward_input + cost.backward_weight;
    cost.activation = {static_cast<double>(random.in(0, 1000))};
    cost.weight_gradient_input = {static_cast<double>(random.in(0, 500))};
    cost.forward_transient = {static_cast<double>(random.in(0, 300))};
    cost.backward_transient = {static_cast<double>(random.in(0, 300))};
    cost.gradient_reduce = {random.in(0, 80)};
    cost.parameter_gather = {random.in(0, 50)};
    stage.chunks.push_back(cost);
  }
  stage.optimizer = {random.in(0, 30)};
  stage.parameters = {static_cast<double>(random.in(0, 1000))};
  return stage;
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIM_PIPELINE_SPECS_H_
