// What a training framework of a given age does with a layer: which attention it launches, what it
// fuses, what it overlaps, what its allocator wastes. A property of the job like its GPU; chosen by
// name, each switch can then be set apart. Source: spec tables of the frameworks' own code.
#ifndef MEGATWIN_MODEL_SOFTWARE_STACK_H_
#define MEGATWIN_MODEL_SOFTWARE_STACK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace megatwin::model {

enum class Framework {
  Megatwin,
  MegatronCore,
  Megatron2020,
  Megatron2021,
  Megatron2022,
  MegatronDeepspeed,
  DeepspeedZero3,
  Fsdp1,
  Fsdp2,
  Maxtext,
  Paxml,
  PytorchCompile,
};

enum class AttentionKernel {
  Unfused,          // Scores materialised: two batched GEMMs, scale-mask-softmax, dropout.
  FlashAttention2,  // torch SDPA flash, flash-attn 2.
  FlashTriton,      // The Triton kernel of early llm-foundry.
  Cudnn,            // cuDNN fused attention, flash-attn 3 class.
};

// How many element-wise kernels a layer launches beyond the GEMMs and attention.
enum class ElementwiseFusion {
  Eager,       // One kernel an operator, as PyTorch eager does it.
  BiasFused,   // bias-GELU and bias-dropout-add fused, norms fused (Megatron 2021 on).
  FullyFused,  // Transformer Engine / torch.compile: norms, SwiGLU, RoPE, residual in single
               // passes.
};

struct SoftwareStack {
  Framework framework = Framework::MegatronCore;
  std::string name;
  AttentionKernel attention = AttentionKernel::Cudnn;
  ElementwiseFusion fusion = ElementwiseFusion::FullyFused;
  bool dropout = false;       // The recipes of the time train with dropout.
  bool fused_softmax = true;  // scale + mask + softmax in one kernel (unfused attention only).
  bool fused_cross_entropy = true;
  bool shards_head = true;      // The tensor group cuts embedding and head as well.
  bool lazy_gradients = false;  // Gradients exist from backward to the optimizer only.
  bool saves_quantised = true;  // Of an fp8 operand, only the quantised copy lives until backward.
  bool saves_gathered_inputs = false;   // Of a sequence-parallel operand, the gathered tensor does.
  bool keeps_pipeline_outputs = false;  // The last stage keeps every micro-batch's logits.
  bool distributed_optimizer = true;    // Default ZeRO stage 1.
  bool overlap_grad_reduce = true;      // Data-parallel gradient reduction behind the backward.
  bool overlap_param_gather = true;
  bool overlap_tensor_parallel = false;   // Chunked GEMM / user buffers (needs SP).
  bool overlap_tp_backward_wgrad = true;  // Backward TP all-reduce behind the weight gradient.
  bool overlap_expert_parallel = false;   // Expert all-to-all behind another micro-batch's compute.
  bool overlap_p2p = true;                // When interleaved.
  bool scatter_gather_p2p = true;         // Pipeline sends split over the tensor group.
  bool gradient_accumulation_fusion = true;  // Weight-gradient GEMM accumulates in fp32.
  bool gathers_by_tensor = false;            // ZeRO 3 fetches tensor by tensor, nothing overlapped.
  bool cuda_graphs = false;                  // Launch cost vanishes.
  // Host time of a kernel over that of a bare launch from Python: modules, autograd, checkpointing.
  double host_factor = 1;
  bool python_launch = true;  // Host launches each kernel from Python.
  int default_zero_stage = 1;
  bool default_sequence_parallel = true;  // With tensor parallelism.
  bool full_recompute_default = false;
  double allocator_slack = 0;  // Reserved over allocated, as a fraction.
  std::string note;
};

// By its name or a usual alias (torchtitan: fsdp2; megatron-lm, nemo: megatron-core).
std::optional<Framework> framework_from_name(std::string_view name);
std::string_view name_of(Framework framework);
// Megatron-LM of any age, and Megatron-DeepSpeed.
bool is_megatron(Framework framework);
// The vocabulary is padded to a multiple of this times the tensor size.
// Source: Megatron-LM, --make-vocab-size-divisible-by.
std::int64_t vocabulary_unit(const SoftwareStack& software);
std::vector<std::string> framework_names();

// The stack's defaults as its own code has them.
SoftwareStack software_stack(Framework framework);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_SOFTWARE_STACK_H_
