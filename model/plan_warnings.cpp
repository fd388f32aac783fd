// The legal but doubtful: plan_warnings() of plan_check.h.
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "model/counted.h"
#include "model/parameters.h"
#include "model/plan_check.h"
#include "model/quantisation.h"
#include "model/stage_sites.h"

namespace megatwin::model {
namespace {

constexpr std::string_view kUnaligned =
    "miss the 16-byte loads of the tensor cores and run at a fraction of the rate";
// Of any kernel of FlashAttention. Source: its README, "All head dimensions up to 256".
constexpr std::int64_t kFusedHeadMax = 256;

class PlanWarnings {
 public:
  PlanWarnings(const Transformer& transformer, const Plan& plan, const Cluster& cluster,
               const SoftwareStack& software)
      : transformer_(transformer), plan_(plan), cluster_(cluster), software_(software) {
    if (plan_.data == 0) plan_.data = data_from_gpus(plan, cluster.num_gpus()).value_or(1);
  }

  std::vector<std::string> run() {
    warn_of_tensor_groups();
    warn_of_shapes();
    warn_of_alignment();
    warn_of_tokens();
    warn_of_schedule();
    warn_of_states();
    warn_of_experts();
    warn_of_kernels();
    return std::move(warnings_);
  }

 private:
  template <class... Parts>
  void warn(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    warnings_.push_back(std::move(out).str());
  }

  void warn_of_tensor_groups();
  void warn_of_shapes();
  void warn_of_alignment();
  void warn_of_tokens();
  void warn_of_row(std::string_view what, std::int64_t length, std::int64_t multiple,
                   std::string_view how);
  std::string unquantised(std::int64_t length) const;
  void warn_of_schedule();
  void warn_of_states();
  void warn_of_experts();
  void warn_of_kernels();

  bool is_megatron() const { return model::is_megatron(software_.framework); }

