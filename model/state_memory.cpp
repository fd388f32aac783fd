#include "model/state_memory.h"

namespace megatwin::model {
namespace {

StateBytes unsharded(StateScheme scheme) {
  switch (scheme) {
    case StateScheme::ZeroMixed:
      return {2_B, 2_B, 12_B};
    case StateScheme::MegatronBf16:
      return {2_B, 4_B, 12_B};
    case StateScheme::MegatronFp16:
      return {2_B, 2_B, 16_B};
    case StateScheme::Fp32:
      return {4_B, 4_B, 8_B};
    case StateScheme::Bf16Pure:
      return {2_B, 2_B, 4_B};
  }
  return {};
}

}  // namespace

StateBytes state_bytes_per_parameter(StateScheme scheme, int zero_stage, double shards) {
  StateBytes bytes = unsharded(scheme);
  if (zero_stage >= 1) bytes.optimizer = bytes.optimizer / shards;
  if (zero_stage >= 2) bytes.gradient = bytes.gradient / shards;
  if (zero_stage >= 3) bytes.parameter = bytes.parameter / shards;
  return bytes;
}

StateScheme state_scheme(Precision precision, const SoftwareStack& software) {
  const Framework framework = software.framework;
  switch (precision) {
    case Precision::Fp32:
    case Precision::AmpBf16:
      return StateScheme::Fp32;
    case Precision::Bf16Pure:
      return StateScheme::Bf16Pure;
    case Precision::Fp16:
      if (framework == Framework::Megatron2020 || framework == Framework::Megatron2021 ||
          framework == Framework::MegatronDeepspeed) {
        return StateScheme::MegatronFp16;
      }
      break;
    case Precision::Bf16:
    case Precision::Fp8PerTensor:
    case Precision::Fp8Current:
    case Precision::Fp8Block:
    case Precision::Mxfp8:
    case Precision::Nvfp4:
      break;
  }
  // Sharded frameworks keep fp32 parameters and 16-bit copies only while they are gathered.
  if (framework == Framework::Fsdp1 || framework == Framework::Fsdp2) return StateScheme::Fp32;
  const bool deepspeed =
      framework == Framework::MegatronDeepspeed || framework == Framework::DeepspeedZero3;
  return deepspeed ? StateScheme::ZeroMixed : StateScheme::MegatronBf16;
}

Bytes nccl_low_latency_buffer(const LowLatencyBuffer& buffer) {
  return buffer.lines_per_thread * buffer.threads * buffer.steps * buffer.line;
}

Bytes nccl_low_latency_128_buffer(const LowLatency128Buffer& buffer) {
  return buffer.elements_per_thread * buffer.threads * buffer.steps * buffer.element;
}

}  // namespace megatwin::model
