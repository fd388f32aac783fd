// The World of the program: scenarios/ reads, sim/ answers.
#ifndef MEGATWIN_CLI_REAL_WORLD_H_
#define MEGATWIN_CLI_REAL_WORLD_H_

#include <string>
#include <vector>

#include "cli/world.h"

namespace megatwin::cli {

class RealWorld : public World {
 public:
  model::Result<std::vector<LoadedPoint>> load_points(const std::string& file,
                                                      const LoadOptions& options) const override;
  Answer simulate(const model::Job& job, const SimulateRequest& request) const override;
  std::vector<std::string> effect_names() const override;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REAL_WORLD_H_
