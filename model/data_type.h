// Number formats of weights, activations and matrix products, and the recipe that a plan names.
#ifndef MEGATWIN_MODEL_DATA_TYPE_H_
#define MEGATWIN_MODEL_DATA_TYPE_H_

#include <string_view>

#include "model/units.h"

namespace megatwin::model {

enum class DataType { Fp32, Tf32, Fp16, Bf16, Fp8, Fp4 };

constexpr Bytes size_of(DataType type) {
  switch (type) {
    case DataType::Fp32:
    case DataType::Tf32:
      return {4};
    case DataType::Fp16:
    case DataType::Bf16:
      return {2};
    case DataType::Fp8:
      return {1};
    case DataType::Fp4:
      return {0.5};
  }
  return {4};
}

constexpr std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::Fp32:
      return "fp32";
    case DataType::Tf32:
      return "tf32";
    case DataType::Fp16:
      return "fp16";
    case DataType::Bf16:
      return "bf16";
    case DataType::Fp8:
      return "fp8";
    case DataType::Fp4:
      return "fp4";
  }
  return "fp32";
}

// What the linear layers compute in. Everything else of a layer stays in `base_type`.
enum class Precision {
  Fp32,
  Fp16,          // fp16 with fp32 master weights.
  Bf16,          // bf16 with fp32 master weights.
  Bf16Pure,      // parameters, gradients and both moments in bf16, no master copy (8 B/parameter).
  AmpBf16,       // fp32 parameters and states, bf16 compute by autocast.
  Fp8PerTensor,  // one scale per tensor, from the tensors of earlier steps (delayed scaling).
  Fp8Current,    // one scale per tensor, from the tensor itself (current, "tensorwise").
  Fp8Block,      // 128 × 128 and 1 × 128 blocks.
  Mxfp8,         // 32-element blocks, Blackwell.
  Nvfp4,         // 16-element blocks, Blackwell.
};

std::string_view name_of(Precision precision);

// Format of the operands of the linear layers, and of everything that is not one.
DataType gemm_type(Precision precision);
DataType base_type(Precision precision);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_DATA_TYPE_H_
