#include "scenarios/launch_yaml.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "scenarios/launch_settings.h"
#include "scenarios/zoo.h"

namespace megatwin::scenarios {
namespace {

constexpr int kReferenceDepthMax = 16;

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return std::string(text);
}

// Replaces ${…} of a value: another key (absolute, or relative with a leading dot), arithmetic in
// the manner of OmegaConf resolvers, an environment variable with its default.
class Interpolation {
 public:
  Interpolation(const TreeNode& root, std::set<std::string>& unresolved)
      : root_(root), unresolved_(unresolved) {}

  std::optional<std::string> resolve(const std::string& text, const TreeNode& siblings,
                                     int depth = 0) {
    if (depth > kReferenceDepthMax) return std::nullopt;
    const std::size_t begin = text.find("${");
    if (begin == std::string::npos) return text;
    const std::size_t end = closing(text, begin + 1);
    if (end == std::string::npos) return std::nullopt;
    const std::string inside = text.substr(begin + 2, end - begin - 2);
    const auto value = evaluate(inside, siblings, depth);
    if (!value) {
      unresolved_.insert("${" + inside + "}");
      return std::nullopt;
    }
    return resolve(text.substr(0, begin) + *value + text.substr(end + 1), siblings, depth + 1);
  }

 private:
  static std::size_t closing(const std::string& text, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i;
    }
    return std::string::npos;
  }

  std::optional<std::string> evaluate(const std::string& inside, const TreeNode& siblings,
                                      int depth) {
    const std::size_t colon = inside.find(':');
    if (colon == std::string::npos) return reference(inside, siblings, depth);
    const std::string name = inside.substr(0, colon);
    const std::string rest = inside.substr(colon + 1);
    if (name == "multiply" || name == "divide_ceil" || name == "divide_floor" || name == "add") {
      return arithmetic(name, rest, siblings, depth);
    }
    if (name == "oc.env" || name == "env") {
      const std::size_t comma = rest.find(',');
      if (comma == std::string::npos) return std::nullopt;
      return resolve(trimmed(rest.substr(comma + 1)), siblings, depth + 1);
    }
    // Primus: an environment variable and what is taken without it.
    const bool is_variable = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
    });
    if (!is_variable) return std::nullopt;
    return resolve(rest, siblings, depth + 1);
  }

  std::optional<std::string> arithmetic(const std::string& name, const std::string& arguments,
                                        const TreeNode& siblings, int depth) {
    // The comma between the two stands outside all brackets.
    int brackets = 0;
    std::size_t comma = std::string::npos;
    for (std::size_t i = 0; i < arguments.size() && comma == std::string::npos; ++i) {
      if (arguments[i] == '{') ++brackets;
      if (arguments[i] == '}') --brackets;
      if (arguments[i] == ',' && brackets == 0) comma = i;
    }
    if (comma == std::string::npos) return std::nullopt;
    const auto first = resolve(trimmed(arguments.substr(0, comma)), siblings, depth + 1);
    const auto second = resolve(trimmed(arguments.substr(comma + 1)), siblings, depth + 1);
    if (!first || !second) return std::nullopt;
    const auto a = whole_number(*first), b = whole_number(*second);
    constexpr std::int64_t kMax = 1'000'000'000;
    if (!a || !b || *a < 0 || *b < 0 || *a > kMax || *b > kMax) return std::nullopt;
    if (name == "multiply") return std::to_string(*a * *b);
    if (name == "add") return std::to_string(*a + *b);
    if (*b == 0) return std::nullopt;
    return std::to_string(name == "divide_ceil" ? (*a + *b - 1) / *b : *a / *b);
  }

  std::optional<std::string> reference(std::string path, const TreeNode& siblings, int depth) {
    const TreeNode* node = &root_;
    if (path.starts_with('.')) {
      node = &siblings;
      path.erase(0, 1);
    }
    // NeMo mounts the file under `training`.
    if (path.starts_with("training.")) path.erase(0, std::string("training.").size());
    while (node != nullptr && !path.empty()) {
      const std::size_t dot = path.find('.');
      node = node->kind == TreeKind::Map ? node->find(path.substr(0, dot)) : nullptr;
      path = dot == std::string::npos ? "" : path.substr(dot + 1);
    }
    if (node == nullptr || node->kind != TreeKind::Scalar) return std::nullopt;
    return resolve(node->text, siblings, depth + 1);
  }

  const TreeNode& root_;
  std::set<std::string>& unresolved_;
};

