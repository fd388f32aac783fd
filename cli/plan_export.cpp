#include "cli/plan_export.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include "cli/files.h"
#include "model/counted.h"
#include "model/hardware.h"
#include "model/layer_split.h"
#include "scenarios/document.h"
#include "scenarios/overrides.h"
#include "scenarios/yaml_reader.h"
#include "sim/search/search_space.h"

namespace megatwin::cli {
namespace {

using model::Job;
using model::Plan;
using scenarios::TreeKind;
using scenarios::TreeNode;
using sim::SpaceKey;

// YAML in flow style below the first level: one line a section, as people write scenarios.
std::string flow(const TreeNode& node) {
  switch (node.kind) {
    case TreeKind::Null:
      return "null";
    case TreeKind::Scalar: {
      const bool plain = !node.quoted && !node.text.empty() &&
                         node.text.find_first_of(",[]{}#&*!|>'\"%@`:\n") == std::string::npos;
      if (plain) return node.text;
      std::string text = "'";
      for (const char c : node.text) text += c == '\'' ? std::string("''") : std::string(1, c);
      return text + "'";
    }
    case TreeKind::Sequence: {
      std::string text;
      for (const TreeNode& item : node.items) text += (text.empty() ? "" : ", ") + flow(item);
      return "[" + text + "]";
    }
    case TreeKind::Map: {
      std::string text;
      for (const auto& entry : node.entries) {
        text += (text.empty() ? "" : ", ") + entry.key + ": " + flow(entry.value);
      }
      return "{" + text + "}";
    }
  }
  return "null";
}

// A path of the scenario is meant from its folder; the copy may lie elsewhere.
void make_absolute(const std::string& file, TreeNode* section, const char* key) {
  TreeNode* path = section == nullptr ? nullptr : section->find(key);
  if (path == nullptr || path->kind != TreeKind::Scalar || path->position.line == 0) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  path->text = (folder / path->text).lexically_normal().string();
}

// Of every entry of a list.
void make_all_absolute(const std::string& file, TreeNode* list, const char* key) {
  if (list == nullptr) return;
  for (TreeNode& item : list->items) make_absolute(file, &item, key);
}

void make_paths_absolute(const std::string& file, TreeNode& root) {
  make_absolute(file, root.find("model"), "hf");
  make_absolute(file, root.find("data"), "text");
  make_absolute(file, root.find("data"), "tokens");
  if (TreeNode* cluster = root.find("cluster")) {
    make_absolute(file, cluster, "topology");
    make_all_absolute(file, cluster->find("nodes"), "topology");
    make_absolute(file, cluster->find("fabric"), "from");
  }
  make_all_absolute(file, root.find("disturbances"), "tokens");
  if (TreeNode* target = root.find("target")) {
    make_all_absolute(file, target->find("machines"), "topology");
  }
}

void replace_token_tables(const ExportSource& source, const Plan& plan, TreeNode* list) {
  if (list == nullptr || list->items.size() != source.disturbances.size()) return;
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const model::Disturbance& d = source.disturbances[i];
    if (d.tokens.empty() || std::ssize(d.tokens) == plan.expert) continue;
    for (auto& entry : list->items[i].entries) {
      if (entry.key != "tokens") continue;
      entry.key = "factor";
      entry.value = {};
      entry.value.kind = TreeKind::Scalar;
      entry.value.text = fmt::format("{}", d.factor);
    }
  }
}

// The plan keys as a scenario writes them, with nothing left to a default.
std::string plan_line(const Plan& plan) {
  std::string text;
  const auto add = [&](const std::string& key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + key + ": " + value;
  };
  for (const SpaceKey key :
       {SpaceKey::Tensor, SpaceKey::Pipeline, SpaceKey::ModelChunks, SpaceKey::Context,
        SpaceKey::Expert, SpaceKey::Data, SpaceKey::MicroBatch, SpaceKey::GlobalBatch,
        SpaceKey::SequenceParallel, SpaceKey::Zero, SpaceKey::Precision, SpaceKey::Dispatcher,
        SpaceKey::OverlapGradReduce, SpaceKey::OverlapParamGather, SpaceKey::OverlapTensorParallel,
        SpaceKey::OverlapP2p}) {
    add(std::string(name_of(key)), value_text(plan, key));
  }
  if (plan.expert_tensor > 0) add("expert_tensor", std::to_string(plan.expert_tensor));
  Plan kind = plan;
  kind.recompute_layers = 0;
  const std::string recompute = value_text(kind, SpaceKey::Recompute);
  add("recompute", plan.recompute_layers == 0
                       ? recompute
                       : fmt::format("{{kind: {}, layers: {}}}", recompute, plan.recompute_layers));
  if (!plan.layers_per_virtual_stage.empty()) {
    std::string layers;
    for (const int n : plan.layers_per_virtual_stage) {
      layers += (layers.empty() ? "" : ", ") + std::to_string(n);
    }
    add("layers_per_stage", "[" + layers + "]");
  }
  if (plan.embedding_as_layer) add("embedding_as_layer", "true");
  if (plan.head_as_layer) add("head_as_layer", "true");
  if (plan.fp32_parameters) add("fp32_parameters", "true");
  if (plan.expert_capacity_imbalance != 1.0) {
    add("expert_capacity_imbalance", fmt::format("{}", plan.expert_capacity_imbalance));
  }
  if (plan.rank_order != Plan{}.rank_order) add("rank_order", plan.rank_order);
  return "plan: {" + text + "}\n";
}

std::string side_text(const model::DecoupledSide& side) {
  std::string text = fmt::format("nodes: {}, instances: {}", side.group, side.instances);
  if (side.tensor > 0) text += fmt::format(", tensor: {}", side.tensor);
  return "{" + text + "}";
}

std::string policy_line(const Plan& plan) {
  std::string text = fmt::format("schedule: {}, issue_depth: {}",
                                 value_text(plan, SpaceKey::Schedule), plan.issue_depth);
  if (plan.receive_slots > 0) text += fmt::format(", receive_slots: {}", plan.receive_slots);
  if (plan.live_activations > 0) {
    text += fmt::format(", live_activations: {}", plan.live_activations);
  }
  if (plan.schedule == model::ScheduleKind::Decoupled) {
    const model::DecoupledPlan& sides = plan.decoupled;
    text += fmt::format(", feed: {}, forward: {}, backward: {}, weight_gradients_on_forward: {}",
                        sides.ship_activations ? "activations" : "stage-input",
                        side_text(sides.forward), side_text(sides.backward),
                        sides.balance_weights ? "auto" : fmt::format("{}", sides.weight_share));
  }
  return "policy: {" + text + "}\n";
}

void add_latent(const model::LatentAttention& latent, std::vector<std::string>& all) {
  const auto add = [&](const char* flag, std::int64_t value) {
    all.push_back(fmt::format("--{} {}", flag, value));
  };
  all.emplace_back("--multi-latent-attention");
  if (latent.q_lora_rank > 0) add("q-lora-rank", latent.q_lora_rank);
  add("kv-lora-rank", latent.kv_lora_rank);
  add("qk-head-dim", latent.qk_nope_head_dim);
  add("qk-pos-emb-head-dim", latent.qk_rope_head_dim);
  add("v-head-dim", latent.v_head_dim);
  all.emplace_back("--qk-layernorm");  // Of the latent vectors.
}

// Which layers have experts, quoted: the shell would look for files of such a name. Runs of equal
// layers as [0]*3+[1]*58. Nothing when all have.
std::string layer_pattern(const model::Transformer& shape) {
  std::string text;
  std::int64_t dense = 0;
  for (std::int64_t first = 0; first < shape.num_layers;) {
    std::int64_t end = first;
    while (end < shape.num_layers && shape.is_moe_layer(end) == shape.is_moe_layer(first)) ++end;
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", shape.is_moe_layer(first) ? 1 : 0,
                        end - first);
    dense += shape.is_moe_layer(first) ? 0 : end - first;
    first = end;
  }
  return dense == 0 ? std::string() : "'" + text + "'";
}

