// What an fp8 or fp4 recipe does to the operands of the linear layers: bytes of a quantised element
// and its scales, passes over the 16-bit tensor, copies for the two directions in which products
// read it, and the sizes that it can quantise. Plain arithmetic; callable from any thread.
//
// Source: NVIDIA Transformer Engine, docs/features/low_precision_training and csrc/extensions
// (normalization.cpp, activation.cpp); torchao, float8 training.
#ifndef MEGATWIN_MODEL_QUANTISATION_H_
#define MEGATWIN_MODEL_QUANTISATION_H_

#include <cstdint>
#include <string_view>

#include "model/data_type.h"
#include "model/micro_op.h"
#include "model/software_stack.h"
#include "model/units.h"

namespace megatwin::model {

struct Quantisation {
  bool on = false;
  Bytes element;              // Of a quantised element,
  Bytes scale, weight_scale;  // … of its share of the scales, and of a weight's.
  // Passes over the tensor: a largest magnitude first, then the cast. Some kernels find it on their
  // way: norms of Transformer Engine, and whatever torch.compile fuses it with.
  int reads = 1, norm_reads = 1, weight_reads = 1;
  bool copies_columns = true;  // Products along columns read a copy of their own.
  // The norm before a product writes its quantised operand, without a pass of its own.
  bool norm_casts = false;
  // Scales hold for the whole tensor: where shards of it are gathered, their magnitudes are reduced
  // first.
  bool reduces_magnitude = false;
  // What a sequence-parallel group gathers: never, beside chunked overlap only, always.
  enum class Gather { SixteenBit, Chunked, Always };
  Gather gather = Gather::Chunked;
  // Weights are quantised once a step and kept; else with every use.
  bool keeps_weights = true;
  // Inputs and weights are cast where they are used, forward along rows and backward along columns.
  bool casts_again = false;
  bool separate_gate = false;  // Gate and up-projection are matrices of their own.
};

// `reads_columns`: LoweringInput::reads_columns.
Quantisation quantisation(Precision precision, const SoftwareStack& software, bool reads_columns);

// Bytes of one quantised element with its scales in one direction.
Bytes quantised_element(const Quantisation& recipe);

enum class OperandRole { Input, NormOutput, Gradient, Weight };

// A pass that quantises `elements` 16-bit ones.
struct CastTraffic {
  Bytes read, written;
  int kernels = 1;
};
CastTraffic cast_traffic(const Quantisation& recipe, double elements, OperandRole role);

// Sizes of a layer must be multiples of so many elements for the tensor cores to take it in the
// format of the recipe; 1 without quantisation. Layers of other sizes compute in 16 bits.
std::int64_t layer_multiple(Precision precision);

// Operands' rows must be multiples of so many elements; 1 without quantisation. Transformer Engine
// refuses others, torchao leaves the layer in 16 bits.
// Source: cuBLASLt, "FP8 data types: all dimensions multiples of 16"; Transformer Engine: blocks.
std::int64_t operand_multiple(Precision precision);

// A linear layer on one rank, of `matrices` equal ones beside each other along the outputs.
struct LinearLayer {
  std::int64_t outputs = 0, inputs = 0;
  int matrices = 1;
};

// The format that the layer computes in: that of the recipe, or 16 bits where its sizes do not fit.
DataType linear_type(Precision precision, const LinearLayer& layer);

// What shares a scale in the products of the recipe.
GemmScaling gemm_scaling(Precision precision, const SoftwareStack& software, bool reads_columns,
                         GemmLayout layout);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_QUANTISATION_H_
