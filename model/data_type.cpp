#include "model/data_type.h"

namespace megatwin::model {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return "fp32";
    case Precision::Fp16:
      return "fp16";
    case Precision::Bf16:
      return "bf16";
    case Precision::Bf16Pure:
      return "bf16-pure";
    case Precision::AmpBf16:
      return "amp-bf16";
    case Precision::Fp8PerTensor:
      return "fp8";
    case Precision::Fp8Current:
      return "fp8-current";
    case Precision::Fp8Block:
      return "fp8-block";
    case Precision::Mxfp8:
      return "mxfp8";
    case Precision::Nvfp4:
      return "nvfp4";
  }
  return "bf16";
}

DataType gemm_type(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return DataType::Fp32;
    case Precision::Fp16:
      return DataType::Fp16;
    case Precision::Bf16:
    case Precision::Bf16Pure:
    case Precision::AmpBf16:
      return DataType::Bf16;
    case Precision::Fp8PerTensor:
    case Precision::Fp8Current:
    case Precision::Fp8Block:
    case Precision::Mxfp8:
      return DataType::Fp8;
    case Precision::Nvfp4:
      return DataType::Fp4;
  }
  return DataType::Bf16;
}

DataType base_type(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return DataType::Fp32;
    case Precision::Fp16:
      return DataType::Fp16;
    case Precision::Bf16:
    case Precision::Bf16Pure:
    case Precision::AmpBf16:
    case Precision::Fp8PerTensor:
    case Precision::Fp8Current:
    case Precision::Fp8Block:
    case Precision::Mxfp8:
    case Precision::Nvfp4:
      return DataType::Bf16;
  }
  return DataType::Bf16;
}

}  // namespace megatwin::model
