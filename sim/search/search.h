// The best plans for a job, of all that its search space allows: every legal plan gets its memory
// and a bound, those that can still win are evaluated in full, and the finalists are simulated by
// the event engine, or over the job's network and with its disturbances, which decide their order;
// everything else is without contention and disturbances. Says why the others lost, what each
// single switch is worth, and, when nothing fits, what to relax. The same answer for any number of
// threads and processes.
#ifndef MEGATWIN_SIM_SEARCH_SEARCH_H_
#define MEGATWIN_SIM_SEARCH_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "model/processes.h"
#include "sim/search/candidates.h"
#include "sim/search/search_space.h"
#include "sim/simulation_report.h"

namespace megatwin::sim {

struct SearchOptions {
  int num_threads = 0;       // 0: as many as the machine has cores.
  double memory_margin = 0;  // Share of a GPU's memory that is to stay free.
  int num_best = 10;
  int num_losers = 60;
  // Evaluate every plan that fits, and assert that the best stay the best; the answer is the same.
  bool exhaustive = false;
  // The network on which finalists are simulated, with the job's disturbances; nothing: the job's.
  std::optional<model::NetworkKind> check;
  ResultStore* store = nullptr;  // Borrowed: where times are kept and taken from.
  // Borrowed: the other processes, each of which calls help_search(). Null: there are none.
  model::Processes* processes = nullptr;
  ProgressCallback progress;
};

struct FoundPlan {
  SimulationReport report;
  // How closely it was looked at: "dataflow", "events", or the network that its step ran over, such
  // as "maxmin"; "… with disturbances" when the job has any.
  std::string depth;
  // The step without contention and disturbances, by which plans are ranked and compared.
  model::Seconds plain_time;
};

// A plan that lost, and to what. Without the terms named it would have won, or fitted.
struct Loser {
  model::Plan plan;
  std::string reason;
  std::vector<std::string> terms;  // Names as `--without` takes them; empty: memory.
  // What the terms cost it beyond what they cost the winner, or
  std::optional<model::Seconds> too_slow;
  std::optional<model::Bytes> too_large;  // how much memory is missing.
  std::optional<model::Seconds> step_time;
};

// The best plan with one switch set otherwise.
struct SwitchEffect {
  SpaceKey key = SpaceKey::Tensor;
  std::string from, to;
  model::Plan plan;
  std::optional<model::Seconds> step_time;  // Nothing when illegal.
  std::optional<model::Bytes> memory;
  bool fits = false;
  std::string refusal;  // Why it is illegal.
};

// A plan that no other beats in time, memory and energy at once.
struct FrontPlan {
  SimulationReport report;
};

// When nothing fits or nothing is legal.
struct ImpossibleWish {
  std::string message;
  std::vector<std::string> reasons;
  std::optional<FoundPlan> nearest;  // The plan that misses by least.
  struct Relaxation {
    std::string what;  // "search.tensor also 8", "cluster.nodes: 24 instead of 16".
    std::optional<model::Plan> plan;
    std::optional<model::Seconds> step_time;
  };
  std::vector<Relaxation> relaxations;  // The one to take first is first.
};

struct SearchResult {
  std::int64_t candidates = 0;  // Legal plans.
  std::int64_t fit = 0;
  struct Evaluated {
    std::int64_t bound = 0;       // Every legal plan.
    std::int64_t dataflow = 0;    // Steps in full: the sum of the next four.
    std::int64_t of_fitting = 0;  // Of the plans that fit, by their time: none of them twice.
    std::int64_t baseline = 0;    // The file's own plan, whether or not it fits.
    std::int64_t front = 0;       // Of those above once more, for their energy.
    std::int64_t switches = 0;    // The best plan with one switch turned.
    std::int64_t events = 0;      // Finalists and plans without a fixed order, simulated.
  } evaluated;
  std::string depth;  // How closely finalists were to be looked at.
  // Fastest first; then, with a warning, those that could not be looked at so closely. Plans that
  // decide while the step runs are among them; the rest of the answer is of fixed orders.
  std::vector<FoundPlan> best;
  std::optional<FoundPlan> baseline;  // The file's own plan, when it is legal and fits.
  std::optional<int> baseline_rank;   // From 1, when it is among the evaluated.
  std::vector<Loser> losers;
  std::vector<FrontPlan> front;  // Fastest first; of a long one, evenly spread plans.
  // False when plans were left whose energy may lie below the front's (energy_front.h).
  bool front_complete = true;
  // What of the file's wishes was not searched, a sentence each.
  std::vector<std::string> not_searched;
  std::vector<SwitchEffect> switches;
  std::optional<ImpossibleWish> impossible;
  // Every plan that fits: its bound, and its time where that was needed.
  std::vector<Candidate> plans;
};

// In the first process. Errors: throws StoreError; HelperError when another process cannot go on.
SearchResult search(const model::Job& job, const SearchSpace& space,
                    const SearchOptions& options = {});

// In the other processes of options.processes, with the same job, space and memory margin and as
// many threads as they like: works for the first until its search is over.
void help_search(const model::Job& job, const SearchSpace& space, const SearchOptions& options);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_SEARCH_H_