// What NeMo calls a setting, and what Megatron does.
struct Renamed {
  std::string_view nemo, megatron;
};
constexpr std::array<Renamed, 8> kRenamed = {
    {{"encoder_seq_length", "seq_length"},
     {"virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"},
     {"activations_checkpoint_granularity", "recompute_granularity"},
     {"activations_checkpoint_method", "recompute_method"},
     {"activations_checkpoint_num_layers", "recompute_num_layers"},
     {"ub_tp_comm_overlap", "tp_comm_overlap"},
     {"overlap_grad_sync", "overlap_grad_reduce"},
     {"overlap_param_sync", "overlap_param_gather"}}};
// Settings whose meaning takes more than another name.
constexpr std::array<std::string_view, 12> kTranslated = {
    "activation",    "bias",    "share_embeddings_and_output_weights",
    "normalization", "fp8",     "overlap_p2p_comm",
    "num_nodes",     "devices", "precision",
    "name",          "fsdp",    "fsdp_sharding_strategy"};

class YamlLaunch {
 public:
  YamlLaunch(const Document& document, MegatronLaunch& launch)
      : document_(document), launch_(launch), interpolation_(document.root, unresolved_) {}

  model::Result<LaunchSettings> run() {
    const bool found = launch_.kind == LaunchKind::Nemo ? read_nemo() : read_primus();
    if (!found) {
      return model::fail(diagnostic_at(
          document_.sources,
          {.position = document_.root.position,
           .message = "holds no settings of a launch",
           .allowed = "NeMo: a map `model` with tensor_model_parallel_size; Primus: a map "
                      "`modules` whose entries have `overrides`"}));
    }
    for (const std::string& text : unresolved_) {
      launch_.warnings.push_back("cannot be resolved from this file alone: " + text);
    }
    return std::move(settings_);
  }

 private:
  // Calls take(key, value) for every scalar of a map.
  void for_each(const TreeNode& map,
                const std::function<void(const std::string&, const std::string&)>& take) {
    for (const TreeEntry& entry : map.entries) {
      if (entry.value.kind == TreeKind::Null) continue;
      if (entry.value.kind != TreeKind::Scalar) {
        // Lists stand for themselves: a layer pattern, or paths of data.
        if (entry.value.kind == TreeKind::Map) continue;
        launch_.ignored.push_back(entry.key);
        continue;
      }
      if (!is_relevant(entry.key)) {
        launch_.ignored.push_back(entry.key);
        continue;
      }
      const auto value = interpolation_.resolve(entry.value.text, map);
      if (!value) {
        launch_.warnings.push_back(entry.key + ": " + entry.value.text + " is not known");
        continue;
      }
      if (*value == "null" || *value == "None" || value->empty()) continue;
      take(entry.key, *value);
    }
  }

  static std::string canonical(const std::string& key) {
    for (const Renamed& renamed : kRenamed) {
      if (key == renamed.nemo) return std::string(renamed.megatron);
    }
    return key;
  }

  static bool is_relevant(const std::string& key) {
    return bears_on_cost(canonical(key)) ||
           std::find(kTranslated.begin(), kTranslated.end(), key) != kTranslated.end();
  }

  static std::string lower(std::string text) {
    if (text == "True" || text == "TRUE") return "true";
    if (text == "False" || text == "FALSE") return "false";
    return text;
  }

  void keep(const std::string& key, const std::string& value) {
    launch_.settings.emplace_back(key, lower(value));
    settings_[canonical(key)] = lower(value);
  }

