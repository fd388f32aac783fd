#include "model/link_ramps.h"

namespace megatwin::model {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// Fits of tests/bench/fit_gpu_profiles.py; rows and residuals in docs/constants.md, "Collectives".
// The half size of `multicast` is per rank.
constexpr GenerationRamps kVolta{.ring = {0.90, {7.3 * kMiB}, 1.0},
                                 .multicast = {},
                                 .gather = {0.90, {7.3 * kMiB}, 1.0},
                                 .all_to_all = {0.80, {4.4 * kMiB}, 1.0},
                                 .send = {0.90, {0.3 * kMiB}, 1.0},
                                 .exchange = {0.90, {0.3 * kMiB}, 1.0},
                                 .broadcast = {0.90, {0.3 * kMiB}, 1.0},
                                 .latency_factor = 1.4,
                                 .ll_factor = 0.35,
                                 .ll128_factor = 0.55,
                                 .pair_factor = 1.0,
                                 .gather_half_by_peers = true};
// Gathers of A100 were measured on eight GPUs alone. 189 MiB over the peers would be the same
// there, but longer on two to four than the all-reduces that hold them, which were measured: not by
// peers.
constexpr GenerationRamps kAmpere{.ring = {0.752, {8.75 * kMiB}, 0.80},
                                  .multicast = {},
                                  .gather = {0.747, {27 * kMiB}, 0.85},
                                  .all_to_all = {0.753, {26 * kMiB}, 0.85},
                                  .send = {0.80, {2 * kMiB}, 0.75},
                                  .exchange = {0.80, {4 * kMiB}, 0.75},
                                  .broadcast = {0.78, {15.5 * kMiB}, 0.80},
                                  .latency_factor = 1.4,
                                  .ll_factor = 0.35,
                                  .ll128_factor = 0.55,
                                  .pair_factor = 0.86,
                                  .gather_half_by_peers = false};
constexpr GenerationRamps kHopper{.ring = {0.879, {10.5 * kMiB}, 0.35},
                                  .multicast = {1.076, {1.91 * kMiB}, 0.75},
                                  .gather = {0.965, {187 * kMiB}, 0.25},
                                  .all_to_all = {0.942, {67.4 * kMiB}, 0.45},
                                  .send = {0.863, {1.98 * kMiB}, 0.45},
                                  .exchange = {0.952, {46.5 * kMiB}, 0.50},
                                  .broadcast = {0.863, {1.98 * kMiB}, 0.45},
                                  .latency_factor = 1.0,
                                  .ll_factor = 0.65,
                                  .ll128_factor = 1.0,
                                  .pair_factor = 1.0,
                                  .gather_half_by_peers = true};
constexpr GenerationRamps kBlackwell{.ring = {0.84, {10.5 * kMiB}, 0.35},
                                     .multicast = {0.98, {2.62 * kMiB}, 0.70},
                                     .gather = {0.94, {187 * kMiB}, 0.25},
                                     .all_to_all = {0.80, {67.4 * kMiB}, 0.45},
                                     .send = {0.860, {3.8 * kMiB}, 0.45},
                                     .exchange = {0.90, {46.5 * kMiB}, 0.50},
                                     .broadcast = {0.860, {3.8 * kMiB}, 0.45},
                                     .latency_factor = 1.0,
                                     .ll_factor = 0.65,
                                     .ll128_factor = 1.0,
                                     .pair_factor = 1.0,
                                     .gather_half_by_peers = true};

}  // namespace

const GenerationRamps& generation_ramps(NcclGeneration generation) {
  switch (generation) {
    case NcclGeneration::Volta:
      return kVolta;
    case NcclGeneration::Ampere:
      return kAmpere;
    case NcclGeneration::Hopper:
      return kHopper;
    case NcclGeneration::Blackwell:
      return kBlackwell;
  }
  return kAmpere;
}

}  // namespace megatwin::model
