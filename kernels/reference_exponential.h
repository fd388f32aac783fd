// exp() of many numbers in plain arithmetic, so that the compiler can run a vector of them at once.
// Float: x = n · ln 2 + r with |r| <= ln 2 / 2, and a polynomial for exp(r) (Cephes, expf.c); at
// most 2 units in the last place off, the same bits on every machine; below -87 it stays
// at 1.6e-38. Double: that of the library.
#ifndef MEGATWIN_KERNELS_REFERENCE_EXPONENTIAL_H_
#define MEGATWIN_KERNELS_REFERENCE_EXPONENTIAL_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace megatwin::kernels::reference {

[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 · 2²³: adding it leaves an integer in the low bits.
  const float bounded = std::min(std::max(x, -87.0F), 88.0F);
  const float shifted = bounded * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = bounded - n * kLn2High - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1;
  // 2ⁿ as the bits of its exponent.
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127U) << 23U;
  return p * std::bit_cast<float>(exponent);
}
[[gnu::always_inline]] inline double exponential(double x) { return std::exp(x); }

// x[i] = exp(x[i] − shift). A NaN stays one.
template <class T>
[[gnu::always_inline]] inline void exponentials(T* x, std::int64_t count, T shift) {
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = exponential(x[i] - shift);
  }
}

}  // namespace megatwin::kernels::reference

#endif  // MEGATWIN_KERNELS_REFERENCE_EXPONENTIAL_H_
