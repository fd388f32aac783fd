// What the sub-commands ask of the rest of the program: read a job, simulate it. main() gives them
// the real one; tests give them one that answers from memory. Const members may be called from many
// threads.
#ifndef MEGATWIN_CLI_WORLD_H_
#define MEGATWIN_CLI_WORLD_H_

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cli/report/answer.h"
#include "model/job.h"
#include "model/result.h"

namespace megatwin::cli {

// What the command line adds to a scenario file, as written there.
struct LoadOptions {
  std::vector<std::string> set;    // "plan.tensor=4"
  std::vector<std::string> sweep;  // "plan.tensor=1,2,4": one job a value; several multiply.
};

struct SimulateRequest {
  std::string engine = "auto";    // "auto", "dataflow" or "events".
  std::set<std::string> without;  // Effects to leave out, each one of effect_names().
  bool explain = false;
  bool timeline = false;
};

// A job; of a sweep also the refusal of a point that cannot be read.
using LoadedPoint = std::variant<model::Job, NamedAnswer>;

class World {
 public:
  virtual ~World() = default;

  // One job, or one a point of the sweep. Errors: every fault of the file and the options at once.
  virtual model::Result<std::vector<LoadedPoint>> load_points(const std::string& file,
                                                              const LoadOptions& options) const = 0;

  // The jobs alone, for who sweeps nothing.
  model::Result<std::vector<model::Job>> load_jobs(const std::string& file,
                                                   const LoadOptions& options) const {
    MEGATWIN_TRY(const std::vector<LoadedPoint> points, load_points(file, options));
    std::vector<model::Job> jobs;
    jobs.reserve(points.size());
    for (const LoadedPoint& point : points) jobs.push_back(std::get<model::Job>(point));
    return jobs;
  }

  // Requires: each name of `without` is one of effect_names().
  virtual Answer simulate(const model::Job& job, const SimulateRequest& request) const = 0;

  virtual std::vector<std::string> effect_names() const = 0;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_WORLD_H_
