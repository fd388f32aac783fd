// Root-mean-square normalisation, forward: out = x / sqrt(mean(x²) + epsilon) · gamma, row by row.
// Source: Zhang and Sennrich, arXiv:1910.07467, equation 4, with epsilon inside the root as in
// Llama. The CPU twin works in fp32; the kernel reads and writes bf16 and sums in fp32.
#ifndef MEGATWIN_KERNELS_RMS_NORM_H_
#define MEGATWIN_KERNELS_RMS_NORM_H_

#include <cstdint>
#include <span>

struct CUstream_st;  // A CUDA stream, so that users of this header need no CUDA.

namespace megatwin::kernels {

struct RmsNormShape {
  std::int64_t rows = 0;   // Tokens, B·T.
  std::int64_t width = 0;  // C.
};

// x, out: (rows, width), row-major; gamma: (width); inverse_rms: (rows), kept for the backward
// pass. Requires: the spans have these sizes. `out` may be `x`.
struct RmsNormReference {
  RmsNormShape shape;
  std::span<const float> x, gamma;
  std::span<float> out, inverse_rms;
  float epsilon = 1e-5F;
};
void rms_norm_forward_reference(const RmsNormReference& arguments);

// The same on the device: x, gamma, out are bf16 bit patterns, inverse_rms is fp32. Asynchronous on
// `stream`: on return the work is queued; the buffers may be reused once an event recorded after it
// has fired. Deterministic: the order of summation depends on `width` alone.
// Returns 0 or the CUDA error of the launch.
struct RmsNormDevice {
  RmsNormShape shape;
  const std::uint16_t* x = nullptr;
  const std::uint16_t* gamma = nullptr;
  std::uint16_t* out = nullptr;
  float* inverse_rms = nullptr;
  float epsilon = 1e-5F;
};
[[nodiscard]] int launch_rms_norm_forward(const RmsNormDevice& arguments, CUstream_st* stream);

}  // namespace megatwin::kernels

#endif  // MEGATWIN_KERNELS_RMS_NORM_H_
