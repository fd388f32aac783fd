// How fast the host launched while a benchmark file was written. The launch cost from Python
// belongs to the machine and the minute, not to the GPU: on the H200 grid it sat at 14 µs for a
// part of the run and at 18 to 21 µs for the rest. Short products show it; a row is never among the
// rows that its own prediction is taken from. Told apart for bf16 products only: other calls go
// through other host code, and were measured at other times.
#ifndef MEGATWIN_SIM_HOST_PACE_H_
#define MEGATWIN_SIM_HOST_PACE_H_

#include <vector>

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "scenarios/operation_rows.h"

namespace megatwin::sim {

class HostPace {
 public:
  // The profile's own launch cost throughout.
  HostPace() = default;
  // `run`: rows in the order in which they were measured; their line numbers tell how far apart.
  HostPace(const std::vector<scenarios::OperationRow>& run, const model::Gpu& gpu,
           const model::GpuProfile& profile);

  // Launch cost around a line of the file over the profile's: the median of the three nearest
  // short products. 1 where the run has fewer than eight of them.
  double slowdown(int line) const;

 private:
  struct Probe {
    int line;
    double ratio;  // Measured over priced.
  };
  std::vector<Probe> probes_;  // By line.
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_HOST_PACE_H_
