#include "model/plan_check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "model/counted.h"
#include "model/mixed_plan_check.h"
#include "model/rank_layout.h"

namespace megatwin::model {
namespace {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

std::string list_text(const std::vector<int>& values) {
  std::ostringstream out;
  for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "[" : ", ") << values[i];
  out << "]";
  return std::move(out).str();
}

bool shards_by_itself(Framework framework) {
  switch (framework) {
    case Framework::Fsdp1:
    case Framework::Fsdp2:
    case Framework::Maxtext:
    case Framework::Paxml:
    case Framework::PytorchCompile:
      return true;
    case Framework::Megatwin:
    case Framework::MegatronCore:
    case Framework::Megatron2020:
    case Framework::Megatron2021:
    case Framework::Megatron2022:
    case Framework::MegatronDeepspeed:
    case Framework::DeepspeedZero3:
      return false;
  }
  return false;
}

// Collects the problems of one plan. Checks that need sane sizes run only when those are.
class PlanChecker {
 public:
  PlanChecker(const Transformer& transformer, const Plan& plan, const Cluster& cluster,
              const SoftwareStack& software)
      : transformer_(transformer), plan_(plan), cluster_(cluster), software_(software) {
    if (plan_.data == 0) plan_.data = data_from_gpus(plan, cluster.num_gpus()).value_or(0);
  }

  std::vector<PlanProblem> run() {
    check_sizes();
    if (!problems_.empty()) return std::move(problems_);
    for (std::string& problem : mixed_plan_problems(transformer_, plan_, cluster_)) {
      problems_.push_back({{PlanKey::Lists}, std::move(problem)});
    }
    if (!problems_.empty()) return std::move(problems_);
    check_gpus();
    check_tensor();
    check_layers();
    check_batch();
    check_schedule();
    check_experts();
    check_sequence();
    check_precision();
    check_states();
    check_rest();
    return std::move(problems_);
  }

 private:
  template <class... Parts>
  void refuse(std::vector<PlanKey> keys, const Parts&... parts) {
    problems_.push_back({std::move(keys), text(parts...)});
  }

  // The upper limits are far beyond any use, and keep the products below from overflowing.
  void check_range(PlanKey key, const char* name, std::int64_t value, std::int64_t max) {
    if (value >= 1 && value <= max) return;
    refuse({key}, name, " is ", value, "; it must be from 1 to ", max);
  }

  void check_sizes();
  void check_gpus();
  void check_tensor();
  void check_tensor_size(int t);
  void check_layers();
  void check_batch();
  void check_schedule();
  void check_split_schedules();
  void check_experts();
  void check_sequence();
  void check_precision();
  void check_precision_on(const Gpu& gpu, Precision precision);
  void check_states();
  void check_rest();

  std::int64_t ranks_without_data() const {
    std::int64_t tensor_ranks = std::int64_t{plan_.tensor} * plan_.pipeline;
    if (!plan_.tensor_per_stage.empty()) {
      tensor_ranks = std::accumulate(plan_.tensor_per_stage.begin(), plan_.tensor_per_stage.end(),
                                     std::int64_t{0});
    }
    return tensor_ranks * plan_.context;
  }

