#include "kernels/reference_adamw.h"

#include <cmath>
#include <cstddef>

namespace megatwin::kernels::reference {

void adamw_step(const AdamWStep& arguments) {
  const AdamWSettings& settings = arguments.settings;
  const auto beta1 = static_cast<float>(settings.beta1);
  const auto beta2 = static_cast<float>(settings.beta2);
  const auto step = static_cast<double>(arguments.step);
  const auto correction1 = static_cast<float>(1 - std::pow(settings.beta1, step));
  const auto correction2 = static_cast<float>(1 - std::pow(settings.beta2, step));
  const auto rate = static_cast<float>(settings.learning_rate);
  const auto decay = static_cast<float>(settings.learning_rate * settings.weight_decay);
  const auto epsilon = static_cast<float>(settings.epsilon);
  for (std::size_t i = 0; i < arguments.parameters.size(); ++i) {
    const float gradient = arguments.gradient_scale * arguments.gradients[i];
    float& first = arguments.first_moment[i];
    float& second = arguments.second_moment[i];
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    float& parameter = arguments.parameters[i];
    parameter -= decay * parameter;
    parameter -= rate * (first / correction1) / (std::sqrt(second / correction2) + epsilon);
  }
}

}  // namespace megatwin::kernels::reference