void add_experts(const model::Transformer& shape, std::vector<std::string>& all) {
  const model::MixtureOfExperts& experts = *shape.experts;
  const auto add = [&](const char* flag, std::int64_t value) {
    all.push_back(fmt::format("--{} {}", flag, value));
  };
  add("num-experts", experts.num_experts);
  add("moe-router-topk", experts.experts_per_token);
  add("moe-ffn-hidden-size", experts.expert_ffn_size);
  if (experts.shared_expert_ffn_size > 0) {
    add("moe-shared-expert-intermediate-size", experts.shared_expert_ffn_size);
  }
  // A bias that only chooses the experts; Megatron-LM has it for sigmoid scores.
  if (experts.router_bias && !experts.expert_bias) {
    all.insert(all.end(),
               {"--moe-router-score-function sigmoid", "--moe-router-enable-expert-bias"});
  }
  const std::string pattern = layer_pattern(shape);
  if (!pattern.empty()) all.push_back("--moe-layer-freq " + pattern);
  all.emplace_back("--moe-grouped-gemm");
}

void add_model(const model::Transformer& shape, std::vector<std::string>& all) {
  const auto add = [&](const char* flag, std::int64_t value) {
    all.push_back(fmt::format("--{} {}", flag, value));
  };
  add("num-layers", shape.num_layers);
  add("hidden-size", shape.hidden_size);
  add("ffn-hidden-size", shape.ffn_hidden_size);
  add("num-attention-heads", shape.num_attention_heads);
  if (shape.num_key_value_heads != shape.num_attention_heads && !shape.latent) {
    all.emplace_back("--group-query-attention");
    add("num-query-groups", shape.num_key_value_heads);
  }
  add("kv-channels", shape.latent ? shape.latent->v_head_dim : shape.head_dim);
  add("seq-length", shape.sequence_length);
  add("max-position-embeddings", std::max(shape.max_position_embeddings, shape.sequence_length));
  add("vocab-size", shape.vocab_size);
  if (shape.activation == model::ActivationKind::SwiGlu) all.emplace_back("--swiglu");
  if (shape.activation == model::ActivationKind::SquaredRelu) all.emplace_back("--squared-relu");
  if (shape.norm == model::NormKind::RmsNorm) all.emplace_back("--normalization RMSNorm");
  if (shape.position == model::PositionKind::Rotary) {
    all.emplace_back("--position-embedding-type rope");
  } else if (shape.position == model::PositionKind::Learned) {
    all.emplace_back("--position-embedding-type learned_absolute");
  }
  if (!shape.tied_embeddings) all.emplace_back("--untie-embeddings-and-output-weights");
  if (!shape.mlp_bias) all.emplace_back("--disable-bias-linear");
  if (shape.qkv_bias && !shape.mlp_bias) all.emplace_back("--add-qkv-bias");
  if (shape.latent) {
    add_latent(*shape.latent, all);
  } else if (shape.qk_norm) {
    all.emplace_back("--qk-layernorm");
  }
  if (shape.num_mtp_layers > 0) add("mtp-num-layers", shape.num_mtp_layers);
  if (shape.experts) add_experts(shape, all);
}

