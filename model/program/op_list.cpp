#include "model/program/op_list.h"

#include <algorithm>

#include "model/flops.h"
#include "model/parameters.h"

namespace megatwin::model {

LayerSizes::LayerSizes(const LoweringInput& input) {
  const Transformer& model = input.transformer;
  const Plan& plan = input.plan;
  tensor = plan.tensor;
  context = plan.context;
  expert = plan.expert;
  expert_tensor = plan.effective_expert_tensor();
  sequence_parallel = plan.sequence_parallel && tensor > 1;
  batch = plan.micro_batch;
  sequence = model.sequence_length;
  sequence_local = sequence / context;
  tokens = batch * sequence_local;
  tokens_sp = sequence_parallel ? tokens / tensor : tokens;
  hidden = model.hidden_size;
  head_dim = model.head_dim;
  query_heads = std::max<std::int64_t>(1, model.num_attention_heads / tensor);
  key_value_heads = std::max<std::int64_t>(1, model.num_key_value_heads / tensor);
  query_width = query_heads * head_dim;
  key_value_width = key_value_heads * head_dim;
  ffn = model.ffn_hidden_size / tensor;
  const int head_tensor = input.software.shards_head ? tensor : 1;
  vocab = padded_vocab_size(model, {.tensor = head_tensor,
                                    .vocab_divisible_by = vocabulary_unit(input.software)}) /
          head_tensor;
  element = size_of(base_type(plan.precision)).value;
  precision = plan.precision;
  quantisation = model::quantisation(plan.precision, input.software, input.reads_columns);
  // Released weights are gathered in 16 bits.
  if (plan.zero_stage >= 3) quantisation.keeps_weights = false;
}

MicroOp& OpList::add(MicroOpKind kind, std::string_view name) {
  MicroOp op;
  op.kind = kind;
  op.name = name;
  op.count = count_;
  ops_.push_back(op);
  return ops_.back();
}

void OpList::gemm(std::string_view name, GemmShape shape) {
  MicroOp& op = add(MicroOpKind::Gemm, name);
  op.gemm = shape;
  const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
  const double k = static_cast<double>(shape.k), batch = static_cast<double>(shape.batch);
  const double in = size_of(shape.type).value;
  const double out = shape.accumulate_fp32 ? 4 : (shape.type == DataType::Fp32 ? 4 : 2);
  op.flop = {2 * batch * m * n * k};
  op.read = {batch * ((m * k + k * n) * in + (shape.accumulate_fp32 ? 4 * m * n : 0))};
  op.written = {batch * m * n * out};
  op.weight_gradient = shape.layout == GemmLayout::WeightGradient;
}

void OpList::attention(std::string_view name, AttentionShape shape) {
  MicroOp& op = add(MicroOpKind::Attention, name);
  op.attention = shape;
  const double b = static_cast<double>(shape.batch), a = static_cast<double>(shape.heads);
  const double q = static_cast<double>(shape.query_length);
  const double keys = static_cast<double>(shape.key_length);
  const double seen = keys_per_query(keys, static_cast<double>(shape.window), shape.causal);
  const double dims = static_cast<double>(shape.qk_dim + shape.v_dim);
  const double forward = 2 * b * a * q * seen * dims;
  // FlashAttention's backward repeats the score product: five products for the forward's two.
  op.flop = {shape.backward ? 2.5 * forward : forward};
  const double kv = static_cast<double>(shape.key_value_heads);
  const double tensors = 2 * b * (a * q * dims + kv * keys * dims);
  op.read = {shape.backward ? 1.5 * tensors : 0.6 * tensors};
  op.written = {shape.backward ? tensors : 0.4 * tensors};
  op.kernels = shape.backward ? 3 : 1;
}

void OpList::memory(std::string_view name, double read, double written, int kernels) {
  MicroOp& op = add(MicroOpKind::MemoryBound, name);
  op.read = {read};
  op.written = {written};
  op.kernels = kernels;
}

void OpList::collective(std::string_view name, CollectiveKind kind, GroupKind group, double bytes) {
  MicroOp& op = add(MicroOpKind::Collective, name);
  op.collective = kind;
  op.group = group;
  op.bytes = {bytes};
}

void OpList::add_recompute(const MicroOps& forward) { add_all(as_recompute(forward)); }

void quantise(const LayerSizes& sizes, OpList& ops, std::string_view name, std::int64_t elements,
              OperandRole role) {
  if (elements == 0) return;
  const CastTraffic cast = cast_traffic(sizes.quantisation, static_cast<double>(elements), role);
  ops.memory(name, cast.read.value, cast.written.value, cast.kernels);
}

void quantise_shard(const LayerSizes& sizes, OpList& ops, std::string_view name,
                    std::int64_t elements, OperandRole role) {
  if (elements == 0) return;
  const Quantisation& recipe = sizes.quantisation;
  // What is gathered in 16 bits is cast whole.
  const bool whole = recipe.gather == Quantisation::Gather::SixteenBit;
  if (whole && sizes.sequence_parallel) elements *= sizes.tensor;
  if (role != OperandRole::NormOutput || !recipe.norm_casts) {
    quantise(sizes, ops, name, elements, role);
  }
  if (recipe.reduces_magnitude && sizes.sequence_parallel) {
    ops.collective("cast.magnitude", CollectiveKind::AllReduce, GroupKind::Tensor, 4);
  }
}

void quantise_norm(const LayerSizes& sizes, OpList& ops, std::string_view name,
                   std::int64_t elements) {
  quantise_shard(sizes, ops, name, elements, OperandRole::NormOutput);
}

void quantise_again(const LayerSizes& sizes, OpList& ops, std::string_view name,
                    std::int64_t elements) {
  if (!sizes.quantisation.casts_again || elements == 0) return;
  quantise(sizes, ops, name, elements, OperandRole::Input);
  ops.mark_weight_gradient();
}

void quantise_weights(const LayerSizes& sizes, OpList& ops, std::int64_t weights) {
  if (sizes.quantisation.keeps_weights) return;
  quantise(sizes, ops, "weights.cast", weights, OperandRole::Weight);
}

namespace {

GemmShape linear(const LoweringInput& input, GemmLayout layout, const LinearLayer& layer) {
  const Precision precision = input.plan.precision;
  GemmShape shape;
  shape.type = linear_type(precision, layer);
  shape.layout = layout;
  if (shape.type == gemm_type(precision)) {
    shape.scaling = gemm_scaling(precision, input.software, input.reads_columns, layout);
  }
  return shape;
}

}  // namespace

GemmShape linear_forward(const LoweringInput& input, std::int64_t rows, const LinearLayer& layer) {
  GemmShape shape = linear(input, GemmLayout::Forward, layer);
  shape.m = rows;
  shape.n = layer.outputs;
  shape.k = layer.inputs;
  return shape;
}

GemmShape linear_data_gradient(const LoweringInput& input, std::int64_t rows,
                               const LinearLayer& layer) {
  GemmShape shape = linear(input, GemmLayout::DataGradient, layer);
  shape.m = rows;
  shape.n = layer.inputs;
  shape.k = layer.outputs;
  return shape;
}

GemmShape linear_weight_gradient(const LoweringInput& input, std::int64_t rows,
                                 const LinearLayer& layer) {
  GemmShape shape = linear(input, GemmLayout::WeightGradient, layer);
  shape.m = layer.outputs;
  shape.n = layer.inputs;
  shape.k = rows;
  shape.accumulate_fp32 = input.software.gradient_accumulation_fusion;
  return shape;
}

void append(MicroOps& to, const MicroOps& from) { to.insert(to.end(), from.begin(), from.end()); }

MicroOps as_recompute(const MicroOps& forward) {
  MicroOps ops = forward;
  for (MicroOp& op : ops) {
    op.recompute = true;
    op.weight_gradient = false;
  }
  return ops;
}

}  // namespace megatwin::model
