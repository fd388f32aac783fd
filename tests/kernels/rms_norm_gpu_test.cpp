#include <cmath>
#include <cuda_runtime_api.h>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/rms_norm.h"
#include "tests/kernels/bf16.h"

namespace megatwin::kernels {

// Found by GoogleTest, which prints the case with it.
void PrintTo(const RmsNormShape& shape, std::ostream* out) {
  *out << shape.rows << " rows of " << shape.width;
}

namespace {

using tests::from_bf16;
using tests::to_bf16;

// A buffer on the device that is freed with its owner.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values) : size_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, size_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* data() { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

class RmsNormKernel : public testing::TestWithParam<RmsNormShape> {};

TEST_P(RmsNormKernel, EqualsItsTwinToOneStepOfBf16) {
  if (!has_gpu()) GTEST_SKIP() << "skipped: no GPU";
  const RmsNormShape shape = GetParam();
  const auto width = static_cast<std::size_t>(shape.width);
  const std::size_t size = static_cast<std::size_t>(shape.rows) * width;
  std::vector<std::uint16_t> x(size);
  std::vector<std::uint16_t> gamma(width);
  std::uint32_t state = 12345;  // Numerical Recipes' generator: the same numbers everywhere.
  const auto next = [&] {
    state = state * 1664525U + 1013904223U;
    return static_cast<float>(state >> 8U) / 8388608.0F - 1;
  };
  for (std::uint16_t& value : x) value = to_bf16(3 * next());
  for (std::uint16_t& value : gamma) value = to_bf16(1 + 0.1F * next());

  std::vector<float> x_float(size);
  std::vector<float> gamma_float(width);
  for (std::size_t i = 0; i < size; ++i) x_float[i] = from_bf16(x[i]);
  for (std::size_t i = 0; i < width; ++i) gamma_float[i] = from_bf16(gamma[i]);
  std::vector<float> expected(size);
  std::vector<float> expected_inverse(static_cast<std::size_t>(shape.rows));
  rms_norm_forward_reference({.shape = shape,
                              .x = x_float,
                              .gamma = gamma_float,
                              .out = expected,
                              .inverse_rms = expected_inverse});

  DeviceBuffer<std::uint16_t> device_x(x);
  DeviceBuffer<std::uint16_t> device_gamma(gamma);
  DeviceBuffer<std::uint16_t> device_out(std::vector<std::uint16_t>(size, 0));
  DeviceBuffer<float> device_inverse(std::vector<float>(expected_inverse.size(), 0));
  ASSERT_EQ(launch_rms_norm_forward({.shape = shape,
                                     .x = device_x.data(),
                                     .gamma = device_gamma.data(),
                                     .out = device_out.data(),
                                     .inverse_rms = device_inverse.data()},
                                    nullptr),
            0);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const std::vector<std::uint16_t> out = device_out.read();
  const std::vector<float> inverse = device_inverse.read();
  for (std::size_t i = 0; i < size; ++i) {
    // bf16 keeps 8 significant bits: rounding is off by at most 2⁻⁸, and fp32 may tip it over.
    ASSERT_NEAR(from_bf16(out[i]), expected[i], std::abs(expected[i]) / 128 + 1e-30F) << i;
  }
  for (std::size_t row = 0; row < inverse.size(); ++row) {
    ASSERT_NEAR(inverse[row], expected_inverse[row], 1e-5F * expected_inverse[row]) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(UglySizes, RmsNormKernel,
                         testing::Values(RmsNormShape{1, 1}, RmsNormShape{1, 255},
                                         RmsNormShape{7, 256}, RmsNormShape{13, 257},
                                         RmsNormShape{3, 4099}, RmsNormShape{128, 8192}),
                         [](const auto& instance) {
                           return std::to_string(instance.param.rows) + "x" +
                                  std::to_string(instance.param.width);
                         });

}  // namespace
}  // namespace megatwin::kernels
