// bf16 bit patterns on the host: the upper half of an fp32, rounded to nearest even.
#ifndef MEGATWIN_TESTS_KERNELS_BF16_H_
#define MEGATWIN_TESTS_KERNELS_BF16_H_

#include <bit>
#include <cstdint>

namespace megatwin::tests {

// Requires: finite.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_KERNELS_BF16_H_
