// Builds micro-op lists for the lowering: small named constructors that fill bytes and FLOP from
// the shape, so that each line of the lowering reads like the layer it describes. Private to
// lowering.
#ifndef MEGATWIN_MODEL_PROGRAM_OP_LIST_H_
#define MEGATWIN_MODEL_PROGRAM_OP_LIST_H_

#include <cstdint>
#include <string_view>
#include <utility>

#include "model/program/lowering.h"
#include "model/quantisation.h"

namespace megatwin::model {

// Sizes that every part of the lowering needs, computed once.
struct LayerSizes {
  explicit LayerSizes(const LoweringInput& input);

  std::int64_t batch;           // Sequences of a micro-batch.
  std::int64_t sequence;        // Whole length.
  std::int64_t sequence_local;  // Per context rank.
  std::int64_t tokens;          // batch · sequence_local.
  std::int64_t tokens_sp;       // tokens, divided by t under sequence parallelism.
  std::int64_t hidden;
  std::int64_t query_heads, key_value_heads;  // Per tensor rank.
  std::int64_t head_dim;
  std::int64_t query_width, key_value_width;  // heads · head_dim per tensor rank.
  std::int64_t ffn;                           // Per tensor rank, dense layer.
  std::int64_t vocab;                         // Per tensor rank, padded.
  int tensor, context, expert, expert_tensor;
  bool sequence_parallel;
  double element;  // Bytes of an activation element.
  Precision precision;
  Quantisation quantisation;  // Of the operands of linear layers.

  // The one place where it is decided whether a layer follows the recipe.
  bool quantises(const LinearLayer& layer) const {
    return quantisation.on && linear_type(precision, layer) == gemm_type(precision);
  }
  // Those of `elements` operands of the layer that are quantised: all or none.
  std::int64_t quantised(const LinearLayer& layer, std::int64_t elements) const {
    return quantises(layer) ? elements : 0;
  }
};

class OpList {
 public:
  explicit OpList(int count) : count_(count) {}

  // Linear layer, forward: (M tokens, K in) · (K, N out).
  void gemm(std::string_view name, GemmShape shape);
  void attention(std::string_view name, AttentionShape shape);
  // Element-wise work: `read` and `written` bytes over `kernels` launches.
  void memory(std::string_view name, double read, double written, int kernels = 1);
  void collective(std::string_view name, CollectiveKind kind, GroupKind group, double bytes);

  // Properties of the op added last.
  void host_launches(std::int64_t launches) {
    ops_.back().host_launches = static_cast<int>(launches);
  }
  void kernels(std::int64_t kernels) { ops_.back().kernels = static_cast<int>(kernels); }
  void mark_weight_gradient() { ops_.back().weight_gradient = true; }
  void overlap_next(int ops) { ops_.back().overlap_ops = ops; }
  void repeat(int times) { ops_.back().count *= times; }  // In every layer.
  void chunked() { ops_.back().chunked_overlap = true; }

  void add_all(const MicroOps& ops) { ops_.insert(ops_.end(), ops.begin(), ops.end()); }
  void add_recompute(const MicroOps& forward);  // Marked as recomputation.

  int count() const { return count_; }
  MicroOps take() { return std::move(ops_); }
  const MicroOps& ops() const { return ops_; }

 private:
  MicroOp& add(MicroOpKind kind, std::string_view name);

  int count_;
  MicroOps ops_;
};

// Joins the partial results of a ring's steps: part of the core attention.
inline constexpr std::string_view kRingMerge = "attention.merge";

// A 16-bit operand of a linear layer becomes a quantised one. `elements`: LayerSizes::quantised();
// nothing is added for 0.
void quantise(const LayerSizes& sizes, OpList& ops, std::string_view name, std::int64_t elements,
              OperandRole role);
// A sequence shard of an input, which is gathered afterwards.
void quantise_shard(const LayerSizes& sizes, OpList& ops, std::string_view name,
                    std::int64_t elements, OperandRole role);
// The same of what a norm puts out, which some recipes let it write quantised.
void quantise_norm(const LayerSizes& sizes, OpList& ops, std::string_view name,
                   std::int64_t elements);
// In the backward pass: inputs that were saved in 16 bits, and weights that are not kept quantised.
void quantise_again(const LayerSizes& sizes, OpList& ops, std::string_view name,
                    std::int64_t elements);
void quantise_weights(const LayerSizes& sizes, OpList& ops, std::int64_t weights);

// Products of a linear layer over `rows`.
GemmShape linear_forward(const LoweringInput& input, std::int64_t rows, const LinearLayer& layer);
GemmShape linear_data_gradient(const LoweringInput& input, std::int64_t rows,
                               const LinearLayer& layer);
GemmShape linear_weight_gradient(const LoweringInput& input, std::int64_t rows,
                                 const LinearLayer& layer);

// Rows (tokens times experts each goes to) that the experts of one rank work on in a layer.
double expert_rows(const LoweringInput& input, const LayerSizes& sizes);
// Whether experts' activations are clamped by kernels of their own, which keep their input.
bool clamps_experts_apart(const LoweringInput& input);

void append(MicroOps& to, const MicroOps& from);
// The same ops marked as recomputation; weight-gradient marks are dropped.
MicroOps as_recompute(const MicroOps& forward);

// Parts of a layer. Each appends forward and backward ops of `count` layers.
void lower_attention(const LoweringInput& input, const LayerSizes& sizes, OpList& forward,
                     OpList& backward);
void lower_dense_ffn(const LoweringInput& input, const LayerSizes& sizes, std::int64_t ffn_per_rank,
                     OpList& forward, OpList& backward);
void lower_moe_ffn(const LoweringInput& input, const LayerSizes& sizes, OpList& forward,
                   OpList& backward);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_OP_LIST_H_
