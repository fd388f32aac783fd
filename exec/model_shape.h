// The sizes of a model as the host world trains it: a transformer cut over a tensor-parallel group,
// with a micro-batch. Also answers which models and plans the host world can run.
#ifndef MEGATWIN_EXEC_MODEL_SHAPE_H_
#define MEGATWIN_EXEC_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"

namespace megatwin::exec {

// What a job says of its experts besides how many there are.
struct ExpertSettings {
  // Each expert takes at most this many times its even share of a micro-batch's assignments, the
  // others are dropped (Lepikhin et al., arXiv:2006.16668, section 2.2); 0 drops none.
  double capacity_factor = 0;
  // Factor of the loss that balances them (Fedus et al., arXiv:2101.03961, section 2.2).
  double balance_loss = 0;
};

struct ExpertShape {
  std::int64_t count = 0;      // Of one layer; 0 for a dense model.
  std::int64_t per_token = 0;  // That a token visits.
  std::int64_t ffn = 0;
  int parallel = 1;  // Ranks that share the experts, …
  int tensor = 1;    // … and those that share each of them.
  ExpertSettings settings;

  std::int64_t local_count() const { return count / parallel; }
  std::int64_t local_ffn() const { return ffn / tensor; }
};

struct ModelShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;     // Whole, over all context-parallel ranks.
  std::int64_t micro_batch = 0;  // Sequences.
  bool centred_norm = false;     // LayerNorm; otherwise RMSNorm.
  bool norm_bias = false;
  bool gated = true;   // SwiGLU; otherwise GELU.
  bool rotary = true;  // Otherwise learned positions.
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool tied = false;         // The head is the embedding.
  std::vector<bool> is_moe;  // By layer; empty for a dense model.
  ExpertShape experts;
  int tensor = 1;
  int context = 1;
  bool sequence_parallel = false;
  int zero_stage = 0;
  int replicas = 1;         // Of dense weights …
  int expert_replicas = 1;  // … and of each expert.
  model::RecomputeKind recompute = model::RecomputeKind::None;
  int recompute_layers = 0;  // Of a chunk, from its first; 0 for all.

  bool has_experts(int layer) const {
    return !is_moe.empty() && is_moe[static_cast<std::size_t>(layer)];
  }
  // Whether layer `index` of a chunk, from 0, runs again before its backward.
  bool recomputes(int index) const {
    return recompute == model::RecomputeKind::Full &&
           (recompute_layers == 0 || index < recompute_layers);
  }
  bool recomputes_attention() const { return recompute == model::RecomputeKind::Selective; }
  bool shards_gradients() const { return zero_stage >= 2; }
  bool shards_weights() const { return zero_stage >= 3; }

  std::int64_t local_sequence() const { return sequence / context; }
  // Of this context-parallel rank.
  std::int64_t tokens() const { return micro_batch * local_sequence(); }
  // Tokens whose residual stream this rank holds: its share with sequence parallelism, else all.
  std::int64_t local_tokens() const { return sequence_parallel ? tokens() / tensor : tokens(); }
  // Widths of this rank's share of the matrices.
  std::int64_t local_heads() const { return heads / tensor; }
  std::int64_t local_kv_heads() const { return kv_heads / tensor; }
  std::int64_t query_width() const { return local_heads() * head_dim; }
  std::int64_t key_width() const { return local_kv_heads() * head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * key_width(); }
  std::int64_t local_ffn() const { return ffn / tensor; }
  std::int64_t up_width() const { return (gated ? 2 : 1) * local_ffn(); }
  std::int64_t local_vocab() const { return vocab / tensor; }
  // Gate and up of an expert.
  std::int64_t expert_up_width() const { return (gated ? 2 : 1) * experts.local_ffn(); }
  // Assignments of tokens to experts that this rank makes.
  std::int64_t assignments() const { return local_tokens() * experts.per_token; }
  // The most rows that one member of the expert-tensor group takes in from the expert group, and
  // that all of them do.
  std::int64_t arrivals_max() const;
  std::int64_t expert_rows_max() const { return experts.tensor * arrivals_max(); }
  // Assignments that one expert takes of a micro-batch, 0 for any number.
  std::int64_t expert_capacity() const;
  // Numbers in a message between stages.
  std::int64_t message_size() const { return local_tokens() * hidden; }
};

// Positions of the local tokens of a sequence, ascending. The sequence is cut into 2 · context
// chunks and member n holds the n-th from either end, so that causal attention is as much work for
// all (Megatron-LM's and Llama 3's way: arXiv:2407.21783, section 3.3.2).
std::vector<std::int64_t> local_positions(const ModelShape& shape, int context_member);

// Why the host world cannot train `transformer` under `plan`, in words for the user; empty when it
// can. The schedule itself is checked by policies::schedule_problems().
std::vector<std::string> host_problems(const model::Transformer& transformer,
                                       const model::Plan& plan);

// Requires: host_problems() is empty.
ModelShape model_shape(const model::Transformer& transformer, const model::Plan& plan,
                       const ExpertSettings& experts = {});

// Decoder layers of each virtual stage, in model order.
// Requires: host_problems() is empty.
std::vector<int> layers_of_virtual_stages(const model::Transformer& transformer,
                                          const model::Plan& plan);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MODEL_SHAPE_H_
