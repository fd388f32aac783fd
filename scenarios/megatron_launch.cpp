#include "scenarios/megatron_launch.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "scenarios/launch_settings.h"
#include "scenarios/launch_yaml.h"
#include "scenarios/shell_script.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

// --tensor-model-parallel-size, also written with underscores, and perhaps with =value.
struct Flag {
  std::string name;  // Canonical.
  std::optional<std::string> value;
};
std::optional<Flag> flag_of(const std::string& word) {
  if (!word.starts_with("--") || word.size() < 4) return std::nullopt;
  const std::size_t equals = word.find('=');
  Flag flag{.name = word.substr(2, equals == std::string::npos ? equals : equals - 2)};
  std::replace(flag.name.begin(), flag.name.end(), '-', '_');
  if (equals != std::string::npos) flag.value = word.substr(equals + 1);
  return flag;
}

// The last line that gives a setting, as a flag with dashes or underscores or as a key; 0 where it
// comes from elsewhere. Comments give none.
int setting_line(std::string_view text, std::string_view name) {
  const auto is_part = [](char c) { return c == '_' || c == '-' || std::isalnum(c & 0x7f) != 0; };
  int line = 1, found = 0;
  bool in_comment = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') {
      ++line;
      in_comment = false;
    }
    if (text[at] == '#' && (at == 0 || std::isspace(text[at - 1] & 0x7f) != 0)) in_comment = true;
    if (in_comment) continue;
    const bool after_dashes = at > 1 && text[at - 1] == '-' && text[at - 2] == '-';
    if (at > 0 && is_part(text[at - 1]) && !after_dashes) continue;
    if (text.size() - at < name.size()) break;
    const bool same = std::equal(name.begin(), name.end(), text.begin() + static_cast<long>(at),
                                 [](char a, char b) { return a == b || (a == '_' && b == '-'); });
    const std::size_t end = at + name.size();
    const std::size_t next = text.find_first_not_of("\"' ", end);
    const bool is_key = next != std::string_view::npos && (text[next] == ':' || text[next] == '=');
    if (same && (after_dashes || is_key) && (end == text.size() || !is_part(text[end]))) {
      found = line;
    }
  }
  return found;
}

std::optional<std::int64_t> count_of(const std::string& text) {
  const auto number = whole_number(text);
  return number && *number >= 1 && *number <= 10'000'000 ? number : std::nullopt;
}

// How many machines and GPUs each, from wherever the script says so.
struct WorldSize {
  std::optional<std::int64_t> nodes, gpus_per_node, ranks;

  std::optional<int> gpus() const {
    if (ranks) return static_cast<int>(*ranks);
    if (!nodes || !gpus_per_node || *nodes * *gpus_per_node > 10'000'000) return std::nullopt;
    return static_cast<int>(*nodes * *gpus_per_node);
  }
};

class ScriptLaunch {
 public:
  ScriptLaunch(const ShellScript& script, MegatronLaunch& launch)
      : script_(script), launch_(launch) {}

  std::optional<LaunchSettings> run() {
    std::vector<ShellWord> words = launch_words();
    if (words.empty()) return std::nullopt;
    read_sbatch();
    read_flags(words);
    read_variables();
    launch_.gpus = world_.gpus();
    for (const std::string& name : script_.unset) {
      // What is passed on ("$@") or goes into paths does not say what is trained.
      if (!used_.contains(name) || name == "@" || name == "*") continue;
      launch_.warnings.push_back(name + " is not set in this file: its value comes from outside");
    }
    for (const std::string& warning : script_.warnings) launch_.warnings.push_back(warning);
    return std::move(settings_);
  }

