#include "cli/import.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <variant>

#include "cli/diagnostics.h"
#include "cli/network_description.h"
#include "cli/report/format.h"
#include "cli/report/json_writer.h"
#include "model/parameters.h"
#include "scenarios/document.h"
#include "scenarios/huggingface.h"
#include "scenarios/megatron_launch.h"
#include "sim/search/search_space.h"

namespace megatwin::cli {
namespace {

using FactValue = std::variant<std::int64_t, double, bool, std::string>;

struct Fact {
  std::string name;
  FactValue value;
};

// What every kind of description comes down to.
struct Imported {
  std::string kind;
  std::string family;
  std::vector<Fact> facts;
  std::vector<std::string> ignored, warnings;
  std::optional<model::ParameterCounts> parameters;
};

std::string_view name_of(model::ActivationKind kind) {
  switch (kind) {
    case model::ActivationKind::Gelu:
      return "gelu";
    case model::ActivationKind::Relu:
      return "relu";
    case model::ActivationKind::SquaredRelu:
      return "squared_relu";
    case model::ActivationKind::SwiGlu:
      return "swiglu";
    case model::ActivationKind::GeGlu:
      return "geglu";
  }
  return "gelu";
}

std::string_view name_of(model::PositionKind kind) {
  switch (kind) {
    case model::PositionKind::Learned:
      return "learned";
    case model::PositionKind::Rotary:
      return "rotary";
    case model::PositionKind::Alibi:
      return "alibi";
    case model::PositionKind::None:
      return "none";
  }
  return "none";
}

void add_expert_facts(const model::Transformer& shape, std::vector<Fact>& facts) {
  if (shape.latent) {
    facts.push_back({"q_lora_rank", shape.latent->q_lora_rank});
    facts.push_back({"kv_lora_rank", shape.latent->kv_lora_rank});
    facts.push_back({"qk_nope_head_dim", shape.latent->qk_nope_head_dim});
    facts.push_back({"qk_rope_head_dim", shape.latent->qk_rope_head_dim});
    facts.push_back({"v_head_dim", shape.latent->v_head_dim});
  }
  if (shape.experts) {
    facts.push_back({"num_experts", shape.experts->num_experts});
    facts.push_back({"experts_per_token", shape.experts->experts_per_token});
    facts.push_back({"expert_ffn_size", shape.experts->expert_ffn_size});
    facts.push_back({"shared_expert_ffn_size", shape.experts->shared_expert_ffn_size});
    facts.push_back({"num_dense_first_layers", shape.num_dense_first_layers});
  }
  if (shape.num_mtp_layers > 0) facts.push_back({"num_mtp_layers", shape.num_mtp_layers});
}

std::vector<Fact> facts_of(const model::Transformer& shape) {
  std::vector<Fact> facts = {
      {"num_layers", shape.num_layers},
      {"hidden_size", shape.hidden_size},
      {"ffn_hidden_size", shape.ffn_hidden_size},
      {"num_attention_heads", shape.num_attention_heads},
      {"num_key_value_heads", shape.num_key_value_heads},
      {"head_dim", shape.head_dim},
      {"vocab_size", shape.vocab_size},
      {"max_position_embeddings", shape.max_position_embeddings},
      {"activation", std::string(name_of(shape.activation))},
      {"position", std::string(name_of(shape.position))},
      {"norm", std::string(shape.norm == model::NormKind::RmsNorm ? "rms_norm" : "layer_norm")},
      {"tied_embeddings", shape.tied_embeddings},
      {"qkv_bias", shape.qkv_bias},
      {"mlp_bias", shape.mlp_bias},
      {"sliding_window", shape.sliding_window},
      {"dropout", shape.dropout}};
  add_expert_facts(shape, facts);
  return facts;
}

model::Result<Imported> import_huggingface(
    const model::Result<scenarios::HuggingfaceModel>& config) {
  MEGATWIN_TRY(const scenarios::HuggingfaceModel loaded, config);
  Imported imported{.kind = "hf", .family = loaded.transformer.family};
  imported.facts = facts_of(loaded.transformer);
  imported.ignored = loaded.ignored;
  for (const model::Diagnostic& warning : loaded.warnings) {
    imported.warnings.push_back(warning.key.empty() ? warning.message
                                                    : warning.key + ": " + warning.message);
  }
  imported.parameters = model::count_parameters(loaded.transformer);
  return imported;
}

// A number or a switch as such, everything else as text.
FactValue fact_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, whole);
  if (error == std::errc{} && rest == end && !text.empty()) return whole;
  double number = 0;
  const auto [after, failure] = std::from_chars(text.data(), end, number);
  if (failure == std::errc{} && after == end && !text.empty()) return number;
  return text;
}

