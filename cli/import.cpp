#include "cli/import.h"

#include <cstdint>
#include <optional>
#include <variant>

#include "cli/diagnostics.h"
#include "cli/report/format.h"
#include "cli/report/json_writer.h"
#include "model/parameters.h"
#include "scenarios/huggingface.h"

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

model::Result<Imported> import_huggingface(const std::string& file) {
  MEGATWIN_TRY(const scenarios::HuggingfaceModel loaded, scenarios::load_huggingface_config(file));
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

std::string text_of(const FactValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) return format_count(*count);
  if (const auto* number = std::get_if<double>(&value)) return format_short(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  return std::get<std::string>(value);
}

void print_text(const Imported& imported, Console& console) {
  console.out << "kind: " << imported.kind << ", family: " << imported.family << "\n";
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
  console.out << "of no bearing on shape or cost:";
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
  model::Diagnostics faults;
  if (arguments.words.size() > 2) {
    faults = {{.message = "one file at a time", .allowed = "FILE, or a kind (hf) and FILE"}};
  } else if (arguments.words.size() == 2 && arguments.words.front() != "hf") {
    faults = {{.message = "unknown kind '" + arguments.words.front() + "'", .allowed = "hf"}};
  }
  if (faults.empty()) {
    const auto imported = import_huggingface(arguments.words.back());
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
