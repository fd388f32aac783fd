#include "scenarios/training_reader.h"

namespace megatwin::scenarios {
namespace {

using model::TrainingData;
using model::TrainingDataKind;
using model::TrainingSettings;

constexpr IntegerRange kSteps{.min = 1, .max = 1'000'000'000};
constexpr IntegerRange kStepsOrNone{.min = 0, .max = 1'000'000'000};
constexpr NumberRange kRate{.min = 0, .max = 1000};

std::string path_from(const TreeNode& node, const std::string& folder) {
  const bool from_command_line = node.position.line == 0;
  if (node.text.starts_with('/') || folder.empty() || from_command_line) return node.text;
  return folder + "/" + node.text;
}

void read_count(MapReader& reader, std::string_view key, IntegerRange range, int& field) {
  if (const auto value = reader.integer(key, range)) field = static_cast<int>(*value);
}

void read_number(MapReader& reader, std::string_view key, NumberRange range, double& field) {
  if (const auto value = reader.number(key, range)) field = *value;
}

void read_optimizer(MapReader& reader, TrainingSettings& settings) {
  read_number(reader, "learning_rate", kRate, settings.learning_rate);
  // Ten times lower at the end unless told otherwise (Hoffmann et al., arXiv:2203.15556).
  settings.learning_rate_final = settings.learning_rate / 10;
  read_number(reader, "learning_rate_final", kRate, settings.learning_rate_final);
  if (settings.learning_rate_final > settings.learning_rate) {
    reader.error_at(*reader.find("learning_rate_final"), "learning_rate_final",
                    "is above the learning rate", "from 0 to learning_rate");
  }
  read_count(reader, "warmup_steps", kStepsOrNone, settings.warmup_steps);
  constexpr NumberRange kBeta{.min = 0, .max = 0.999999};
  read_number(reader, "beta1", kBeta, settings.beta1);
  read_number(reader, "beta2", kBeta, settings.beta2);
  read_number(reader, "epsilon", {.min = 1e-30, .max = 1}, settings.epsilon);
  read_number(reader, "weight_decay", kRate, settings.weight_decay);
  read_number(reader, "gradient_norm_max", {.min = 0, .max = 1e9}, settings.gradient_norm_max);
}

void read_experts(MapReader& parent, TrainingSettings& settings) {
  const TreeNode* node = parent.find("experts");
  if (node == nullptr) return;
  MapReader reader(parent.context(), *node, parent.path_of("experts"));
  const TreeNode* capacity = reader.find("capacity_factor");
  if (capacity != nullptr && capacity->kind == TreeKind::Scalar && capacity->text == "dropless") {
    settings.expert_capacity_factor = 0;
  } else if (const auto factor = reader.number("capacity_factor", {.min = 0, .max = 1000});
             factor && capacity != nullptr) {
    settings.expert_capacity_factor = *factor;
    if (*factor == 0) {
      reader.error_at(*capacity, "capacity_factor", "would drop everything",
                      "dropless, or a number above 0 such as 1.25");
    }
  }
  read_number(reader, "balance_loss", {.min = 0, .max = 1000}, settings.expert_balance_loss);
  reader.finish();
}

void read_checkpoint(MapReader& parent, TrainingSettings& settings) {
  const TreeNode* node = parent.find("checkpoint");
  if (node == nullptr) return;
  MapReader reader(parent.context(), *node, parent.path_of("checkpoint"));
  reader.require("folder", "the path of a folder, which is made when it is not there");
  if (const auto folder = reader.text("folder")) settings.checkpoint_folder = *folder;
  read_count(reader, "every", kStepsOrNone, settings.checkpoint_every);
  read_count(reader, "keep", {.min = 1, .max = 1'000'000}, settings.checkpoints_kept);
  reader.finish();
}

}  // namespace

TrainingData read_training_data(MapReader& scenario, const std::string& folder) {
  TrainingData data;
  const TreeNode* node = scenario.find("data");
  if (node == nullptr) return data;
  MapReader reader(scenario.context(), *node, scenario.path_of("data"));
  const TreeNode* text = reader.find("text");
  const TreeNode* tokens = reader.find("tokens");
  if ((text == nullptr) == (tokens == nullptr)) {
    reader.error_at(*node, "", text == nullptr ? "names no file" : "names two files",
                    "either text (UTF-8, every byte a token) or tokens (a .bin file)");
  } else if (text != nullptr && reader.is_scalar(*text, "text")) {
    data = {.kind = TrainingDataKind::Text, .path = path_from(*text, folder)};
  } else if (tokens != nullptr && reader.is_scalar(*tokens, "tokens")) {
    data = {.kind = TrainingDataKind::Tokens, .path = path_from(*tokens, folder)};
  }
  if (const TreeNode* share = reader.find("held_out");
      share != nullptr && reader.is_scalar(*share, "held_out")) {
    const model::Result<double> value = parse_fraction(share->text);
    if (value && *value < 1) {
      data.held_out = *value;
    } else {
      reader.error_at(*share, "held_out", quoted(share->text) + " is no share of the text",
                      "0 or more and below 1, such as 10 % or 0.1");
    }
  }
  reader.finish();
  return data;
}

TrainingSettings read_training_settings(MapReader& scenario) {
  TrainingSettings settings;
  const TreeNode* node = scenario.find("training");
  if (node == nullptr) return settings;
  MapReader reader(scenario.context(), *node, scenario.path_of("training"));
  read_count(reader, "steps", kSteps, settings.steps);
  if (const auto seed = reader.integer("seed", {.min = 0, .max = 1'000'000'000'000})) {
    settings.seed = static_cast<std::uint64_t>(*seed);
  }
  read_optimizer(reader, settings);
  read_experts(reader, settings);
  read_count(reader, "evaluate_every", kStepsOrNone, settings.evaluate_every);
  read_count(reader, "evaluate_sequences", kSteps, settings.evaluate_sequences);
  read_checkpoint(reader, settings);
  if (const auto watchdog = reader.read("watchdog", parse_time)) settings.watchdog = *watchdog;
  reader.finish();
  return settings;
}

}  // namespace megatwin::scenarios
