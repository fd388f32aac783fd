#include "model/link_ramps.h"

namespace megatwin::model {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// Fits of tests/bench/fit_gpu_profiles.py; rows and residuals in docs/constants.md, "Collectives".
// The half size of `multicast` is per rank; that of `gather` is divided by the peers.
constexpr GenerationRamps kVolta{.ring = {0.90, {4.4 * kMiB}, 1.0},
                                 .multicast = {},
                                 .gather = {0.90, {4.4 * kMiB}, 1.0},
                                 .all_to_all = {0.80, {4.4 * kMiB}, 1.0},
                                 .send = {0.90, {0.3 * kMiB}, 1.0},
                                 .exchange = {0.90, {0.3 * kMiB}, 1.0},
                                 .latency_factor = 1.4,
                                 .ll_factor = 0.35,
                                 .ll128_factor = 0.55,
                                 .pair_factor = 1.0};
constexpr GenerationRamps kAmpere{.ring = {0.761, {9.2 * kMiB}, 0.75},
                                  .multicast = {},
                                  .gather = {0.761, {18 * kMiB}, 0.75},
                                  .all_to_all = {0.80, {9.2 * kMiB}, 0.75},
                                  .send = {0.80, {2 * kMiB}, 0.75},
                                  .exchange = {0.80, {4 * kMiB}, 0.75},
                                  .latency_factor = 1.4,
                                  .ll_factor = 0.35,
                                  .ll128_factor = 0.55,
                                 .pair_factor = 0.89};
constexpr GenerationRamps kHopper{.ring = {0.922, {13.3 * kMiB}, 0.30},
                                  .multicast = {1.084, {2.0 * kMiB}, 0.75},
                                  .gather = {0.973, {196.5 * kMiB}, 0.25},
                                  .all_to_all = {0.932, {64.5 * kMiB}, 0.45},
                                  .send = {0.860, {1.9 * kMiB}, 0.45},
                                  .exchange = {1.047, {64.5 * kMiB}, 0.40},
                                  .latency_factor = 1.0,
                                  .ll_factor = 0.65,
                                  .ll128_factor = 1.0,
                                 .pair_factor = 1.0};
constexpr GenerationRamps kBlackwell{.ring = {0.868, {13.3 * kMiB}, 0.30},
                                     .multicast = {0.98, {2.47 * kMiB}, 0.65},
                                     .gather = {0.947, {196.5 * kMiB}, 0.25},
                                     .all_to_all = {0.80, {64.5 * kMiB}, 0.45},
                                     .send = {0.860, {3.8 * kMiB}, 0.45},
                                     .exchange = {0.95, {64.5 * kMiB}, 0.40},
                                     .latency_factor = 1.0,
                                     .ll_factor = 0.65,
                                     .ll128_factor = 1.0,
                                 .pair_factor = 1.0};

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