void add_precision(model::Precision precision, std::vector<std::string>& all) {
  switch (precision) {
    case model::Precision::Fp32:
      return;
    case model::Precision::Fp16:
      all.emplace_back("--fp16");
      return;
    case model::Precision::Bf16:
    case model::Precision::Bf16Pure:
    case model::Precision::AmpBf16:
      all.emplace_back("--bf16");
      return;
    case model::Precision::Fp8PerTensor:
      all.insert(all.end(), {"--bf16", "--fp8-format hybrid"});
      return;
    case model::Precision::Fp8Current:
      all.insert(all.end(), {"--bf16", "--fp8-format hybrid", "--fp8-recipe tensorwise"});
      return;
    case model::Precision::Fp8Block:
      all.insert(all.end(), {"--bf16", "--fp8-format e4m3", "--fp8-recipe blockwise"});
      return;
    case model::Precision::Mxfp8:
      all.insert(all.end(), {"--bf16", "--fp8-format e4m3", "--fp8-recipe mxfp8"});
      return;
    case model::Precision::Nvfp4:
      all.insert(all.end(), {"--bf16", "--fp4-format e2m1", "--fp4-recipe nvfp4"});
      return;
  }
}

// Megatron-Core's description of virtual stages in model order: embedding E, decoder layers t,
// prediction layers m, loss L, a bar between stages; x*3 is xxx.
std::string layout_of(const Job& job, const Plan& plan) {
  const std::vector<int>& layers = plan.layers_per_virtual_stage;
  const auto times = [](char layer, std::int64_t n) {
    if (n == 0) return std::string();
    return n == 1 ? std::string(1, layer) : fmt::format("{}*{}", layer, n);
  };
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += "|";
    text += times('t', layers[i]);
  }
  return "\"" + text + times('m', job.transformer.num_mtp_layers) + "L\"";
}

