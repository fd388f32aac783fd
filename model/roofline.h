// Peaks from clocks, the ridge of the roofline, and what tiles and waves leave of a matrix
// product. First-order arithmetic; fitted kernel times are compute_cost.h's.
#ifndef MEGATWIN_MODEL_ROOFLINE_H_
#define MEGATWIN_MODEL_ROOFLINE_H_

#include <cstdint>

#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

// clock · fused multiply-adds a clock and tensor core · 2 · tensor cores.
FlopPerSecond peak_from_clock(Hertz clock, double fma_per_clock, double tensor_cores);

// clock · bus width in bytes · 2 (double data rate).
BytesPerSecond memory_bandwidth_from_clock(Hertz clock, Bytes bus_width);

// Work per byte at which a kernel turns from bandwidth-bound to compute-bound.
FlopPerByte roofline_ridge(FlopPerSecond peak, BytesPerSecond bandwidth);

// max(work / peak, bytes / bandwidth).
Seconds roofline_time(Flop work, FlopPerSecond peak, Bytes bytes, BytesPerSecond bandwidth);

// Tiles of an output M × N, full waves over the multiprocessors, and tiles/(waves · SMs).
std::int64_t num_tiles(const GemmShape& shape, std::int64_t tile_m, std::int64_t tile_n);
std::int64_t num_waves(std::int64_t tiles, std::int64_t num_sms);
double wave_efficiency(std::int64_t tiles, std::int64_t num_sms);

// Part of the computed tiles that is wanted: M·N over whole tiles.
double tile_efficiency(const GemmShape& shape, std::int64_t tile_m, std::int64_t tile_n);

// gemm_flop() of gemm_cost.h at a share `efficiency` of the peak.
Seconds gemm_time(const GemmShape& shape, FlopPerSecond peak, double efficiency);

// A norm reads and writes every element once: 2·bytes·rows·columns.
Bytes norm_traffic(double rows, double columns, Bytes element);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_ROOFLINE_H_
