#include "model/balanced_layers.h"

#include <cstddef>
#include <cstdint>

#include "model/flops.h"
#include "model/heterogeneous.h"
#include "model/layer_split.h"

namespace megatwin::model {
namespace {

// Units over places that take `fixed` beside them, each at least one. Ties go to the earlier place.
std::vector<std::int64_t> dealt(std::int64_t units, const std::vector<double>& fixed, double unit) {
  return earliest_finish_split(units, fixed, std::vector<double>(fixed.size(), unit));
}

}  // namespace

double end_in_layers(const Transformer& transformer, const Plan& plan) {
  const ForwardFlop flop =
      forward_flop_per_token(transformer, FlopConvention::ModelCausalAttention);
  const auto mtp = static_cast<double>(transformer.num_mtp_layers);
  const double layers = static_cast<double>(transformer.num_layers) + mtp;
  const bool runs_again = plan.recompute == RecomputeKind::Full && plan.recompute_layers == 0;
  const Flop layer =
      (runs_again ? 4.0 / 3 : 1.0) / layers * (flop.layer_matrices + flop.attention_core);
  return mtp + ratio(flop.head / layer);
}

std::vector<int> balanced_layers(const Transformer& transformer, const Plan& plan) {
  const auto p = static_cast<std::size_t>(plan.pipeline);
  const auto v = static_cast<std::size_t>(plan.model_chunks);
  const bool in_pairs = plan.schedule == ScheduleKind::ZeroBubbleV;
  const std::int64_t unit = in_pairs ? 2 : 1;
  if (in_pairs && v != 2) return {};  // Illegal anyway.
  if (transformer.num_layers % unit != 0) return {};
  if (transformer.num_layers < static_cast<std::int64_t>(p * v)) return {};
  const double end = end_in_layers(transformer, plan);
  const auto end_rank =
      static_cast<std::size_t>(stage_of_virtual_stage(plan, static_cast<int>(p * v) - 1));
  // From the last rank to the first.
  std::vector<double> fixed(p, 0);
  fixed[p - 1 - end_rank] = end;
  const auto units = dealt(transformer.num_layers / unit, fixed, static_cast<double>(unit));
  std::vector<int> layers(p * v);
  for (std::size_t rank = 0; rank < p; ++rank) {
    const std::int64_t own = units[p - 1 - rank];
    if (in_pairs) {
      layers[rank] = layers[2 * p - 1 - rank] = static_cast<int>(own);
      continue;
    }
    if (own < static_cast<std::int64_t>(v)) return {};
    std::vector<double> chunk_fixed(v, 0);
    if (rank == end_rank) chunk_fixed.back() = end;
    const auto chunks = dealt(own, chunk_fixed, 1);
    for (std::size_t chunk = 0; chunk < v; ++chunk) {
      layers[chunk * p + rank] = static_cast<int>(chunks[chunk]);
    }
  }
  return layers;
}

}  // namespace megatwin::model
