// A scenario file to jobs: the one entry for everything that a user writes about a training run.
// Either every job is complete and stands for itself, or every problem of the input is listed.
#ifndef MEGATWIN_SCENARIOS_SCENARIO_H_
#define MEGATWIN_SCENARIOS_SCENARIO_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/diagnostic.h"
#include "model/job.h"
#include "model/result.h"
#include "model/training.h"
#include "model/training_wish.h"

namespace megatwin::scenarios {

// What the command line adds to a file.
struct ScenarioOptions {
  std::vector<std::string> set;  // "plan.tensor=4": replaces or adds a key.
  // What another option stands for, under that option's name, after `set`.
  std::vector<std::pair<std::string, std::string>> implied;
  std::vector<std::string> sweep;  // "plan.tensor=1,2,4": one job a value; several multiply.
  bool needs_cluster = true;       // Without one, a real run counts its ranks by the plan.
  bool plan_varies = false;        // The plans that are looked at have other sizes than the file's.
};

// The `search:` section: which keys of the plan stay, and which values the others may take.
struct SearchRequest {
  std::vector<std::string> fixed;
  std::map<std::string, std::vector<std::string>> candidates;  // Key → values as written.
  // Key → where they stand, for messages: the key's own value, then each of a list. Diagnostics
  // that lack their message. Empty in a request that no file made.
  std::map<std::string, model::Diagnostics> places;
  std::optional<double> memory_margin;  // Share of a GPU's memory that is to stay free.
  std::optional<int> machines;          // Of the first kind, and no others. At most its number.
};

// A point of a sweep whose values cannot be read, or not with the rest of the scenario.
struct UnreadPoint {
  std::string name;       // As its job would be called: "job.yaml plan.expert=4".
  std::string settings;   // "plan.expert=4".
  std::size_t place = 0;  // Of all points, from 0.
  model::Diagnostics faults;
};

struct Scenario {
  std::vector<model::Job> jobs;               // One, or one a point of the sweep that can be read.
  std::vector<UnreadPoint> unread;            // The others, in the order of the sweep.
  std::optional<SearchRequest> search;        // Of the file; the same for every point.
  std::optional<model::TrainingWish> target;  // Likewise, of the first point.
  model::TrainingData data;                   // Likewise, for a run on the host.
  model::TrainingSettings training;           // Likewise.
};

// Errors: the file cannot be read, is not YAML, or does not describe a job; all problems at once.
// Of a sweep, when no point can be read: each fault once, with a point's values where others lack
// it.
model::Result<Scenario> load_scenario_file(const std::string& path,
                                           const ScenarioOptions& options = {});

// The same from text. `file` is for messages, and its folder is where relative paths start.
model::Result<Scenario> parse_scenario(const std::string& file, std::string_view text,
                                       const ScenarioOptions& options = {});

// Only the jobs. Errors: also a point of a sweep that cannot be read.
model::Result<std::vector<model::Job>> load_scenario(const std::string& path,
                                                     const ScenarioOptions& options = {});

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SCENARIO_H_