void add_plan(const Job& job, const Plan& plan, std::vector<std::string>& all) {
  const auto add = [&](const char* flag, std::int64_t value) {
    all.push_back(fmt::format("--{} {}", flag, value));
  };
  add("tensor-model-parallel-size", plan.tensor);
  add("pipeline-model-parallel-size", plan.pipeline);
  // A layout says it all, and Megatron-LM takes only one of the two.
  if (plan.model_chunks > 1 && plan.layers_per_virtual_stage.empty())
    add("num-virtual-stages-per-pipeline-rank", plan.model_chunks);
  if (plan.context > 1) add("context-parallel-size", plan.context);
  if (job.transformer.experts) {
    add("expert-model-parallel-size", plan.expert);
    add("expert-tensor-parallel-size", plan.effective_expert_tensor());
    all.emplace_back(plan.dispatcher == model::ExpertDispatcher::AllGather
                         ? "--moe-token-dispatcher-type allgather"
                     : plan.dispatcher == model::ExpertDispatcher::DeepEp
                         ? "--moe-token-dispatcher-type flex"
                         : "--moe-token-dispatcher-type alltoall");
  }
  add("micro-batch-size", plan.micro_batch);
  add("global-batch-size", plan.global_batch);
  if (plan.sequence_parallel && plan.tensor > 1) all.emplace_back("--sequence-parallel");
  if (plan.zero_stage >= 1) all.emplace_back("--use-distributed-optimizer");
  if (plan.zero_stage >= 2) {
    all.emplace_back("--use-megatron-fsdp");
    all.emplace_back(plan.zero_stage == 2 ? "--data-parallel-sharding-strategy optim_grads"
                                          : "--data-parallel-sharding-strategy optim_grads_params");
  }
  if (plan.recompute == model::RecomputeKind::Selective) {
    all.emplace_back("--recompute-granularity selective");
  } else if (plan.recompute == model::RecomputeKind::Full) {
    all.emplace_back("--recompute-granularity full");
    all.emplace_back(plan.recompute_layers > 0 ? "--recompute-method block"
                                               : "--recompute-method uniform");
    add("recompute-num-layers", plan.recompute_layers > 0 ? plan.recompute_layers : 1);
  }
  add_precision(plan.precision, all);
  if (plan.overlap_grad_reduce) all.emplace_back("--overlap-grad-reduce");
  if (plan.overlap_param_gather && plan.zero_stage >= 1) {
    all.emplace_back("--overlap-param-gather");
  }
  if (plan.overlap_tensor_parallel && plan.tensor > 1) all.emplace_back("--tp-comm-overlap");
  if (plan.pipeline > 1 && plan.model_chunks > 1 && !plan.overlap_p2p) {
    all.emplace_back("--no-overlap-p2p-communication");
  }
  if (plan.rank_order == "tp-cp-ep-pp-dp") all.emplace_back("--use-tp-pp-dp-mapping");
  if (!plan.layers_per_virtual_stage.empty()) {
    all.push_back("--pipeline-model-parallel-layout " + layout_of(job, plan));
  } else {
    if (plan.embedding_as_layer) all.emplace_back("--account-for-embedding-in-pipeline-split");
    if (plan.head_as_layer) all.emplace_back("--account-for-loss-in-pipeline-split");
  }
}

// What the schedule or the split asks for and Megatron-LM has no flag for.
std::string remarks(const Plan& plan) {
  std::string text;
  if (plan.schedule != model::ScheduleKind::OneForwardOneBackward &&
      plan.schedule != model::ScheduleKind::Interleaved) {
    text += fmt::format("# Megatron-LM has no flag for the schedule {}; it would run 1F1B.\n",
                        value_text(plan, SpaceKey::Schedule));
  }
  if (plan.rank_order != Plan{}.rank_order && plan.rank_order != "tp-cp-ep-pp-dp") {
    text += fmt::format("# Megatron-LM has no flag for the rank order {}.\n", plan.rank_order);
  }
  return text;
}

std::string argument_array(const Job& job, const Plan& plan) {
  std::string text = "MODEL_AND_PLAN_ARGS=(\n";
  for (const std::string& argument : megatron_arguments(job, plan)) {
    text += "    " + argument + "\n";
  }
  return text + ")\n";
}

// Megatron-LM refuses to start without one hardware queue where tensor or context ranks exchange
// before Blackwell, and wants several, or none stated, beside its FSDP.
std::string connections_line(const Job& job, const Plan& plan) {
  if (plan.zero_stage >= 2) return "unset CUDA_DEVICE_MAX_CONNECTIONS\n";
  const auto& groups = job.cluster.groups;
  const bool has_older = std::any_of(groups.begin(), groups.end(), [](const auto& group) {
    return group.gpu.architecture != model::GpuArchitecture::Blackwell;
  });
  const bool exchanges = plan.tensor > 1 || plan.context > 1;
  return has_older && exchanges ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "";
}

int gpus_per_node(const Job& job) { return job.cluster.groups.front().node.num_gpus; }
int num_nodes(const Job& job) {
  return (job.cluster.num_gpus() + gpus_per_node(job) - 1) / gpus_per_node(job);
}

}  // namespace