std::string_view name_of(scenarios::LaunchKind kind) {
  switch (kind) {
    case scenarios::LaunchKind::Megatron:
      return "megatron";
    case scenarios::LaunchKind::Nemo:
      return "nemo";
    case scenarios::LaunchKind::Primus:
      return "primus";
  }
  return "megatron";
}

void add_plan_facts(const scenarios::MegatronLaunch& launch, std::vector<Fact>& facts) {
  const model::Plan& plan = launch.plan;
  const auto add = [&](const char* name, FactValue value) {
    facts.push_back({name, std::move(value)});
  };
  add("plan.tensor", std::int64_t{plan.tensor});
  add("plan.pipeline", std::int64_t{plan.pipeline});
  add("plan.model_chunks", std::int64_t{plan.model_chunks});
  add("plan.context", std::int64_t{plan.context});
  add("plan.expert", std::int64_t{plan.expert});
  add("plan.expert_tensor", std::int64_t{plan.effective_expert_tensor()});
  if (plan.data > 0) {
    add("plan.data", std::int64_t{plan.data});
    const std::int64_t unit = plan.micro_batch * plan.data;
    if (unit > 0 && plan.global_batch % unit == 0) {
      add("plan.num_micro_batches", plan.global_batch / unit);
    }
    const int expert_ranks = plan.effective_expert_tensor() * plan.expert * plan.pipeline;
    if (plan.gpus() % expert_ranks == 0) {
      add("plan.expert_data", std::int64_t{plan.expert_data()});
    }
  }
  add("plan.micro_batch", plan.micro_batch);
  add("plan.global_batch", plan.global_batch);
  add("plan.sequence_parallel", plan.sequence_parallel);
  add("plan.zero", std::int64_t{plan.zero_stage});
  add("plan.recompute", value_text(plan, sim::SpaceKey::Recompute));
  add("plan.precision", value_text(plan, sim::SpaceKey::Precision));
  add("plan.schedule", value_text(plan, sim::SpaceKey::Schedule));
  if (launch.gpus) add("gpus", std::int64_t{*launch.gpus});
  if (launch.padded_vocab_size) add("padded_vocab_size", *launch.padded_vocab_size);
}

model::Result<Imported> import_launch(const std::string& file, const std::string& text,
                                      scenarios::LaunchKind kind) {
  MEGATWIN_TRY(const scenarios::MegatronLaunch launch,
               scenarios::read_megatron_launch(file, text, kind));
  Imported imported{.kind = std::string(name_of(kind)), .family = "megatron-gpt"};
  for (const auto& [name, value] : launch.settings) {
    imported.facts.push_back({name, fact_value(value)});
  }
  add_plan_facts(launch, imported.facts);
  imported.ignored = launch.ignored;
  imported.warnings = launch.warnings;
  if (launch.transformer) imported.parameters = model::count_parameters(*launch.transformer);
  return imported;
}

model::Result<Imported> import_network(const std::string& kind, const std::string& file,
                                       const std::string& text) {
  MEGATWIN_TRY(NetworkDescription description, read_network_description(kind, file, text));
  Imported imported{.kind = std::move(description.kind)};
  for (auto& [name, value] : description.facts) {
    imported.facts.push_back({std::move(name), fact_value(value)});
  }
  if (description.topology) {
    const model::Topology& topology = *description.topology;
    imported.facts.push_back({"topology gpus", std::int64_t{topology.num_gpus()}});
    imported.facts.push_back({"topology links", std::int64_t{topology.num_links()}});
  }
  imported.warnings = std::move(description.warnings);
  return imported;
}

