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

struct ModelShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 0;  // Sequences.
  bool centred_norm = false;     // LayerNorm; otherwise RMSNorm.
  bool norm_bias = false;
  bool gated = true;   // SwiGLU; otherwise GELU.
  bool rotary = true;  // Otherwise learned positions.
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  int tensor = 1;
  bool sequence_parallel = false;

  std::int64_t tokens() const { return micro_batch * sequence; }
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
  // Numbers in a message between stages.
  std::int64_t message_size() const { return local_tokens() * hidden; }
};

// Why the host world cannot train `transformer` under `plan`, in words for the user; empty when it
// can. The schedule itself is checked by policies::schedule_problems().
std::vector<std::string> host_problems(const model::Transformer& transformer,
                                       const model::Plan& plan);

// Requires: host_problems() is empty.
ModelShape model_shape(const model::Transformer& transformer, const model::Plan& plan);

// Decoder layers of each virtual stage, in model order.
// Requires: host_problems() is empty.
std::vector<int> layers_of_virtual_stages(const model::Transformer& transformer,
                                          const model::Plan& plan);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MODEL_SHAPE_H_