  const Transformer& transformer_;
  Plan plan_;
  const Cluster& cluster_;
  const SoftwareStack& software_;
  std::vector<PlanProblem> problems_;
};

void PlanChecker::check_sizes() {
  check_range(PlanKey::Tensor, "plan.tensor", plan_.tensor, 4096);
  check_range(PlanKey::Pipeline, "plan.pipeline", plan_.pipeline, 16384);
  check_range(PlanKey::ModelChunks, "plan.model_chunks", plan_.model_chunks, 4096);
  check_range(PlanKey::Context, "plan.context", plan_.context, 16384);
  check_range(PlanKey::Expert, "plan.expert", plan_.expert, 16384);
  if (plan_.expert_tensor != 0) {
    check_range(PlanKey::ExpertTensor, "plan.expert_tensor", plan_.expert_tensor, 4096);
  }
  if (plan_.data != 0) check_range(PlanKey::Data, "plan.data", plan_.data, 1'000'000);
  check_range(PlanKey::MicroBatch, "plan.micro_batch", plan_.micro_batch, 1'000'000);
  check_range(PlanKey::GlobalBatch, "plan.global_batch", plan_.global_batch, 1'000'000'000);
  const auto& m = transformer_;
  if (m.num_layers < 1 || m.hidden_size < 1 || m.num_attention_heads < 1 || m.vocab_size < 1 ||
      m.sequence_length < 1 || m.num_key_value_heads < 1) {
    refuse({PlanKey::Other}, "the model has ", counted(m.num_layers, "layer"), ", hidden size ",
           m.hidden_size, ", ", counted(m.num_attention_heads, "head"), ", ", m.num_key_value_heads,
           " key-value heads, vocabulary ", m.vocab_size, " and sequence length ",
           m.sequence_length, "; each must be at least 1");
  }
  if (cluster_.groups.empty() || cluster_.num_gpus() < 1) {
    refuse({PlanKey::Other}, "the cluster has no GPU");
  }
}

void PlanChecker::check_gpus() {
  const std::int64_t gpus = cluster_.num_gpus();
  const std::int64_t inner = ranks_without_data();
  std::vector<PlanKey> keys = {PlanKey::Data, PlanKey::Tensor, PlanKey::Pipeline, PlanKey::Context};
  std::string replica = text("plan.tensor ", plan_.tensor, " · plan.pipeline ", plan_.pipeline);
  if (!plan_.tensor_per_stage.empty()) {
    keys.push_back(PlanKey::Lists);
    replica = text("sum ", inner / plan_.context, " of plan.tensor_per_stage");
  }
  if (plan_.data == 0) {
    refuse(keys, "plan.data: no whole number of replicas: ", counted(gpus, "GPU"), " over ",
           replica, " · plan.context ", plan_.context, " = ", inner,
           inner > gpus ? text(" needs at least ", counted(inner, "GPU"))
                        : text(" leaves ", counted(gpus % inner, "GPU"), " over"));
    return;
  }
  if (inner * plan_.data == gpus) return;
  const std::string hint =
      gpus % inner == 0 ? text("plan.data ", gpus / inner, " would use them all")
      : inner > gpus    ? text("one replica alone needs ", inner)
                        : text("no plan.data fits, ", inner, " does not divide ", gpus);
  refuse(keys, replica, " · plan.context ", plan_.context, " · plan.data ", plan_.data, " = ",
         counted(inner * plan_.data, "rank"), ", but the cluster has ", counted(gpus, "GPU"), "; ",
         hint);
}

void PlanChecker::check_tensor() {
  std::set<int> sizes = {plan_.tensor};
  sizes.insert(plan_.tensor_per_stage.begin(), plan_.tensor_per_stage.end());
  for (const int t : sizes) check_tensor_size(t);
}

void PlanChecker::check_tensor_size(int t) {
  const auto divides = [&](std::int64_t size, const char* what) {
    if (size % t == 0) return;
    refuse({PlanKey::Tensor}, "plan.tensor ", t, " does not divide the ", size, " ", what);
  };
  divides(transformer_.num_attention_heads, "attention heads");
  divides(transformer_.hidden_size, "columns of the hidden size");
  const std::int64_t key_value_heads = transformer_.num_key_value_heads;
  if (!transformer_.latent && key_value_heads % t != 0 && t % key_value_heads != 0) {
    refuse({PlanKey::Tensor}, "plan.tensor ", t, " and the ", key_value_heads,
           " key-value heads: neither divides the other, so ranks can neither share the heads "
           "evenly nor repeat them");
  }
  bool has_dense_layer = false;
  for (std::int64_t i = 0; i < transformer_.num_layers && !has_dense_layer; ++i) {
    has_dense_layer = !transformer_.is_moe_layer(i);
  }
  if (has_dense_layer) divides(transformer_.ffn_hidden_size, "columns of the feed-forward");
  if (transformer_.experts && transformer_.experts->shared_expert_ffn_size > 0) {
    divides(transformer_.experts->shared_expert_ffn_size, "columns of the shared expert");
  }
}

void PlanChecker::check_layers() {
  const int stages = plan_.pipeline * plan_.model_chunks;
  const std::vector<PlanKey> keys = {PlanKey::Layers, PlanKey::Pipeline, PlanKey::ModelChunks};
  if (!plan_.layers_per_virtual_stage.empty()) {
    if (is_layer_split_legal(transformer_, plan_)) return;
    const std::vector<int>& given = plan_.layers_per_virtual_stage;
    refuse(keys, "plan.layers_per_stage ", list_text(given), " has ",
           given.size() == 1 ? "1 entry" : text(given.size(), " entries"), " with ",
           std::accumulate(given.begin(), given.end(), std::int64_t{0}),
           " layers in all; needed are plan.pipeline ", plan_.pipeline, " · plan.model_chunks ",
           plan_.model_chunks, " = ", stages, " entries, none negative, with ",
           counted(transformer_.num_layers, "layer"));
    return;
  }
  if (is_layer_split_legal(transformer_, plan_)) return;
  const std::string ends = plan_.embedding_as_layer || plan_.head_as_layer
                               ? " (with the embedding or the head counted as a layer)"
                               : "";
  if (stages > transformer_.num_layers) {
    refuse(keys, "the model has ", counted(transformer_.num_layers, "layer"), ends,
           ", fewer than plan.pipeline ", plan_.pipeline, " · plan.model_chunks ",
           plan_.model_chunks, " = ", stages, " virtual stages");
    return;
  }
  Plan as_layers = plan_;
  as_layers.embedding_as_layer = as_layers.head_as_layer = true;
  const std::string other =
      is_layer_split_legal(transformer_, as_layers)
          ? "; or count the embedding and the head as layers, which divides evenly"
          : "";
  refuse(keys, "the model's ", counted(transformer_.num_layers, "layer"), ends,
         " do not divide over plan.pipeline ", plan_.pipeline, " · plan.model_chunks ",
         plan_.model_chunks, " = ", stages,
         " virtual stages, and none is dropped; an uneven split has to be given, such as "
         "plan.layers_per_stage: ",
         list_text(layers_of_virtual_stages(transformer_, plan_)), other);
}

void PlanChecker::check_batch() {
  // Uneven numbers of micro-batches were looked at before.
  if (plan_.data == 0 || !plan_.micro_batches_per_replica.empty()) return;
  const std::int64_t unit = plan_.micro_batch * plan_.data;
  if (plan_.global_batch % unit == 0) return;
  const bool in_rounds = plan_.schedule == ScheduleKind::Interleaved && plan_.model_chunks > 1;
  const std::int64_t multiple = unit * (in_rounds ? plan_.pipeline : 1);
  const std::int64_t below = plan_.global_batch / multiple * multiple;
  const std::string nearest = below > 0 ? text("batches are ", below, " and ", below + multiple)
                                        : text("batch is ", below + multiple);
  refuse({PlanKey::GlobalBatch, PlanKey::MicroBatch, PlanKey::Data, PlanKey::Tensor,
          PlanKey::Pipeline, PlanKey::Context},
         "plan.global_batch ", plan_.global_batch, " is not a multiple of plan.micro_batch ",
         plan_.micro_batch, " · plan.data ", plan_.data, " = ", unit, "; the nearest legal global ",
         nearest);
}

void PlanChecker::check_schedule() {
  const bool has_chunks = plan_.model_chunks > 1;
  const std::vector<PlanKey> keys = {PlanKey::Schedule, PlanKey::ModelChunks};
  const bool runs_chunks = plan_.schedule == ScheduleKind::Interleaved ||
                           plan_.schedule == ScheduleKind::ZeroBubbleV ||
                           plan_.schedule == ScheduleKind::OrderFile || is_dynamic(plan_.schedule);
  if (has_chunks && !runs_chunks) {
    refuse(
        keys, "plan.model_chunks ", plan_.model_chunks,
        " needs policy.schedule interleaved (or zb-v, dpp, or an order file); the others run one "
        "chunk a rank");
  }
  if (plan_.schedule == ScheduleKind::OrderFile && plan_.order_file.empty()) {
    refuse({PlanKey::Schedule}, "policy.schedule is an order file, but none is named");
  }
  const bool whole_batches =
      plan_.data > 0 && plan_.global_batch % (plan_.micro_batch * plan_.data) == 0;
  const std::int64_t m = whole_batches ? plan_.num_micro_batches() : 0;
  const int p = plan_.pipeline;
  if (plan_.schedule == ScheduleKind::Interleaved && has_chunks) {
    if (p == 1) {
      refuse({PlanKey::Schedule, PlanKey::ModelChunks, PlanKey::Pipeline},
             "policy.schedule interleaved with plan.model_chunks ", plan_.model_chunks,
             " needs plan.pipeline of at least 2; with one stage there is nothing to interleave");
    }
    if (whole_batches && (m < p || m % p != 0)) {
      refuse({PlanKey::GlobalBatch, PlanKey::MicroBatch, PlanKey::Schedule, PlanKey::ModelChunks,
              PlanKey::Pipeline},
             "policy.schedule interleaved needs a number of micro-batches that is a multiple of "
             "plan.pipeline ",
             p, " and at least as large; plan.global_batch ", plan_.global_batch,
             " / (plan.micro_batch ", plan_.micro_batch, " · plan.data ", plan_.data, ") = ", m);
    }
    // Megatron-LM issue 750: with two stages the next and the previous stage are the same peer.
    if (p == 2 && !plan_.overlap_p2p && software_.framework == Framework::MegatronCore) {
      refuse({PlanKey::Overlap, PlanKey::Schedule, PlanKey::ModelChunks, PlanKey::Pipeline},
             "policy.schedule interleaved with plan.pipeline 2 needs plan.overlap_p2p in "
             "megatron-core: the next and the previous stage are the same peer, and batched "
             "sends and receives to it are ambiguous; the gain at 2 stages is small anyway");
    }
  }
  if (p > 1 && whole_batches && m < p && shards_by_itself(software_.framework) &&
      plan_.schedule != ScheduleKind::OrderFile && !is_dynamic(plan_.schedule) && !has_chunks) {
    refuse({PlanKey::GlobalBatch, PlanKey::MicroBatch, PlanKey::Pipeline},
           "PyTorch's pipeline schedules need at least as many micro-batches as stages; "
           "plan.global_batch ",
           plan_.global_batch, " / (plan.micro_batch ", plan_.micro_batch, " · plan.data ",
           plan_.data, ") = ", m, " with plan.pipeline ", p);
  }
  check_split_schedules();
}

void PlanChecker::check_split_schedules() {
  if (plan_.schedule != ScheduleKind::ZeroBubbleV) return;
  if (plan_.model_chunks != 2) {
    refuse({PlanKey::ModelChunks, PlanKey::Schedule},
           "policy.schedule zb-v runs two chunks a rank; plan.model_chunks is ",
           plan_.model_chunks);
    return;
  }
  if (plan_.layers_per_virtual_stage.empty()) return;
  for (int rank = 0; rank < plan_.pipeline; ++rank) {
    const auto& layers = plan_.layers_per_virtual_stage;
    const auto first = static_cast<std::size_t>(rank);
    const auto second = static_cast<std::size_t>(2 * plan_.pipeline - 1 - rank);
    if (layers.size() <= second || layers[first] == layers[second]) continue;
    refuse({PlanKey::Layers, PlanKey::Schedule},
           "policy.schedule zb-v needs two equal chunks a stage; stage ", rank, " has ",
           layers[first], " and ", counted(layers[second], "layer"));
  }
}

void PlanChecker::check_experts() {
  if (!transformer_.experts) {
    if (plan_.expert > 1) {
      refuse({PlanKey::Expert}, "plan.expert ", plan_.expert, " but the model has no experts");
    }
    if (plan_.expert_tensor > 1) {
      refuse({PlanKey::ExpertTensor}, "plan.expert_tensor ", plan_.expert_tensor,
             " but the model has no experts");
    }
    return;
  }
  const MixtureOfExperts& experts = *transformer_.experts;
  const std::int64_t expert_tensor = plan_.effective_expert_tensor();
  if (experts.num_experts % plan_.expert != 0) {
    refuse({PlanKey::Expert}, "plan.expert ", plan_.expert, " does not divide the ",
           counted(experts.num_experts, "expert"));
  }
  if (experts.expert_ffn_size % expert_tensor != 0) {
    refuse({PlanKey::ExpertTensor, PlanKey::Tensor}, "plan.expert_tensor ", expert_tensor,
           " does not divide the ", experts.expert_ffn_size, " columns of an expert");
  }
  if (experts.experts_per_token > experts.num_experts) {
    refuse({PlanKey::Other}, "each token visits ", experts.experts_per_token, " of only ",
           counted(experts.num_experts, "expert"));
  }
  if (plan_.data == 0) return;
  const std::int64_t stage_ranks = std::int64_t{plan_.tensor} * plan_.context * plan_.data;
  const std::int64_t needed = expert_tensor * plan_.expert;
  if (stage_ranks % needed != 0) {
    refuse({PlanKey::ExpertTensor, PlanKey::Expert, PlanKey::Tensor, PlanKey::Pipeline},
           "plan.expert ", plan_.expert, " · plan.expert_tensor ", expert_tensor, " = ", needed,
           " does not divide the ", counted(stage_ranks, "rank"), " of a pipeline stage",
           plan_.expert_tensor == 0 && expert_tensor > 1
               ? "; plan.expert_tensor follows plan.tensor unless it is given"
               : "");
  }
}

void PlanChecker::check_sequence() {
  const std::int64_t s = transformer_.sequence_length;
  if (plan_.context > 1 && s % (std::int64_t{2} * plan_.context) != 0) {
    refuse({PlanKey::Context}, "plan.context ", plan_.context,
           " needs a sequence length of a "
           "multiple of 2 · ",
           plan_.context,
           " (each rank takes an early and a late piece, so "
           "that causal work balances); it is ",
           s);
  }
  if (plan_.context > 1 && software_.attention == AttentionKernel::Unfused) {
    refuse({PlanKey::Context}, "plan.context ", plan_.context,
           " needs a fused attention kernel that exchanges keys and values; software.attention is "
           "unfused");
  }
  if (plan_.sequence_parallel && plan_.tensor > 1 && s / plan_.context % plan_.tensor != 0) {
    refuse({PlanKey::SequenceParallel, PlanKey::Tensor, PlanKey::Context},
           "plan.sequence_parallel needs plan.tensor ", plan_.tensor, " to divide the ",
           counted(s / plan_.context, "token"), " of a rank's sequence");
  }
}

void PlanChecker::check_precision() {
  for (std::size_t i = 0; i < cluster_.groups.size(); ++i) {
    check_precision_on(cluster_.groups[i].gpu, plan_.group_precision(static_cast<int>(i)));
  }
}

void PlanChecker::check_precision_on(const Gpu& gpu, Precision precision) {
  const DataType type = gemm_type(precision);
  // A part without any rate is one that the catalogue does not know; nothing can be said.
  const GpuPeak& peak = gpu.peak;
  const bool known = std::max({peak.fp32, peak.fp16, peak.bf16, peak.fp8, peak.fp4}).value > 0;
  if (!known) return;
  const bool needs_blackwell = precision == Precision::Mxfp8 || precision == Precision::Nvfp4;
  if (needs_blackwell && gpu.architecture != GpuArchitecture::Blackwell) {
    refuse({PlanKey::Precision}, "plan.precision ", name_of(precision), " needs a Blackwell GPU; ",
           gpu.name, " is none", peak.fp8.value > 0 ? "; fp8 it has" : "");
    return;
  }
  const bool has_type = gpu.peak_of(type).value > 0;
  if (has_type && gpu.peak_of(base_type(precision)).value > 0) return;
  const DataType missing = has_type ? base_type(precision) : type;
  refuse({PlanKey::Precision}, "plan.precision ", name_of(precision), ": ", gpu.name, " has no ",
         name_of(missing), " matrix units",
         peak.bf16.value > 0   ? "; bf16 it has"
         : peak.fp16.value > 0 ? "; fp16 it has"
                               : "; fp32 it has");
}

void PlanChecker::check_states() {
  if (plan_.zero_stage < 0 || plan_.zero_stage > 3) {
    refuse({PlanKey::Zero}, "plan.zero is ", plan_.zero_stage, "; it must be from 0 to 3");
    return;
  }
  if (plan_.zero_stage >= 2 && plan_.pipeline > 1 && !shards_by_itself(software_.framework)) {
    refuse({PlanKey::Zero, PlanKey::Pipeline}, "plan.zero ", plan_.zero_stage,
           " with plan.pipeline ", plan_.pipeline, ": ",
           software_.name.empty() ? "the framework" : software_.name,
           " cannot shard gradients that a pipeline accumulates over micro-batches; stage 1 "
           "works, or no pipeline");
  }
  if (plan_.recompute_layers < 0) {
    refuse({PlanKey::Recompute}, "plan.recompute_layers is ", plan_.recompute_layers,
           "; it must be 0 (all) or more");
  }
}

void PlanChecker::check_rest() {
  if (!rank_order_from_text(plan_.rank_order)) {
    refuse({PlanKey::RankOrder}, "plan.rank_order '", plan_.rank_order,
           "' must name tp, cp, ep, dp and pp once each, joined by '-', fastest first");
  }
  if (plan_.issue_depth < 1) {
    refuse({PlanKey::Other}, "policy.issue_depth is ", plan_.issue_depth,
           "; it must be at least 1");
  }
  if (!(plan_.expert_capacity_imbalance >= 1)) {
    refuse({PlanKey::Other}, "plan.expert_capacity_imbalance is ", plan_.expert_capacity_imbalance,
           "; the heaviest rank cannot be below the mean, 1");
  }
}

}  // namespace

std::optional<int> data_from_gpus(const Plan& plan, int num_gpus) {
  std::int64_t inner = 1;
  for (const int size : {plan.tensor, plan.pipeline, plan.context}) {
    if (size < 1) return std::nullopt;
    inner *= size;
    if (inner > num_gpus) return std::nullopt;  // Also keeps the product from overflowing.
  }
  if (num_gpus % inner != 0) return std::nullopt;
  return static_cast<int>(num_gpus / inner);
}

std::vector<PlanProblem> check_plan(const Transformer& transformer, const Plan& plan,
                                    const Cluster& cluster, const SoftwareStack& software) {
  return PlanChecker(transformer, plan, cluster, software).run();
}

std::vector<std::string> plan_problems(const Transformer& transformer, const Plan& plan,
                                       const Cluster& cluster, const SoftwareStack& software) {
  std::vector<std::string> texts;
  for (PlanProblem& problem : check_plan(transformer, plan, cluster, software)) {
    texts.push_back(std::move(problem.text));
  }
  return texts;
}

}  // namespace megatwin::model