// The kind as given, else by content.
model::Result<Imported> import_file(const std::string& kind, const std::string& file) {
  using scenarios::LaunchKind;
  if (kind == "hf") return import_huggingface(scenarios::load_huggingface_config(file));
  MEGATWIN_TRY(const std::string text, scenarios::read_file(file));
  if (kind == "megatron") return import_launch(file, text, LaunchKind::Megatron);
  if (kind == "nemo") return import_launch(file, text, LaunchKind::Nemo);
  if (kind == "primus") return import_launch(file, text, LaunchKind::Primus);
  const bool is_network =
      std::find(network_kinds().begin(), network_kinds().end(), kind) != network_kinds().end();
  if (is_network) return import_network(kind, file, text);
  const auto network = recognise_network_kind(text);
  if (network) return import_network(*network, file, text);
  const auto recognised = scenarios::recognise_launch(text);
  if (recognised) return import_launch(file, text, *recognised);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    return import_huggingface(scenarios::parse_huggingface_config(file, text));
  }
  if (text.find("out-of-place") != std::string::npos && text.find("busbw") != std::string::npos) {
    return model::fail({.file = file,
                        .message = "is a log of nccl-tests, a record and no description",
                        .allowed = "megatwin validate FILE, which holds its times against ours"});
  }
  std::string kinds = "a Hugging Face configuration, a launch file of Megatron-LM, NeMo or Primus";
  for (const std::string& name : network_kinds()) kinds += ", " + name;
  return model::fail({.file = file,
                      .message = "is of no kind that is known",
                      .allowed = kinds + "; or say the kind: import KIND FILE"});
}

std::string text_of(const FactValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) return format_count(*count);
  if (const auto* number = std::get_if<double>(&value)) return format_short(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  return std::get<std::string>(value);
}

void print_text(const Imported& imported, Console& console) {
  console.out << "kind: " << imported.kind;
  if (!imported.family.empty()) console.out << ", family: " << imported.family;
  console.out << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const Fact& fact : imported.facts) rows.push_back({fact.name, text_of(fact.value)});
  if (imported.parameters) {
    rows.push_back({"parameters, total", format_count(imported.parameters->total)});
    rows.push_back({"parameters, active", format_count(imported.parameters->active)});
  }
  console.out << format_table(rows, {false, true});
  for (const std::string& warning : imported.warnings)
    console.out << "warning: " << warning << "\n";
  if (imported.ignored.empty()) return;
  console.out << "not taken over:";
  for (const std::string& key : imported.ignored) console.out << " " << key;
  console.out << "\n";
}

void write_fact(JsonWriter& json, const Fact& fact) {
  std::visit([&](const auto& value) { json.member(fact.name, value); }, fact.value);
}

void print_json(const Imported& imported, Console& console) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("kind", imported.kind);
  if (!imported.family.empty()) json.member("family", imported.family);
  json.key("facts");
  json.begin_object();
  for (const Fact& fact : imported.facts) write_fact(json, fact);
  json.end_object();
  if (imported.parameters) {
    json.key("parameters");
    json.begin_object();
    json.member("total", imported.parameters->total);
    json.member("active", imported.parameters->active);
    json.end_object();
  }
  json.member("ignored", imported.ignored);
  json.member("warnings", imported.warnings);
  json.end_object();
  console.out << json.finish();
}

}  // namespace

int import_command(const ImportArguments& arguments, Console& console) {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> all = {"hf", "megatron", "nemo", "primus"};
    all.insert(all.end(), network_kinds().begin(), network_kinds().end());
    return all;
  }();
  std::string allowed;
  for (const std::string& kind : kinds) allowed += (allowed.empty() ? "" : ", ") + kind;
  const bool has_kind = arguments.words.size() == 2;
  model::Diagnostics faults;
  if (arguments.words.size() > 2) {
    faults = {
        {.message = "one file at a time", .allowed = "FILE, or a kind (" + allowed + ") and FILE"}};
  } else if (has_kind &&
             std::find(kinds.begin(), kinds.end(), arguments.words.front()) == kinds.end()) {
    faults = {{.message = "unknown kind '" + arguments.words.front() + "'", .allowed = allowed}};
  }
  if (faults.empty()) {
    const auto imported =
        import_file(has_kind ? arguments.words.front() : "", arguments.words.back());
    if (imported) {
      arguments.json ? print_json(*imported, console) : print_text(*imported, console);
      return kExitAnswer;
    }
    faults = imported.error();
  }
  print_diagnostics(faults, arguments.json_diagnostics, console);
  return kExitBadInput;
}

}  // namespace megatwin::cli
