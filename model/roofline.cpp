#include "model/roofline.h"

#include <algorithm>

#include "model/gemm_cost.h"

namespace megatwin::model {
namespace {

std::int64_t divide_up(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

}  // namespace

FlopPerSecond peak_from_clock(Hertz clock, double fma_per_clock, double tensor_cores) {
  return {clock.value * fma_per_clock * 2 * tensor_cores};
}

BytesPerSecond memory_bandwidth_from_clock(Hertz clock, Bytes bus_width) {
  return {clock.value * bus_width.value * 2};
}

FlopPerByte roofline_ridge(FlopPerSecond peak, BytesPerSecond bandwidth) {
  return peak / bandwidth;
}

Seconds roofline_time(Flop work, FlopPerSecond peak, Bytes bytes, BytesPerSecond bandwidth) {
  return std::max(work / peak, bytes / bandwidth);
}

std::int64_t num_tiles(const GemmShape& shape, std::int64_t tile_m, std::int64_t tile_n) {
  return shape.batch * divide_up(shape.m, tile_m) * divide_up(shape.n, tile_n);
}

std::int64_t num_waves(std::int64_t tiles, std::int64_t num_sms) {
  return divide_up(tiles, num_sms);
}

double wave_efficiency(std::int64_t tiles, std::int64_t num_sms) {
  return static_cast<double>(tiles) / static_cast<double>(num_waves(tiles, num_sms) * num_sms);
}

double tile_efficiency(const GemmShape& shape, std::int64_t tile_m, std::int64_t tile_n) {
  const std::int64_t computed = num_tiles(shape, tile_m, tile_n) * tile_m * tile_n;
  return static_cast<double>(shape.batch * shape.m * shape.n) / static_cast<double>(computed);
}

Seconds gemm_time(const GemmShape& shape, FlopPerSecond peak, double efficiency) {
  return gemm_flop(shape) / (efficiency * peak);
}

Bytes norm_traffic(double rows, double columns, Bytes element) {
  return 2 * rows * columns * element;
}

}  // namespace megatwin::model