  bool read_nemo() {
    const TreeNode* model = document_.root.find("model");
    if (model == nullptr || model->find("tensor_model_parallel_size") == nullptr) return false;
    for_each(*model, [&](const auto& key, const auto& value) { keep_nemo(key, value); });
    if (const TreeNode* data = model->find("data")) {
      for_each(*data, [&](const auto& key, const auto& value) { keep(key, value); });
    }
    if (const TreeNode* optimizer = model->find("optim")) {
      for_each(*optimizer, [&](const auto& key, const auto& value) {
        if (key == "name") {
          const bool distributed = value.find("distributed") != std::string::npos ||
                                   value.find("mcore_dist") != std::string::npos;
          launch_.settings.emplace_back("optim.name", value);
          if (distributed) settings_["use_distributed_optimizer"] = "true";
        } else {
          keep(key, value);
        }
      });
    }
    if (const TreeNode* trainer = document_.root.find("trainer")) read_trainer(*trainer);
    return true;
  }

  void keep_nemo(const std::string& key, const std::string& given) {
    const std::string value = lower(given);
    if (key == "name") {
      launch_.ignored.push_back(key);
      return;
    }
    launch_.settings.emplace_back(key, value);
    if (key == "activation") {
      if (value.find("swiglu") != std::string::npos) settings_["swiglu"] = "true";
      if (value == "squared-relu") settings_["squared_relu"] = "true";
    } else if (key == "bias") {
      if (value == "false") settings_["disable_bias_linear"] = "true";
    } else if (key == "share_embeddings_and_output_weights") {
      if (value == "false") settings_["untie_embeddings_and_output_weights"] = "true";
    } else if (key == "normalization") {
      settings_[key] = value == "rmsnorm" ? "RMSNorm" : "LayerNorm";
    } else if (key == "num_query_groups") {
      settings_[key] = value;
      settings_["group_query_attention"] = "true";
    } else if (key == "fp8") {
      if (value == "true") settings_["fp8_format"] = "hybrid";
    } else if (key == "fp8_hybrid") {
      return;  // Which format, once fp8 is on.
    } else if (key == "overlap_p2p_comm") {
      if (value == "false") settings_["no_overlap_p2p_communication"] = "true";
    } else if (key == "fsdp") {
      if (value == "true") settings_["use_torch_fsdp2"] = "true";
    } else if (key != "precision" && key != "devices" && key != "num_nodes") {
      settings_[canonical(key)] = value;
    }
  }

  void read_trainer(const TreeNode& trainer) {
    std::optional<std::int64_t> nodes, devices;
    for_each(trainer, [&](const auto& key, const auto& value) {
      launch_.settings.emplace_back(key, value);
      if (key == "num_nodes") nodes = whole_number(value);
      if (key == "devices") devices = whole_number(value);
      if (key == "precision") {
        if (value.find("bf16") != std::string::npos) settings_["bf16"] = "true";
        if (value == "16" || value == "16-mixed") settings_["fp16"] = "true";
      }
    });
    constexpr std::int64_t kMax = 1'000'000;
    if (nodes && devices && *nodes > 0 && *devices > 0 && *nodes < kMax && *devices < 1000) {
      launch_.gpus = static_cast<int>(*nodes * *devices);
    }
  }

  bool read_primus() {
    const TreeNode* modules = document_.root.find("modules");
    if (modules == nullptr) return false;
    for (const TreeEntry& entry : modules->entries) {
      const TreeNode* overrides = entry.value.find("overrides");
      if (overrides == nullptr || overrides->kind != TreeKind::Map) continue;
      if (const TreeNode* model = entry.value.find("model")) read_base_model(*model, entry.value);
      // The trainer's own defaults train in bf16; a file only says so when it differs.
      settings_.emplace("bf16", "true");
      const bool had_latent = settings_.contains("multi_latent_attention");
      for_each(*overrides, [&](const auto& key, const auto& value) { keep(key, value); });
      if (had_latent && settings_["multi_latent_attention"] != "true") {
        launch_.warnings.emplace_back(
            "multi_latent_attention is switched off by this file: plain attention is counted, "
            "not the model's own");
      }
      return true;
    }
    return false;
  }