  const Transformer& transformer_;
  Plan plan_;
  const Cluster& cluster_;
  const SoftwareStack& software_;
  std::vector<std::string> warnings_;
};

void PlanWarnings::warn_of_tensor_groups() {
  if (plan_.tensor == 1) return;
  const StageSites sites(plan_, cluster_);
  const NodeMap& nodes = sites.nodes();
  // The first that leaves its machine, and the first on two kinds, are enough.
  int crossing = -1;
  int mixed = -1;
  for (int stage = 0; stage < plan_.pipeline; ++stage) {
    for (int replica = 0; replica < plan_.data; ++replica) {
      for (int context = 0; context < plan_.context; ++context) {
        const RankId first = sites.rank(replica, stage, 0, context);
        const RankId last = sites.rank(replica, stage, plan_.stage_tensor(stage) - 1, context);
        const auto note = [&](int& rank) {
          if (rank < 0 || first.value < rank) rank = first.value;
        };
        if (nodes.node_of(first) != nodes.node_of(last)) note(crossing);
        if (nodes.kind_of(first) != nodes.kind_of(last)) note(mixed);
      }
    }
  }
  if (crossing >= 0) {
    const int gpus = nodes.ranks_on(nodes.node_of({crossing})).size();
    warn("plan.tensor ", plan_.tensor, " leaves a machine of ", counted(gpus, "GPU"),
         " (group of rank ", crossing, "): its all-reduces, several a layer, run over the network");
  }
  if (mixed >= 0) {
    warn("plan.tensor ", plan_.tensor, ": the group of rank ", mixed,
         " mixes machines of two kinds; every layer waits for the slower GPU");
  }
}

void PlanWarnings::warn_of_shapes() {
  const std::int64_t vocab = transformer_.vocab_size;
  const WeightSharding sharding{.tensor = plan_.tensor,
                                .vocab_divisible_by = vocabulary_unit(software_)};
  if (const std::int64_t padded = padded_vocab_size(transformer_, sharding); padded != vocab) {
    warn("the vocabulary of ", vocab, " is padded to ", counted(padded, "row"), ", a multiple of ",
         sharding.vocab_divisible_by, " · plan.tensor ", plan_.tensor);
  }
  if (!transformer_.latent && transformer_.num_key_value_heads < plan_.tensor) {
    warn("plan.tensor ", plan_.tensor, " exceeds the ", transformer_.num_key_value_heads,
         " key-value heads: each is kept by ", plan_.tensor / transformer_.num_key_value_heads,
         " ranks");
  }
  if (transformer_.position == PositionKind::Learned && transformer_.max_position_embeddings > 0 &&
      transformer_.sequence_length > transformer_.max_position_embeddings) {
    warn("a sequence of ", counted(transformer_.sequence_length, "token"), " exceeds the table of ",
         transformer_.max_position_embeddings, " learned positions");
  }
  if (plan_.sequence_parallel && plan_.tensor == 1) {
    warn("plan.sequence_parallel has no effect with plan.tensor 1");
  }
  if (plan_.overlap_tensor_parallel && !plan_.sequence_parallel && plan_.tensor > 1) {
    warn("plan.overlap_tensor_parallel needs plan.sequence_parallel and has no effect");
  }
  // 2^28 tokens a step; published runs stay below 2^26.
  if (plan_.global_batch > (std::int64_t{1} << 28) / transformer_.sequence_length) {
    warn("plan.global_batch ", counted(plan_.global_batch, "sequence"), " of ",
         transformer_.sequence_length, " tokens is more than any published run uses in a step");
  }
}

void PlanWarnings::warn_of_row(std::string_view what, std::int64_t length, std::int64_t multiple,
                               std::string_view how) {
  if (length <= 0 || length % multiple == 0) return;
  warn(what, " is ", length, " on a rank, no multiple of ", multiple, ": ", how, "; ",
       (length / multiple + 1) * multiple, " would do");
}

// What becomes of a layer whose rows the recipe's library does not take.
std::string PlanWarnings::unquantised(std::int64_t length) const {
  if (length % layer_multiple(plan_.precision) == 0) {
    return "layers with such rows are priced in " +
           std::string(name_of(gemm_type(plan_.precision))) +
           " with their last blocks padded, but Transformer Engine refuses them";
  }
  std::string text =
      "layers with such rows are priced in 16 bits, as torchao runs them; Transformer Engine "
      "refuses them";
  if (length % 8 != 0) text += "; their products " + std::string(kUnaligned);
  return text;
}

// Rows that products read and write, on one tensor rank. Source: cuBLAS, "Tensor Core usage":
// 16-byte loads; Transformer Engine and torchao for quantised rows.
void PlanWarnings::warn_of_alignment() {
  const std::int64_t t = plan_.tensor;
  const bool half = size_of(base_type(plan_.precision)).value == 2;
  const std::int64_t quantised = operand_multiple(plan_.precision);
  const auto check = [&](std::string_view what, std::int64_t length) {
    if (quantised > 1 && length % quantised != 0) {
      warn_of_row(what, length, quantised, unquantised(length));
    } else if (half) {
      warn_of_row(what, length, 8, "products with it " + std::string(kUnaligned));
    }
  };
  check("the hidden size", transformer_.hidden_size);
  if (!transformer_.latent) {
    check("the width of the queries",
          std::max<std::int64_t>(1, transformer_.num_attention_heads / t) * transformer_.head_dim);
  }
  bool dense = false;
  for (std::int64_t layer = 0; layer < transformer_.num_layers && !dense; ++layer) {
    dense = !transformer_.is_moe_layer(layer);
  }
  if (dense) check("the feed-forward size", transformer_.ffn_hidden_size / t);
  if (transformer_.experts) {
    check("the experts' feed-forward size",
          transformer_.experts->expert_ffn_size / plan_.effective_expert_tensor());
  }
  const std::int64_t head_tensor = software_.shards_head ? t : 1;
  const WeightSharding sharding{.tensor = static_cast<int>(head_tensor),
                                .vocab_divisible_by = vocabulary_unit(software_)};
  if (half) {
    warn_of_row("the vocabulary", padded_vocab_size(transformer_, sharding) / head_tensor, 8,
                "the head's products " + std::string(kUnaligned));
  }
  // Fused kernels are built for multiples of 32; the products of unfused attention read the rows.
  const std::int64_t head =
      transformer_.latent ? transformer_.latent->v_head_dim : transformer_.head_dim;
  const bool fused = software_.attention != AttentionKernel::Unfused;
  if (fused && head % 32 != 0) {
    const std::int64_t padded = (head / 32 + 1) * 32;
    const std::int64_t percent = 100 * (padded - head) / padded;
    warn("the head size ", head, " is padded to ", padded, " by fused attention, which spends ",
         percent == 0 ? "less than 1" : std::to_string(percent), " % of its work on nothing");
  } else if (!fused && half) {
    warn_of_row("the head size", head, 8,
                "the products of attention miss the 16-byte loads of the tensor cores");
  }
}

// Tokens are the inner size of the products for weight gradients. Source: assert_dim_for_fp8_exec()
// of Transformer Engine, which asks for 16 of a last dimension; its page on MXFP8: 32 of both.
void PlanWarnings::warn_of_tokens() {
  if (operand_multiple(plan_.precision) == 1) return;
  const std::int64_t shards =
      std::int64_t{plan_.context} * (plan_.sequence_parallel ? plan_.tensor : 1);
  warn_of_row("the number of tokens of a micro-batch",
              plan_.micro_batch * transformer_.sequence_length / shards,
              plan_.precision == Precision::Mxfp8 ? 32 : 16,
              "Transformer Engine refuses to quantise so many; they are priced all the same");
}

void PlanWarnings::warn_of_schedule() {
  const int p = plan_.pipeline;
  const std::int64_t m = plan_.num_micro_batches();
  const bool interleaved = plan_.schedule == ScheduleKind::Interleaved;
  const bool zero_bubble =
      plan_.schedule == ScheduleKind::ZeroBubbleH1 || plan_.schedule == ScheduleKind::ZeroBubbleV;
  if (interleaved && plan_.model_chunks == 1) {
    warn("policy.schedule interleaved with plan.model_chunks 1 is 1f1b");
  }
  if (interleaved && p == 2) {
    warn(
        "interleaving gains little at plan.pipeline 2: one stage's time a step, divided by "
        "plan.model_chunks; Megatron-LM refused it before it had plan.overlap_p2p");
  }
  if (zero_bubble && p == 1) warn("a zero-bubble schedule has no effect with plan.pipeline 1");
  if (p > 1 && m < p && !interleaved) {
    warn("only ", counted(m, "micro-batch"), " for ", p,
         " pipeline stages: some stages never work at "
         "the same time; at least plan.global_batch ",
         plan_.micro_batch * plan_.data * p, " fills the pipeline");
  }
  if (zero_bubble && p > 1 && m < std::int64_t{2} * p) {
    warn(
        "zero-bubble schedules need at least twice as many micro-batches as stages to close "
        "their bubbles; there are ",
        m, " for ", counted(p, "stage"));
  }
  const std::vector<int> layers = layers_of_virtual_stages(transformer_, plan_);
  const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
  // Where stages differ in speed, uneven layers may be the even load.
  const bool equal_stages = !is_mixed(cluster_) && plan_.tensor_per_stage.empty();
  if (equal_stages && !plan_.layers_per_virtual_stage.empty() && *most - *least > 1) {
    warn("the heaviest virtual stage has ", counted(*most, "layer"), " and the lightest ", *least,
         "; the pipeline runs at the heaviest");
  }
  const int layers_of_stage = *most * plan_.model_chunks;
  if (plan_.recompute == RecomputeKind::Full && plan_.recompute_layers > layers_of_stage) {
    warn("plan.recompute_layers ", plan_.recompute_layers, " exceeds the ", layers_of_stage,
         " layers of a stage: all of them are recomputed");
  }
}

void PlanWarnings::warn_of_states() {
  const int shards = plan_.data * plan_.context;
  if (plan_.zero_stage > 0 && shards == 1) {
    warn("plan.zero ", plan_.zero_stage, " has no effect: each weight has one replica");
  }
  const std::int64_t m = plan_.num_micro_batches();
  if (plan_.zero_stage == 2 && m > 1 && shards > 1 &&
      (is_megatron() || software_.framework == Framework::DeepspeedZero3)) {
    warn("plan.zero 2 reduces the gradients after every one of the ", m, " micro-batches, ", m,
         " times the traffic of plan.zero 1");
  }
  if (plan_.fp32_parameters) {
    warn("plan.fp32_parameters stores the weights in fp32 and computes in ",
         name_of(plan_.precision),
         "; a run whose flags name neither bf16 nor fp16 computes in fp32: plan.precision fp32");
  }
}

void PlanWarnings::warn_of_experts() {
  if (!transformer_.experts) return;
  if (plan_.expert_data() == 1 && plan_.expert > 1 && plan_.zero_stage > 0) {
    warn("every expert has one replica (plan.expert ", plan_.expert, " · plan.expert_tensor ",
         plan_.effective_expert_tensor(),
         " covers a whole stage), so that plan.zero cannot shard the experts' states");
  }
  if (plan_.expert > 1 && plan_.tensor > 1 && !plan_.sequence_parallel &&
      software_.framework == Framework::MegatronCore) {
    warn(
        "megatron-core trains with plan.expert and plan.tensor above 1 only with "
        "plan.sequence_parallel");
  }
}

void PlanWarnings::warn_of_kernels() {
  const bool fused = software_.attention != AttentionKernel::Unfused;
  if (fused && plan_.recompute == RecomputeKind::Selective) {
    warn(
        "plan.recompute selective frees no memory with fused attention, whose scores are never "
        "stored, and runs its forward pass twice; plan.recompute none is as small and faster");
  }
  const auto& latent = transformer_.latent;
  const std::int64_t head =
      latent ? latent->qk_nope_head_dim + latent->qk_rope_head_dim : transformer_.head_dim;
  if (fused && head > kFusedHeadMax) {
    warn("the head size ", head, " is above ", kFusedHeadMax,
         ", where FlashAttention ends: attention is priced as a fused kernel at the rate of ",
         kFusedHeadMax, ", an extrapolation; software.attention unfused has no such limit");
  }
  for (const NodeGroup& group : cluster_.groups) {
    if (fused && group.gpu.architecture == GpuArchitecture::Volta) {
      warn(group.gpu.name,
           " has no fused attention kernel of this kind (it needs Ampere); "
           "software.attention unfused is what runs there");
    }
  }
}

}  // namespace

std::vector<std::string> plan_warnings(const Transformer& transformer, const Plan& plan,
                                       const Cluster& cluster, const SoftwareStack& software) {
  return PlanWarnings(transformer, plan, cluster, software).run();
}

}  // namespace megatwin::model
