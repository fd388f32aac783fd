#include "model/software_stack.h"

#include <array>
#include <utility>

namespace megatwin::model {
namespace {

constexpr std::array<std::pair<Framework, std::string_view>, 12> kNames{{
    {Framework::Megatwin, "megatwin"},
    {Framework::MegatronCore, "megatron-core"},
    {Framework::Megatron2020, "megatron-2020"},
    {Framework::Megatron2021, "megatron-2021"},
    {Framework::Megatron2022, "megatron-2022"},
    {Framework::MegatronDeepspeed, "megatron-deepspeed"},
    {Framework::DeepspeedZero3, "deepspeed-zero3"},
    {Framework::Fsdp1, "fsdp1"},
    {Framework::Fsdp2, "fsdp2"},
    {Framework::Maxtext, "maxtext"},
    {Framework::Paxml, "paxml"},
    {Framework::PytorchCompile, "pytorch-compile"},
}};

// What the stacks are called by those who use them.
constexpr std::array<std::pair<std::string_view, Framework>, 6> kAliases{{
    {"megatron-lm", Framework::MegatronCore},
    {"megatron-bridge", Framework::MegatronCore},
    {"nemo", Framework::MegatronCore},
    {"torchtitan", Framework::Fsdp2},
    {"llm-foundry", Framework::Fsdp1},
    {"deepspeed-zero-3", Framework::DeepspeedZero3},
}};

// fp16 with dropout, attention scores in memory, nothing overlapped: Megatron-LM of 2020 and 2021.
SoftwareStack early_megatron(Framework framework) {
  SoftwareStack stack;
  stack.attention = AttentionKernel::Unfused;
  stack.fusion = framework == Framework::Megatron2020 ? ElementwiseFusion::Eager
                                                      : ElementwiseFusion::BiasFused;
  stack.dropout = true;
  stack.fused_cross_entropy = false;
  stack.distributed_optimizer = false;
  stack.overlap_grad_reduce = false;
  stack.overlap_param_gather = false;
  stack.overlap_tp_backward_wgrad = framework == Framework::Megatron2022;
  stack.overlap_p2p = false;
  // DeepSpeed's pipeline engine cuts what it sends over the tensor group as Megatron-LM does.
  stack.scatter_gather_p2p = framework != Framework::Megatron2020;
  stack.gradient_accumulation_fusion = framework == Framework::Megatron2022;
  // 1,440 steps of small models on A100 nodes: 3.4 ms of host a layer and micro-batch whatever the
  // shape, over some 64 kernels (scenarios/measured/vtrain_single_node.csv). Read off VTS, as what
  // other stacks have between this and 1: step_constants.h.
  stack.host_factor = 6;
  stack.default_zero_stage = 0;
  stack.default_sequence_parallel = false;
  stack.full_recompute_default = framework != Framework::Megatron2022;
  return stack;
}

SoftwareStack fully_sharded(Framework framework) {
  SoftwareStack stack;
  // llm-foundry's default was the Triton kernel; torchtitan calls torch's SDPA.
  stack.attention = framework == Framework::Fsdp1 ? AttentionKernel::FlashTriton
                                                  : AttentionKernel::FlashAttention2;
  stack.fusion = ElementwiseFusion::Eager;
  stack.fused_cross_entropy = false;
  stack.default_zero_stage = 3;
  stack.overlap_tp_backward_wgrad = false;
  stack.gradient_accumulation_fusion = false;
  stack.default_sequence_parallel = framework == Framework::Fsdp2;
  stack.host_factor = 2;
  stack.lazy_gradients = framework == Framework::Fsdp2;
  stack.keeps_pipeline_outputs = framework == Framework::Fsdp2;
  // torchao saves the 16-bit operand and casts it again; DTensor's gathered input is the operand.
  stack.saves_quantised = false;
  stack.saves_gathered_inputs = true;
  // torchtitan reports reserved memory: blocks of many sizes leave gaps. Read off the two rows of
  // TT whose loss is fused (TT-031, 032); the others judge it.
  stack.allocator_slack = framework == Framework::Fsdp2 ? 0.10 : 0.03;
  return stack;
}

SoftwareStack compiled_by_xla() {
  SoftwareStack stack;
  stack.attention = AttentionKernel::Cudnn;
  stack.default_zero_stage = 3;
  stack.gradient_accumulation_fusion = false;
  stack.python_launch = false;
  return stack;
}

}  // namespace

std::optional<Framework> framework_from_name(std::string_view name) {
  for (const auto& [framework, text] : kNames) {
    if (text == name) return framework;
  }
  for (const auto& [alias, framework] : kAliases) {
    if (alias == name) return framework;
  }
  return std::nullopt;
}

bool is_megatron(Framework framework) {
  switch (framework) {
    case Framework::MegatronCore:
    case Framework::Megatron2020:
    case Framework::Megatron2021:
    case Framework::Megatron2022:
    case Framework::MegatronDeepspeed:
      return true;
    case Framework::Megatwin:
    case Framework::DeepspeedZero3:
    case Framework::Fsdp1:
    case Framework::Fsdp2:
    case Framework::Maxtext:
    case Framework::Paxml:
    case Framework::PytorchCompile:
      return false;
  }
  return false;
}

std::int64_t vocabulary_unit(const SoftwareStack& software) {
  return is_megatron(software.framework) ? 128 : 1;
}

std::string_view name_of(Framework framework) {
  for (const auto& [candidate, text] : kNames) {
    if (candidate == framework) return text;
  }
  return "megatron-core";
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  names.reserve(kNames.size());
  for (const auto& [framework, text] : kNames) names.emplace_back(text);
  return names;
}

SoftwareStack software_stack(Framework framework) {
  SoftwareStack stack;
  switch (framework) {
    case Framework::Megatwin:
      stack.python_launch = false;
      break;
    case Framework::MegatronCore:
      stack.overlap_tensor_parallel = true;
      stack.host_factor = 3;
      break;
    case Framework::Megatron2020:
    case Framework::Megatron2021:
    case Framework::Megatron2022:
    case Framework::MegatronDeepspeed:
      stack = early_megatron(framework);
      break;
    case Framework::DeepspeedZero3:
      stack = early_megatron(Framework::Megatron2021);
      stack.default_zero_stage = 3;
      stack.overlap_grad_reduce = true;
      stack.overlap_param_gather = true;
      stack.gathers_by_tensor = true;
      break;
    case Framework::Fsdp1:
    case Framework::Fsdp2:
      stack = fully_sharded(framework);
      break;
    case Framework::Maxtext:
    case Framework::Paxml:
      stack = compiled_by_xla();
      break;
    case Framework::PytorchCompile:
      stack.fused_cross_entropy = true;
      stack.distributed_optimizer = false;
      stack.default_zero_stage = 0;
      stack.gradient_accumulation_fusion = false;
      stack.overlap_param_gather = false;
      stack.shards_head = false;
      stack.lazy_gradients = true;
      stack.keeps_pipeline_outputs = true;
      stack.saves_quantised = false;
      stack.saves_gathered_inputs = true;
      stack.default_sequence_parallel = false;
      break;
  }
  stack.framework = framework;
  stack.name = name_of(framework);
  return stack;
}

}  // namespace megatwin::model
