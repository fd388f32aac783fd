#include "model/step_constants.h"

#include <algorithm>

namespace megatwin::model {
namespace {

void spine(Job& job) {
  // A value that the job states is no constant of ours.
  double& efficiency = job.cluster.fabric.spine_efficiency;
  if (efficiency <= 0) efficiency = 1;
}

void host_factor(Job& job) { job.software.host_factor = std::min(job.software.host_factor, 1.0); }

void expert_overlap(Job& job) { job.software.overlap_expert_parallel = false; }

void tensor_wise_gathers(Job& job) { job.software.gathers_by_tensor = false; }

void deepspeed_sends(Job& job) {
  if (job.software.framework == Framework::MegatronDeepspeed) {
    job.software.scatter_gather_p2p = false;
  }
}

void compiled_loss(Job& job) {
  if (job.software.framework == Framework::Fsdp2) job.software.fused_cross_entropy = false;
}

void triton(Job& job) {
  // The geometric mean of 1.3 and 2.5, the range that arXiv:2307.08691, section 4, gives for
  // FlashAttention-2 over the Triton kernel.
  constexpr double kMiddle = 1.8;
  const auto flash = job.profile.attention.find(AttentionKernel::FlashAttention2);
  if (flash == job.profile.attention.end()) return;
  AttentionRate rate = flash->second;
  rate.forward = rate.forward / kMiddle;
  rate.backward = rate.backward / kMiddle;
  job.profile.attention[AttentionKernel::FlashTriton] = rate;
}

void products_in_step(Job& job) { job.profile.gemm_in_step = 1; }

void attention_in_step(Job& job) { job.profile.attention_in_step = 1; }

void adam(Job& job) { job.profile.adam_per_parameter = {}; }

void allocator(Job& job) { job.software.allocator_slack = 0; }

}  // namespace

const std::vector<StepConstant>& step_constants() {
  static const std::vector<StepConstant> kConstants{
      {"spine_efficiency", "0.5 with static routes", "1", {"KORTH"}, spine},
      {"host_factor",
       "6, 3, 2 by stack",
       "1, a bare launch from Python",
       {"VTS", "VTM"},
       host_factor},
      {"overlap_expert_parallel",
       "on in Blackwell recipes from 26.06",
       "off",
       {"BRIDGE"},
       expert_overlap},
      {"gathers_by_tensor",
       "on for deepspeed-zero3",
       "off: layer by layer, overlapped",
       {"SC21T2"},
       tensor_wise_gathers},
      {"scatter_gather_p2p",
       "on for megatron-deepspeed",
       "off",
       {"VTM", "VTS", "BSV100"},
       deepspeed_sends},
      {"flash_triton",
       "FlashAttention-2 over 1.35 and 1.8",
       "over 1.8, the middle of what is published",
       {"LLMF"},
       triton},
      {"fused_cross_entropy", "on for torchtitan from 2025", "off", {"TT"}, compiled_loss},
      {"gemm_in_step", "1.03 by profile", "1", {"H200T"}, products_in_step},
      {"attention_in_step", "1.17", "1", {"H200T"}, attention_in_step},
      {"adam_per_parameter", "1.5 to 5 ps by profile", "0", {"H200T"}, adam},
      {"allocator_slack", "10 % fsdp2, 3 % fsdp1", "0", {"TT", "LLMF"}, allocator},
  };
  return kConstants;
}

std::vector<const StepConstant*> constants_read_from(const std::set<std::string>& groups) {
  std::vector<const StepConstant*> found;
  for (const StepConstant& constant : step_constants()) {
    const bool seen =
        std::any_of(constant.groups.begin(), constant.groups.end(),
                    [&](std::string_view group) { return groups.contains(std::string(group)); });
    if (seen) found.push_back(&constant);
  }
  return found;
}

void forget_steps_of(const std::set<std::string>& groups, Job& job) {
  for (const StepConstant* constant : constants_read_from(groups)) constant->forget(job);
}

}  // namespace megatwin::model
