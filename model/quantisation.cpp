#include "model/quantisation.h"

namespace megatwin::model {
namespace {

// torchao casts dynamically, saves the 16-bit operands and knows tensors and rows, no blocks; the
// others stand for Transformer Engine.
bool is_torchao(const SoftwareStack& software) {
  return software.framework == Framework::Fsdp2 || software.framework == Framework::PytorchCompile;
}

}  // namespace

Quantisation quantisation(Precision precision, const SoftwareStack& software, bool reads_columns) {
  Quantisation recipe;
  const DataType type = gemm_type(precision);
  recipe.on = type == DataType::Fp8 || type == DataType::Fp4;
  if (!recipe.on) return recipe;
  recipe.element = size_of(type);
  // Megatron-LM tells Transformer Engine which micro-batch is the first of a step.
  recipe.keeps_weights =
      software.framework == Framework::Megatwin || software.framework == Framework::MegatronCore;
  switch (precision) {
    case Precision::Fp8PerTensor:
      recipe.copies_columns = !reads_columns;
      recipe.norm_casts = true;  // The scale is known before the tensor is.
      break;
    case Precision::Fp8Current:
      recipe.copies_columns = !reads_columns;
      recipe.reads = recipe.weight_reads = 2;
      recipe.reduces_magnitude = true;
      break;
    case Precision::Fp8Block:  // An fp32 scale for 128 elements, for 128 × 128 of a weight.
      recipe.scale = {4.0 / 128};
      recipe.weight_scale = {4.0 / (128 * 128)};
      break;
    case Precision::Mxfp8:  // An 8-bit exponent for 32 elements, of weights too.
      recipe.scale = recipe.weight_scale = {1.0 / 32};
      break;
    case Precision::Nvfp4:  // An fp8 scale for 16 elements (16 × 16 of a weight) and one of all.
      recipe.scale = {1.0 / 16};
      recipe.weight_scale = {1.0 / 16};  // Stored for every row of 16 all the same.
      recipe.reads = recipe.weight_reads = 2;
      recipe.reduces_magnitude = true;
      break;
    case Precision::Fp32:
    case Precision::Fp16:
    case Precision::Bf16:
    case Precision::Bf16Pure:
    case Precision::AmpBf16:
      break;
  }
  if (is_torchao(software)) {
    recipe.casts_again = true;
    recipe.separate_gate = true;  // w1 and w3 in torchtitan.
    // torchtitan, parallelize_llama.py: float8 all-gathers are for tensorwise scales only.
    recipe.gather = precision == Precision::Fp8Block ? Quantisation::Gather::SixteenBit
                                                     : Quantisation::Gather::Always;
    recipe.norm_casts = false;
    // A row fits one pass; scales of whole tensors take two, of which torch.compile fuses the first
    // with what wrote the tensor.
    const bool rows = precision == Precision::Fp8Block;
    const bool compiled = software.fusion == ElementwiseFusion::FullyFused;
    recipe.weight_reads = rows ? 1 : 2;
    recipe.reads = recipe.norm_reads = rows || compiled ? 1 : 2;
    recipe.reduces_magnitude = !rows;
    if (rows) recipe.scale = recipe.weight_scale = {};  // One a row.
  }
  return recipe;
}

Bytes quantised_element(const Quantisation& recipe) { return recipe.element + recipe.scale; }

CastTraffic cast_traffic(const Quantisation& recipe, double elements, OperandRole role) {
  const bool weight = role == OperandRole::Weight;
  const Bytes one = recipe.element + (weight ? recipe.weight_scale : recipe.scale);
  // A gradient meets both of its products at once.
  const bool both = role == OperandRole::Gradient || !recipe.casts_again;
  const int copies = recipe.copies_columns && both ? 2 : 1;
  const int reads = weight                            ? recipe.weight_reads
                    : role == OperandRole::NormOutput ? recipe.norm_reads
                                                      : recipe.reads;
  return {.read = elements * (static_cast<double>(reads) * 2_B),
          .written = elements * (static_cast<double>(copies) * one),
          .kernels = reads};
}

std::int64_t operand_multiple(Precision precision) {
  switch (precision) {
    case Precision::Fp8PerTensor:
    case Precision::Fp8Current:
      return 16;
    case Precision::Fp8Block:
      return 128;
    case Precision::Mxfp8:
    case Precision::Nvfp4:
      return 32;
    case Precision::Fp32:
    case Precision::Fp16:
    case Precision::Bf16:
    case Precision::Bf16Pure:
    case Precision::AmpBf16:
      break;
  }
  return 1;
}

std::int64_t layer_multiple(Precision precision) {
  // Blocks at the edge are padded; the units themselves take 16 elements of fp8, 32 of fp4.
  const DataType type = gemm_type(precision);
  return type == DataType::Fp4 ? 32 : type == DataType::Fp8 ? 16 : 1;
}

DataType linear_type(Precision precision, const LinearLayer& layer) {
  const std::int64_t multiple = layer_multiple(precision);
  const bool fits = layer.inputs % multiple == 0 && layer.outputs / layer.matrices % multiple == 0;
  return fits ? gemm_type(precision) : base_type(precision);
}

GemmScaling gemm_scaling(Precision precision, const SoftwareStack& software, bool reads_columns,
                         GemmLayout layout) {
  // From Blackwell on the recipe runs as MXFP8, whose blocks the tensor cores scale.
  if (precision != Precision::Fp8Block || is_torchao(software) || reads_columns) {
    return GemmScaling::Uniform;
  }
  return layout == GemmLayout::WeightGradient ? GemmScaling::RowBlocks : GemmScaling::WeightBlocks;
}

}  // namespace megatwin::model
