#include "scenarios/software_reader.h"

#include <optional>
#include <string>

namespace megatwin::scenarios {
namespace {

using model::AttentionKernel;
using model::ElementwiseFusion;
using model::Framework;
using model::SoftwareStack;

Framework framework_of(MapReader& reader, const TreeNode& word, std::string_view key) {
  if (!reader.is_scalar(word, key)) return kDefaultFramework;
  const std::optional<Framework> framework = model::framework_from_name(word.text);
  if (!framework) reader.unknown_word(word, key, model::framework_names(), "framework");
  return framework.value_or(kDefaultFramework);
}

void remark_default(Remarks& remarks) {
  remarks.assumptions.push_back("The software was not given: " +
                                std::string(model::name_of(kDefaultFramework)) + " is taken.");
}

void read_switch(MapReader& reader, std::string_view key, bool& field) {
  if (const auto value = reader.boolean(key)) field = *value;
}

void read_kernels(MapReader& reader, SoftwareStack& stack) {
  if (const auto attention = reader.choice<AttentionKernel>(
          "attention", {{"unfused", AttentionKernel::Unfused},
                        {"flash-attention-2", AttentionKernel::FlashAttention2},
                        {"flash-triton", AttentionKernel::FlashTriton},
                        {"cudnn", AttentionKernel::Cudnn}})) {
    stack.attention = *attention;
  }
  if (const auto fusion = reader.choice<ElementwiseFusion>(
          "fusion", {{"eager", ElementwiseFusion::Eager},
                     {"bias-fused", ElementwiseFusion::BiasFused},
                     {"fully-fused", ElementwiseFusion::FullyFused}})) {
    stack.fusion = *fusion;
  }
  read_switch(reader, "dropout", stack.dropout);
  read_switch(reader, "fused_softmax", stack.fused_softmax);
  read_switch(reader, "fused_cross_entropy", stack.fused_cross_entropy);
  read_switch(reader, "gradient_accumulation_fusion", stack.gradient_accumulation_fusion);
  read_switch(reader, "cuda_graphs", stack.cuda_graphs);
  read_switch(reader, "python_launch", stack.python_launch);
}

void read_communication(MapReader& reader, SoftwareStack& stack) {
  read_switch(reader, "distributed_optimizer", stack.distributed_optimizer);
  read_switch(reader, "overlap_grad_reduce", stack.overlap_grad_reduce);
  read_switch(reader, "overlap_param_gather", stack.overlap_param_gather);
  read_switch(reader, "overlap_tensor_parallel", stack.overlap_tensor_parallel);
  read_switch(reader, "overlap_tp_backward_wgrad", stack.overlap_tp_backward_wgrad);
  read_switch(reader, "overlap_p2p", stack.overlap_p2p);
  read_switch(reader, "overlap_expert_parallel", stack.overlap_expert_parallel);
  read_switch(reader, "scatter_gather_p2p", stack.scatter_gather_p2p);
}

void read_defaults(MapReader& reader, SoftwareStack& stack) {
  if (const auto stage = reader.integer("default_zero_stage", {.min = 0, .max = 3})) {
    stack.default_zero_stage = static_cast<int>(*stage);
  }
  read_switch(reader, "default_sequence_parallel", stack.default_sequence_parallel);
  read_switch(reader, "full_recompute_default", stack.full_recompute_default);
  if (const TreeNode* slack = reader.find("allocator_slack")) {
    if (!reader.is_scalar(*slack, "allocator_slack")) return;
    const model::Result<double> fraction = parse_fraction(slack->text);
    if (fraction) {
      stack.allocator_slack = *fraction;
    } else {
      reader.error_at(*slack, "allocator_slack", fraction.error().front().message,
                      fraction.error().front().allowed);
    }
  }
}

}  // namespace

SoftwareStack read_software(MapReader& scenario, Remarks& remarks) {
  const TreeNode* node = scenario.find("software");
  if (node == nullptr) {
    remark_default(remarks);
    return model::software_stack(kDefaultFramework);
  }
  if (node->kind == TreeKind::Scalar) {
    return model::software_stack(framework_of(scenario, *node, "software"));
  }
  MapReader reader(scenario.context(), *node, scenario.path_of("software"));
  const TreeNode* framework = reader.find("framework");
  if (framework == nullptr) remark_default(remarks);
  SoftwareStack stack = model::software_stack(
      framework == nullptr ? kDefaultFramework : framework_of(reader, *framework, "framework"));
  read_kernels(reader, stack);
  read_communication(reader, stack);
  read_defaults(reader, stack);
  reader.finish();
  return stack;
}

}  // namespace megatwin::scenarios