 private:
  static bool has_model_flag(const std::vector<ShellWord>& words) {
    return std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
      const auto flag = flag_of(word.text);
      return flag && (flag->name == "num_layers" || flag->name == "micro_batch_size" ||
                      flag->name == "tensor_model_parallel_size" ||
                      flag->name == "pipeline_model_parallel_size" ||
                      flag->name == "global_batch_size" || flag->name == "hidden_size");
    });
  }

  // The words of the command that starts training; where the script only fills arrays or strings
  // for somebody else, those.
  std::vector<ShellWord> launch_words() const {
    const ShellCommand* best = nullptr;
    for (const ShellCommand& command : script_.commands) {
      if (has_model_flag(command.words)) best = &command;
    }
    if (best != nullptr) return best->words;
    std::vector<ShellWord> words;
    for (const std::string& name : script_.array_order) {
      const auto& array = script_.arrays.at(name);
      words.insert(words.end(), array.begin(), array.end());
    }
    if (has_model_flag(words)) return words;
    words.clear();
    for (const auto& [name, value] : script_.variables) {
      if (!value.text.starts_with("--") && value.text.find(" --") == std::string::npos) continue;
      std::size_t at = 0;
      while (at < value.text.size()) {
        const std::size_t begin = value.text.find_first_not_of(" \t\n", at);
        if (begin == std::string::npos) break;
        at = std::min(value.text.find_first_of(" \t\n", begin), value.text.size());
        words.push_back({value.text.substr(begin, at - begin), value.resolved});
      }
    }
    return has_model_flag(words) ? words : std::vector<ShellWord>{};
  }

  void read_flags(const std::vector<ShellWord>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].resolved && flag_of(words[i].text) == std::nullopt) {
        note_names(words[i].text);
        continue;
      }
      auto flag = flag_of(words[i].text);
      if (!flag) continue;
      if (!flag->value && !is_switch(flag->name) && i + 1 < words.size() &&
          !words[i + 1].text.starts_with("--")) {
        const ShellWord& value = words[i + 1];
        ++i;
        if (!value.resolved) {
          unresolved(*flag, value.text);
          continue;
        }
        flag->value = value.text;
      } else if (flag->value && !words[i].resolved) {
        unresolved(*flag, *flag->value);
        continue;
      }
      keep(*flag);
    }
  }

  void unresolved(const Flag& flag, const std::string& text) {
    const bool matters =
        flag.name == "nnodes" || flag.name == "nproc_per_node" || bears_on_cost(flag.name);
    if (!matters) {
      launch_.ignored.push_back(flag.name);
      return;
    }
    note_names(text);
    launch_.warnings.push_back(flag.name + ": " + text + " is not known");
  }

  // Names that a text asks for.
  void note_names(const std::string& text) {
    for (const std::string& name : script_.unset) {
      if (text.find(name) != std::string::npos) used_.insert(name);
    }
  }

  void keep(const Flag& flag) {
    if (flag.name == "nproc_per_node") world_.gpus_per_node = count_of(flag.value.value_or(""));
    if (flag.name == "nnodes") world_.nodes = count_of(flag.value.value_or(""));
    if (!bears_on_cost(flag.name)) {
      launch_.ignored.push_back(flag.name);
      return;
    }
    const std::string value = flag.value.value_or("true");
    if (settings_.contains(flag.name) && settings_[flag.name] != value) {
      launch_.warnings.push_back(flag.name + " is given twice; the last one counts: " + value);
      std::erase_if(launch_.settings, [&](const auto& entry) { return entry.first == flag.name; });
    }
    if (!settings_.contains(flag.name) || settings_[flag.name] != value) {
      launch_.settings.emplace_back(flag.name, value);
    }
    settings_[flag.name] = value;
  }

  // #SBATCH --nodes=16, --gpus-per-node=8, --gpus-per-node=h100:8, -N 16.
  void read_sbatch() {
    for (const std::string& line : script_.sbatch) {
      const auto value_after = [&](std::initializer_list<const char*> names) -> std::string {
        for (const std::string name : names) {
          const std::size_t at = line.find(name);
          if (at == std::string::npos) continue;
          std::string rest = line.substr(at + name.size());
          rest.erase(0, rest.find_first_not_of(" ="));
          rest = rest.substr(0, rest.find_first_of(" #"));
          return rest.substr(rest.rfind(':') + 1);
        }
        return {};
      };
      if (const auto nodes = count_of(value_after({"--nodes", "-N "}))) world_.nodes = nodes;
      const std::string gpus = value_after({"--gpus-per-node", "--gres=gpu", "--gres gpu"});
      if (const auto count = count_of(gpus)) world_.gpus_per_node = count;
      if (!world_.gpus_per_node) {
        world_.gpus_per_node = count_of(value_after({"--ntasks-per-node"}));
      }
    }
  }

  void read_variables() {
    const auto variable = [&](std::initializer_list<const char*> names) {
      for (const char* name : names) {
        const auto found = script_.variables.find(name);
        if (found == script_.variables.end() || !found->second.resolved) continue;
        if (const auto number = count_of(found->second.text)) return number;
      }
      return std::optional<std::int64_t>();
    };
    if (!world_.nodes) world_.nodes = variable({"NNODES", "NUM_NODES", "NODES", "SLURM_NNODES"});
    if (!world_.gpus_per_node) {
      world_.gpus_per_node =
          variable({"GPUS_PER_NODE", "NUM_GPUS", "NPROC_PER_NODE", "GPUS", "GPU_PER_NODE"});
    }
    if (!world_.nodes || !world_.gpus_per_node) world_.ranks = variable({"WORLD_SIZE"});
  }

  const ShellScript& script_;
  MegatronLaunch& launch_;
  WorldSize world_;
  LaunchSettings settings_;
  std::set<std::string> used_;
};

}  // namespace

std::optional<LaunchKind> recognise_launch(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has("\nmodules:") || text.starts_with("modules:")) {
    if (has("overrides:")) return LaunchKind::Primus;
  }
  if (has("tensor_model_parallel_size:")) return LaunchKind::Nemo;
  for (const std::string_view flag :
       {"--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--num-layers",
        "--micro-batch-size", "--model-parallel-size"}) {
    if (has(flag)) return LaunchKind::Megatron;
  }
  return std::nullopt;
}

model::Result<MegatronLaunch> read_megatron_launch(const std::string& file, std::string_view text,
                                                   LaunchKind kind) {
  MegatronLaunch launch;
  launch.kind = kind;
  LaunchSettings settings;
  if (kind == LaunchKind::Megatron) {
    MEGATWIN_TRY(const ShellScript script, parse_shell_script(file, text));
    auto read = ScriptLaunch(script, launch).run();
    if (!read) {
      return model::fail(
          model::Diagnostic{.file = file,
                            .message = "starts no training with Megatron-LM's arguments",
                            .allowed = "a script or a list of arguments with --num-layers, "
                                       "--tensor-model-parallel-size and others"});
    }
    settings = *std::move(read);
  } else {
    MEGATWIN_TRY(const Document document, parse_yaml(file, text));
    MEGATWIN_TRY(settings, read_launch_yaml(document, launch));
  }
  for (const std::string& name : launch.ignored) {
    const std::string near = bearing_flag_near(name);
    if (near.empty()) continue;
    launch.warnings.push_back(name + " is not known and not taken over; did you mean " + near +
                              "?");
  }
  model::Diagnostics faults = apply_settings(settings, launch);
  if (faults.empty()) return launch;
  for (model::Diagnostic& fault : faults) {
    fault.file = file;
    fault.line = setting_line(text, fault.key);
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return model::fail(std::move(faults));
}

}  // namespace megatwin::scenarios
