// The AdamW step in plain C++ (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2 with a constant
// schedule multiplier). Element by element, so any shard of the parameters may be stepped alone.
#ifndef MEGATWIN_KERNELS_REFERENCE_ADAMW_H_
#define MEGATWIN_KERNELS_REFERENCE_ADAMW_H_

#include <cstdint>
#include <span>

namespace megatwin::kernels::reference {

struct AdamWSettings {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

// All spans of one size. `step` counts from 1. The gradient is read as `gradient_scale` times it.
struct AdamWStep {
  AdamWSettings settings;
  std::int64_t step = 1;
  float gradient_scale = 1;
  std::span<const float> gradients;
  std::span<float> parameters, first_moment, second_moment;
};
void adamw_step(const AdamWStep& arguments);

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_ADAMW_H_
