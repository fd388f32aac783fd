// What the sub-commands ask of the rest of the program: read a job, simulate it. main() gives them
// the real one; tests give them one that answers from memory. Const members may be called from many
// threads.
#ifndef MEGATWIN_CLI_WORLD_H_
#define MEGATWIN_CLI_WORLD_H_

#include <set>
#include <string>
#include <vector>

#include "cli/report/answer.h"
#include "model/job.h"
#include "model/result.h"

namespace megatwin::cli {

// `--set plan.tensor=4`: the key's dotted path and the value as YAML.
struct Setting {
  std::string key, value;
};

struct SimulateRequest {
  std::string engine = "auto";    // "auto", "dataflow" or "events".
  std::set<std::string> without;  // Effects to leave out, each one of effect_names().
  bool explain = false;
  bool timeline = false;
};

class World {
 public:
  virtual ~World() = default;

  // Errors: every fault of the file and of the settings at once; a setting's file is "--set".
  virtual model::Result<model::Job> load_job(const std::string& file,
                                             const std::vector<Setting>& settings) const = 0;

  // Requires: each name of `without` is one of effect_names().
  virtual Answer simulate(const model::Job& job, const SimulateRequest& request) const = 0;

  virtual std::vector<std::string> effect_names() const = 0;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_WORLD_H_
