// A world that answers from memory: the file's name decides what happens.
#ifndef MEGATWIN_TESTS_CLI_FAKE_WORLD_H_
#define MEGATWIN_TESTS_CLI_FAKE_WORLD_H_

#include <string>
#include <vector>

#include "cli/world.h"

namespace megatwin::tests {

// "bad.yaml" has two faults, "big.yaml" does not fit, everything else is the made-up run, on
// 512 GPUs or as many as "gpus=…" in its only sweep says.
class FakeWorld : public cli::World {
 public:
  model::Result<std::vector<cli::LoadedPoint>> load_points(
      const std::string& file, const cli::LoadOptions& options) const override;
  cli::Answer simulate(const model::Job& job, const cli::SimulateRequest& request) const override;
  std::vector<std::string> effect_names() const override { return {"tensor", "wave"}; }
};

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_CLI_FAKE_WORLD_H_