  // `model: llama3.1_405B.yaml` names a file that is not here; the zoo may know the model.
  void read_base_model(const TreeNode& node, const TreeNode& siblings) {
    const auto name = interpolation_.resolve(node.text, siblings);
    if (!name) return;
    launch_.settings.emplace_back("model", *name);
    const auto plain = [](std::string_view text) {
      std::string out;
      for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
          out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
      }
      return out;
    };
    const std::string wanted = plain(std::string_view(*name).substr(0, name->rfind(".yaml")));
    for (const std::string& known : zoo_names()) {
      if (plain(known) != wanted) continue;
      const auto zoo = find_zoo_model(known);
      if (!zoo) break;
      take_shape(zoo->transformer);
      launch_.warnings.push_back("the file of the model, " + *name +
                                 ", is not here: its shape is taken from the zoo's " + known);
      return;
    }
    launch_.warnings.push_back("the file of the model, " + *name +
                               ", is not here, and the zoo has no such model: the shape is open");
  }

  // The zoo's shape in Megatron's words, so that the overrides of the file come on top.
  void take_shape(const model::Transformer& shape) {
    const auto set = [&](const char* key, std::int64_t value) {
      if (value > 0) settings_[key] = std::to_string(value);
    };
    set("num_layers", shape.num_layers);
    set("hidden_size", shape.hidden_size);
    set("ffn_hidden_size", shape.ffn_hidden_size);
    set("num_attention_heads", shape.num_attention_heads);
    set("num_query_groups", shape.num_key_value_heads);
    set("kv_channels", shape.latent ? shape.latent->v_head_dim : shape.head_dim);
    set("vocab_size", shape.vocab_size);
    set("mtp_num_layers", shape.num_mtp_layers);
    settings_["group_query_attention"] = "true";
    if (shape.activation == model::ActivationKind::SwiGlu) settings_["swiglu"] = "true";
    if (shape.norm == model::NormKind::RmsNorm) settings_["normalization"] = "RMSNorm";
    if (shape.position == model::PositionKind::Rotary) {
      settings_["position_embedding_type"] = "rope";
    }
    if (!shape.tied_embeddings) settings_["untie_embeddings_and_output_weights"] = "true";
    if (!shape.mlp_bias) settings_["disable_bias_linear"] = "true";
    if (shape.latent) {
      settings_["multi_latent_attention"] = "true";
      set("q_lora_rank", shape.latent->q_lora_rank);
      set("kv_lora_rank", shape.latent->kv_lora_rank);
      set("qk_head_dim", shape.latent->qk_nope_head_dim);
      set("qk_pos_emb_head_dim", shape.latent->qk_rope_head_dim);
      set("v_head_dim", shape.latent->v_head_dim);
    }
    if (!shape.experts) return;
    set("num_experts", shape.experts->num_experts);
    set("moe_router_topk", shape.experts->experts_per_token);
    set("moe_ffn_hidden_size", shape.experts->expert_ffn_size);
    if (shape.experts->router_bias) settings_["moe_router_enable_expert_bias"] = "true";
    set("moe_shared_expert_intermediate_size", shape.experts->shared_expert_ffn_size);
    if (shape.num_dense_first_layers > 0) {
      settings_["moe_layer_freq"] = "[0]*" + std::to_string(shape.num_dense_first_layers) +
                                    "+[1]*" +
                                    std::to_string(shape.num_layers - shape.num_dense_first_layers);
    }
  }

  const Document& document_;
  MegatronLaunch& launch_;
  LaunchSettings settings_;
  std::set<std::string> unresolved_;
  Interpolation interpolation_;
};

}  // namespace

model::Result<LaunchSettings> read_launch_yaml(const Document& document, MegatronLaunch& launch) {
  return YamlLaunch(document, launch).run();
}

}  // namespace megatwin::scenarios
