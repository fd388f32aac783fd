// Several training runs on one cluster: side by side, each on machines of its own from the start,
// or one after another on all that it can use.
#ifndef MEGATWIN_SIM_PURCHASE_SHARED_CLUSTER_H_
#define MEGATWIN_SIM_PURCHASE_SHARED_CLUSTER_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/units.h"

namespace megatwin::sim {

struct SharedJob {
  struct Point {
    int machines = 1;
    model::Seconds duration;
  };
  std::string name;
  std::vector<Point> points;  // At least one, machines ascending.
  std::optional<model::Seconds> deadline;
};

struct SharedSchedule {
  bool side_by_side = true;
  struct Run {
    int machines = 0;
    model::Seconds start, end;
    model::Seconds late;  // Beyond its deadline, 0 when it keeps it.
  };
  std::vector<Run> runs;  // As the jobs came.
  model::Seconds makespan;
  model::Seconds late_max;
};

// Both ways, the one with less lateness first, then with the shorter makespan. Side by side the
// division is the best there is of the given points; one after another, the earliest deadline goes
// first, which is the best order for the largest lateness (Jackson 1955).
// Nothing of a way that does not exist: more jobs than machines, side by side.
// Requires: every job has a point of at most `machines`.
std::vector<SharedSchedule> share_cluster(std::span<const SharedJob> jobs, int machines);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_SHARED_CLUSTER_H_