model::Result<std::string> scenario_text(const ExportSource& source, const Plan& plan) {
  MEGATWIN_TRY(const std::string text, scenarios::read_file(source.file));
  MEGATWIN_TRY(scenarios::Document document, scenarios::parse_yaml(source.file, text));
  for (const std::string& setting : source.settings) {
    MEGATWIN_TRY(const scenarios::Setting parsed, scenarios::parse_setting("--set", setting));
    model::Diagnostics problems = scenarios::apply_setting(document, "--set", parsed);
    if (!problems.empty()) return model::fail(std::move(problems));
  }
  replace_token_tables(source, plan, document.root.find("disturbances"));
  make_paths_absolute(source.file, document.root);
  std::string out;
  for (const auto& entry : document.root.entries) {
    if (entry.key == "search" || entry.key == "plan" || entry.key == "policy") continue;
    out += entry.key + ": " + flow(entry.value) + "\n";
  }
  return out + plan_line(plan) + policy_line(plan);
}

std::vector<std::string> megatron_arguments(const Job& job, const Plan& plan) {
  std::vector<std::string> all = {"--use-mcore-models"};
  add_model(job.transformer, all);
  add_plan(job, plan, all);
  return all;
}

std::string megatron_script(const Job& job, const Plan& plan) {
  return fmt::format(
             "#!/bin/bash\n"
             "# {}: tensor {}, pipeline {}, context {}, data {}.\n{}"
             "{}GPUS_PER_NODE={}\nNUM_NODES={}\n"
             "MASTER_ADDR=${{MASTER_ADDR:-localhost}}\nMASTER_PORT=${{MASTER_PORT:-6000}}\n"
             "NODE_RANK=${{NODE_RANK:-0}}\n"
             "WORLD_SIZE=$((GPUS_PER_NODE*NUM_NODES))\n\n",
             model::counted(job.cluster.num_gpus(), "GPU"), plan.tensor, plan.pipeline,
             plan.context, plan.data, remarks(plan), connections_line(job, plan),
             gpus_per_node(job), num_nodes(job)) +
         argument_array(job, plan) +
         "\ntorchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NUM_NODES \\\n"
         "    --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT \\\n"
         "    pretrain_gpt.py \"${MODEL_AND_PLAN_ARGS[@]}\" \"$@\"\n";
}

std::string slurm_script(const Job& job, const Plan& plan) {
  return fmt::format(
             "#!/bin/bash\n"
             "#SBATCH --job-name=megatwin-plan\n"
             "#SBATCH --nodes={}\n"
             "#SBATCH --ntasks-per-node={}\n"
             "#SBATCH --gpus-per-node={}\n"
             "#SBATCH --exclusive\n{}"
             "{}GPUS_PER_NODE={}\nNUM_NODES={}\n"
             "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
             "export MASTER_PORT=${{MASTER_PORT:-6000}}\n\n",
             num_nodes(job), gpus_per_node(job), gpus_per_node(job), remarks(plan),
             connections_line(job, plan), gpus_per_node(job), num_nodes(job)) +
         argument_array(job, plan) +
         "\nsrun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
         "exec python pretrain_gpt.py \"$@\"' train \"${MODEL_AND_PLAN_ARGS[@]}\" \"$@\"\n";
}

std::string train_script(const Job& job, const Plan& plan) {
  return fmt::format(
      "#!/bin/bash\n"
      "# {} of `megatwin train`, {} a machine. Options of mpirun, such as --hostfile, go "
      "into\n"
      "# MPIRUN_ARGS, another megatwin into MEGATWIN, and options of train behind the name.\n"
      "exec mpirun -n {} --map-by ppr:{}:node --bind-to none ${{MPIRUN_ARGS}} \\\n"
      "    \"${{MEGATWIN:-megatwin}}\" train \"$(dirname \"$0\")/plan.yaml\" \"$@\"\n",
      model::counted(plan.gpus(), "rank"), gpus_per_node(job), plan.gpus(), gpus_per_node(job));
}

void export_plan(const ExportSource& source, const Job& job, const Plan& plan,
                 const std::string& folder) {
  const auto scenario = scenario_text(source, plan);
  if (!scenario) throw IoError(model::to_text(scenario.error()));
  write_file(folder + "/plan.yaml", *scenario);
  write_file(folder + "/megatron.sh", megatron_script(job, plan));
  write_file(folder + "/job.slurm", slurm_script(job, plan));
  write_file(folder + "/train.sh", train_script(job, plan));
}

}  // namespace megatwin::cli
