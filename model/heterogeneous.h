// Splitting work over devices of different speed: layers over pipeline stages, micro-batches over
// data-parallel replicas. Integer splits that minimise the slowest part, ties to the earlier
// device.
#ifndef MEGATWIN_MODEL_HETEROGENEOUS_H_
#define MEGATWIN_MODEL_HETEROGENEOUS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace megatwin::model {

// Units (layers, micro-batches) a device, minimising max(units / speed) with Σ units = total; every
// unit goes where it finishes first, which is optimal for equal units. `limits` may cap each
// device (memory), empty for none. When the caps leave no room the rest is left unplaced.
// Requires: speeds > 0.
std::vector<std::int64_t> min_max_split(std::int64_t total, std::span<const double> speeds,
                                        std::span<const std::int64_t> limits = {});

// Units a device when device i takes fixed[i] + n · per_unit[i] for n of them: each unit goes where
// it is done first, but every device gets one (its share of an optimizer step cannot be nothing).
// With no fixed times this is min_max_split(). Requires: per_unit > 0, total of at least one each.
std::vector<std::int64_t> earliest_finish_split(std::int64_t total, std::span<const double> fixed,
                                                std::span<const double> per_unit);

// The slowest part: max(units / speed).
double slowest_part(std::span<const std::int64_t> units, std::span<const double> speeds);

// Share of the devices' summed speed that an equal split uses: n · min f / Σ f.
double even_split_utilization(std::span<const double> speeds);

// Of a given split: total / (Σ speeds · slowest part).
double split_utilization(std::span<const std::int64_t> units, std::span<const double> speeds);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_HETEROGENEOUS_H_
