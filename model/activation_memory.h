// Activations that one layer keeps for its backward pass, by the closed forms of Korthikanti et
// al. (GPT of 2022) and by the same bookkeeping for a layer of today. What a given program really
// holds at its peak is the memory planner's; these are its oracle and a search's first bound.
#ifndef MEGATWIN_MODEL_ACTIVATION_MEMORY_H_
#define MEGATWIN_MODEL_ACTIVATION_MEMORY_H_

#include "model/plan.h"
#include "model/units.h"

namespace megatwin::model {

struct GptLayerShape {
  double sequence = 0;     // s
  double micro_batch = 1;  // b
  double hidden = 0;       // h
  double heads = 0;        // a
};

struct ActivationSetting {
  double tensor = 1;  // t
  bool sequence_parallel = false;
  RecomputeKind recompute = RecomputeKind::None;
};

// Bytes of one layer in 16 bits with dropout masks of one byte.
// Source: Korthikanti et al., arXiv:2205.05198, eqs. 1 (t = 1), 2, 4, 6 and table 2:
// sbh(34 + 5as/h); sbh(10 + 24/t + 5as/(ht)); the same ÷ t with sequence parallelism; selective
// recompute drops 5as/h; full recompute keeps the input, 2sbh.
Bytes gpt_layer_activations(const GptLayerShape& shape, const ActivationSetting& setting);

// Parts of eq. 1: attention 11sbh + 5as²b, feed-forward 19sbh, the two norms 4sbh.
struct GptLayerParts {
  Bytes attention, feed_forward, norms;
};
GptLayerParts gpt_layer_parts(const GptLayerShape& shape);

// Stage 0 of 1F1B holds p micro-batches of L/p layers: L layers, times 1 + (p−1)/(p·v) when
// interleaved. Source: the same, eq. 5 and section 4.2.3.
double interleaved_memory_factor(double stages, double chunks);
Bytes first_stage_activations(Bytes layer, double num_layers, double stages, double chunks);

// What comes on top, by stage: the embedding's dropout mask sbhp/t on the first; on the last one
// (or the only one) the final norm's input 2sbh/t, the head's input 2sbh/t and fp32 logits 4sbV/t.
// Source: the same, section 4.3.
struct ExtraActivations {
  Bytes embedding_dropout, final_norm, head_input, logits;
};
ExtraActivations extra_activations(const GptLayerShape& shape, double tensor, double stages,
                                   double vocab);

// Full recompute's bytes over those of tensor parallelism without recompute.
double full_recompute_fraction(const GptLayerShape& shape, double tensor);

// Checkpoints a stage that minimise c·A_in + (l/c)·A_int: c = sqrt(l·A_int/A_in).
// Source: SC21, arXiv:2104.04473, section 3.5.
double optimal_checkpoints(double layers, double intermediate_over_input);

// A layer of today: no dropout, fused attention, gated feed-forward, RMSNorm, grouped queries.
struct ModernLayerShape {
  double sequence = 0, micro_batch = 1, hidden = 0, ffn = 0;
  double heads = 0, key_value_heads = 0;
  double tensor = 1, context = 1;     // With sequence parallelism everything divides by t·c.
  bool recompute_activation = false;  // SwiGLU's product: −2sbf.
  bool recompute_norms = false;       // −4sbh.
};
// sbh(12 + 4g) + 6sbf + 4sbn_q bytes, g = key-value heads ÷ heads (derived; query width = h).
Bytes modern_layer_activations(const ModernLayerShape& shape);

// Megatron-LM's own estimate with sequence parallelism and selective recompute:
// sbh(18 + 4f/h)/t. Source: Megatron-LM, theoretical_memory_usage.py.
Bytes megatron_estimate_layer_activations(const ModernLayerShape& shape);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_ACTIVATION_MEMORY_H_
