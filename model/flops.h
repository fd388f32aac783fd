// FLOP of a training step, by the three conventions that published numbers use. Mixing them moves
// an MFU by up to 2×, so a count never travels without its convention's name. What kernels really
// execute is program/lowering.h's; this page is for utilisation figures.
#ifndef MEGATWIN_MODEL_FLOPS_H_
#define MEGATWIN_MODEL_FLOPS_H_

#include <cstdint>
#include <string_view>

#include "model/plan.h"
#include "model/transformer.h"
#include "model/units.h"

namespace megatwin::model {

enum class FlopConvention {
  // Layers four times (forward, backward, recomputed forward), head three times, attention over
  // the full square. Source: Narayanan et al., SC21, arXiv:2104.04473, eq. 3.
  MegatronSc21Hardware,
  // Everything three times, attention over the full square. Source: Korthikanti et al.,
  // arXiv:2205.05198, eq. 7; PaLM, arXiv:2204.02311, appendix B.
  ModelFullAttention,
  // Everything three times, attention over the causal half. Source: Megatron-LM,
  // num_floating_point_operations() since 2024.
  ModelCausalAttention,
};

// One sentence for a report, such as "model FLOP, causal attention (Megatron-LM today)".
std::string_view describe(FlopConvention convention);

// Keys that one query meets, mean over a sequence of `sequence` tokens. Causal: s/2 as the
// frameworks count it; with a window w < s (0: none), w − w²/(2s), which is s/2 at w = s.
double keys_per_query(double sequence, double window, bool causal);
// The same, mean over the model's windowed and full layers.
double mean_keys_per_query(const Transformer& transformer, bool causal);

// Forward FLOP of one token, mean over a sequence. GEMMs only: the router, norms and softmax are
// not counted, as no convention counts them.
struct ForwardFlop {
  Flop layer_matrices;  // Projections and feed-forward of all layers, with prediction layers.
  Flop attention_core;  // Scores and attention over values.
  Flop head;            // Logits, one product per prediction depth.
};
ForwardFlop forward_flop_per_token(const Transformer& transformer, FlopConvention convention);

// Forward and backward (for the SC21 convention: and recompute), of one token or one step of
// `global_batch` sequences.
Flop model_flop_per_token(const Transformer& transformer, FlopConvention convention);
Flop model_flop_per_step(const Transformer& transformer, FlopConvention convention,
                         std::int64_t global_batch);

// With what is recomputed. Full: layers run forward once more, the head does not (SC21 eq. 3 for
// a GPT). Selective: the attention core counts twice, as Korthikanti et al., eq. 8, do. PerOp:
// every second product of the layers again.
Flop hardware_flop_per_token(const Transformer& transformer, FlopConvention convention,
                             RecomputeKind recompute);
Flop hardware_flop_per_step(const Transformer& transformer, FlopConvention convention,
                            RecomputeKind recompute, std::int64_t global_batch);

// 6N + 12·L·H·Q·T for one token, and 8N + 16·L·H·Q·T when all is recomputed: N parameters, L
// layers, H heads of size Q, sequence T. Source: PaLM, arXiv:2204.02311, appendix B.
struct PalmShape {
  double parameters = 0;
  double layers = 0, heads = 0, head_dim = 0, sequence_length = 0;
};
Flop palm_flop_per_token(const PalmShape& shape, bool recompute_all = false);

// What selective recompute adds to the FLOP of a GPT whose logits are negligible: 1 + s/(6h).
// Source: Korthikanti et al., arXiv:2205.05198, eq. 9.
double selective_recompute_overhead(double sequence_length, double hidden_size);

// One attention over b sequences of length s with n heads of size d: 4·b·s²·n·d, half of it when
// causal; the backward pass executes 2.5 times that (five products for two).
// Source: the convention of cuDNN's and flash-attention's benchmarks.
struct AttentionExtent {
  double batch = 1, sequence_length = 0, heads = 0, head_dim = 0;
  double value_head_dim = 0;  // 0: equal to head_dim.
  bool causal = true;
};
Flop attention_forward_flop(const AttentionExtent& extent);
Flop attention_backward_flop(const AttentionExtent& extent);

// Executed work over time, and model or hardware FLOP over what the GPUs could have done.
double flop_utilization(Flop flop, Seconds time, double num_gpus, FlopPerSecond peak);

// Time to train on `tokens` tokens: 8·T·P/(n·X) with full recompute, 6·T·P/(n·X) without.
// Source: SC21 eq. 4, T tokens, P parameters, n GPUs, X FLOP/s reached by each.
struct TrainingRun {
  double tokens = 0, parameters = 0, num_gpus = 0;
  FlopPerSecond reached_per_gpu;
  bool recompute_all = true;
};
Seconds training_time(const TrainingRun& run);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_FLOPS_H_
