// What goes wrong in a cluster while a job runs on it: one cause each, by the names of the topology
// ("n3/gpu2", "n0/nic1", "rail0/leaf2"). Plain data; sim/ applies it.
#ifndef MEGATWIN_MODEL_DISTURBANCE_H_
#define MEGATWIN_MODEL_DISTURBANCE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace megatwin::model {

enum class DisturbanceKind {
  SlowGpu,          // All kernels of `at` take `factor` times as long.
  Jitter,           // Every rank's kernels do, by 1 + deviation · |normal|, drawn by the seed.
  SlowLink,         // The cable from `at` to `to` has 1/factor of its bandwidth.
  FlappingLink,     // It is down for `down` of every `period`; the mean counts.
  PcieWidth,        // The slot of GPU or adapter `at` runs on `lanes` of its 16.
  DeadNic,          // The adapter's port is down; the nearest of the machine takes its traffic.
  Background,       // Another job sends from GPU `at` to GPU `to` at up to `rate`, all the time.
  ExpertImbalance,  // The busiest rank of an expert group gets `factor` times the mean tokens.
  SlowStorage,      // Checkpoints are written at `rate` in all.
};

std::string_view name_of(DisturbanceKind kind);

struct Disturbance {
  DisturbanceKind kind = DisturbanceKind::SlowGpu;
  std::string at, to;
  double factor = 1;
  double deviation = 0;
  Seconds down, period;
  int lanes = 16;
  BytesPerSecond rate;
  // ExpertImbalance by a table: tokens that the experts of rank j get from rank i of an expert
  // group, [i][j]; `factor` is then the table's. Empty: the group's first rank gets `factor` times
  // the mean, from every rank alike.
  std::vector<std::vector<double>> tokens;
  // When it holds, by the clock of the step: from `start` on, before `until`. A whole step without.
  Instant start;
  std::optional<Instant> until;

  bool is_timed() const { return start.ns > 0 || until.has_value(); }
  bool holds_at(Instant now) const { return start <= now && (!until || now < *until); }
};

// "slow-gpu n3/gpu2 × 1.3 from 4 ms until 10 ms"
std::string to_text(const Disturbance& disturbance);
// " from 4 ms until 10 ms", " until 10 ms", " from 4 ms on"; nothing for a whole step.
std::string window_of(const Disturbance& disturbance);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_DISTURBANCE_H_
