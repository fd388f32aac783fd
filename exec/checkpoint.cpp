#include "exec/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "exec/durable_file.h"
#include "exec/file_problem.h"
#include "exec/huggingface_state.h"
#include "exec/safetensors.h"
#include "scenarios/json_reader.h"

namespace megatwin::exec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kConfig = "config.json";
constexpr const char* kManifest = "manifest.txt";
constexpr const char* kFirstMoment = "exp_avg.";
constexpr const char* kSecondMoment = "exp_avg_sq.";
constexpr const char* kStepPrefix = "step-";

// Fowler-Noll-Vo 1a, 64 bits.
std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return hash;
}

std::string folder_name(int step) {
  std::string digits = std::to_string(step);
  return kStepPrefix + std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

// Checkpoints by name, the newest first: names are as long, so letters decide.
std::vector<std::string> checkpoint_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kStepPrefix)) names.push_back(name);
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

struct FileText {
  std::string name, bytes;
};

std::string manifest_text(const CheckpointPoint& point, const std::vector<FileText>& files) {
  std::ostringstream text;
  text << "megatwin checkpoint 1\nstep " << point.step << "\nseed " << point.seed
       << "\nglobal_batch " << point.global_batch << "\nsequence_length " << point.sequence_length
       << "\n";
  for (const FileText& file : files) {
    text << "file " << file.name << " " << file.bytes.size() << " " << checksum(file.bytes) << "\n";
  }
  const std::uint64_t sum = checksum(text.str());
  text << "end " << sum << "\n";
  return text.str();
}

std::vector<Tensor> moment_tensors(const ModelState& state) {
  std::vector<Tensor> tensors;
  for (const auto& [name, whole] : state) {
    tensors.push_back({.name = kFirstMoment + name,
                       .shape = {whole.rows, whole.columns},
                       .values = whole.first_moment});
    tensors.push_back({.name = kSecondMoment + name,
                       .shape = {whole.rows, whole.columns},
                       .values = whole.second_moment});
  }
  return tensors;
}

// Without an exception: nothing is lost when something old stays.
void remove_quietly(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
}

void remove_old(const std::string& folder, int keep) {
  const std::vector<std::string> names = checkpoint_names(folder);
  for (std::size_t i = static_cast<std::size_t>(keep); i < names.size(); ++i) {
    remove_quietly(fs::path(folder) / names[i]);
  }
}

std::optional<std::string> bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || file.bad()) return std::nullopt;
  return std::move(bytes).str();
}

struct Manifest {
  CheckpointPoint point;
  struct Entry {
    std::string name;
    std::size_t size = 0;
    std::uint64_t sum = 0;
  };
  std::vector<Entry> files;
};

std::optional<Manifest> parse_manifest(const std::string& text) {
  Manifest manifest;
  const std::size_t end = text.rfind("end ");
  std::uint64_t sum = 0;
  if (end == std::string::npos || !(std::istringstream(text.substr(end + 4)) >> sum) ||
      sum != checksum(text.substr(0, end)) || !text.starts_with("megatwin checkpoint 1\n")) {
    return std::nullopt;
  }
  std::istringstream lines(text.substr(0, end));
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "step") words >> manifest.point.step;
    if (key == "seed") words >> manifest.point.seed;
    if (key == "global_batch") words >> manifest.point.global_batch;
    if (key == "sequence_length") words >> manifest.point.sequence_length;
    if (key == "file") {
      Manifest::Entry& entry = manifest.files.emplace_back();
      words >> entry.name >> entry.size >> entry.sum;
    }
    if (!words) return std::nullopt;
  }
  return manifest;
}

// The bytes of every file that the manifest lists, in its order.
model::Result<std::vector<std::string>> checked_files(const fs::path& path,
                                                      const Manifest& manifest) {
  std::vector<std::string> all;
  for (const Manifest::Entry& entry : manifest.files) {
    auto bytes = bytes_of(path / entry.name);
    if (!bytes || bytes->size() != entry.size || checksum(*bytes) != entry.sum) {
      return model::fail(file_problem((path / entry.name).string(), "is not what was saved"));
    }
    all.push_back(std::move(*bytes));
  }
  return all;
}

void add_moments(std::vector<Tensor> tensors, ModelState& state) {
  for (Tensor& tensor : tensors) {
    const bool second = tensor.name.starts_with(kSecondMoment);
    const std::string name =
        tensor.name.substr(std::string_view(second ? kSecondMoment : kFirstMoment).size());
    const auto found = state.find(name);
    if (found == state.end() || found->second.weights.size() != tensor.values.size()) continue;
    (second ? found->second.second_moment : found->second.first_moment) = std::move(tensor.values);
  }
}

model::Result<Checkpoint> load_one(const fs::path& path, const model::Transformer& transformer) {
  const auto text = bytes_of(path / kManifest);
  const auto manifest = text ? parse_manifest(*text) : std::nullopt;
  if (!manifest || manifest->files.size() != 3 || manifest->files[2].name != kConfig) {
    return model::fail(file_problem(path.string(), "has no sound manifest"));
  }
  MEGATWIN_TRY(const std::vector<std::string> files, checked_files(path, *manifest));
  MEGATWIN_TRY(std::vector<Tensor> weights, parse_safetensors((path / kModel).string(), files[0]));
  MEGATWIN_TRY(std::vector<Tensor> moments,
               parse_safetensors((path / kOptimizer).string(), files[1]));
  Checkpoint checkpoint{.path = path.string(),
                        .config = files[2],
                        .point = manifest->point,
                        .state = state_of_huggingface(transformer, std::move(weights))};
  add_moments(std::move(moments), checkpoint.state);
  return checkpoint;
}

// A value of config.json that the host computes with another one.
void check_value(const scenarios::TreeNode& config, const char* key, double expected,
                 const std::string& file, model::Diagnostics& faults) {
  const scenarios::TreeNode* node = config.find(key);
  if (node == nullptr) {
    if (const auto* nested = config.find("rope_parameters")) node = nested->find(key);
  }
  if (node == nullptr || node->kind != scenarios::TreeKind::Scalar) return;
  const double value = std::strtod(node->text.c_str(), nullptr);
  if (std::abs(value - expected) <= 1e-9 * expected) return;
  std::ostringstream allowed;
  allowed << expected << ", which is what the host computes with";
  faults.push_back(file_problem(file, std::string(key) + " is " + node->text, allowed.str()));
}

model::Diagnostics config_faults(const fs::path& path) {
  const auto text = bytes_of(path);
  if (!text) return {};
  const auto config = scenarios::parse_json(path.string(), *text);
  if (!config) return config.error();
  model::Diagnostics faults;
  check_value(config->root, "rms_norm_eps", 1e-5, path.string(), faults);
  check_value(config->root, "layer_norm_epsilon", 1e-5, path.string(), faults);
  check_value(config->root, "rope_theta", 10000, path.string(), faults);
  return faults;
}

// The names of the files that hold the weights.
model::Result<std::set<std::string>> weight_files(const fs::path& folder) {
  if (fs::exists(folder / kModel)) return std::set<std::string>{kModel};
  const fs::path index = folder / "model.safetensors.index.json";
  const auto text = bytes_of(index);
  if (!text) {
    return model::fail(file_problem(folder.string(), "holds no weights",
                                    "a folder with model.safetensors, or with an index of many"));
  }
  MEGATWIN_TRY(const scenarios::Document document, scenarios::parse_json(index.string(), *text));
  std::set<std::string> names;
  if (const auto* map = document.root.find("weight_map")) {
    for (const auto& entry : map->entries) names.insert(entry.value.text);
  }
  return names;
}

}  // namespace

std::string save_checkpoint(const CheckpointSave& save) {
  const std::string name = folder_name(save.point.step);
  const fs::path building = fs::path(save.folder) / ("." + name + ".part");
  const fs::path done = fs::path(save.folder) / name;
  std::vector<FileText> files;
  files.push_back({kModel, safetensors_bytes(huggingface_tensors(save.transformer, save.state))});
  files.push_back({kOptimizer, safetensors_bytes(moment_tensors(save.state))});
  files.push_back({kConfig, huggingface_config_text(save.transformer)});
  files.push_back({kManifest, manifest_text(save.point, files)});
  std::size_t written = 0;
  const WritePace pace = [&](std::size_t wanted) {
    const std::size_t piece = save.pace ? save.pace(written, wanted) : wanted;
    written += piece;
    return piece;
  };
  try {
    make_folder(save.folder);
    remove_quietly(building);
    make_folder(building.string());
    for (const FileText& file : files) {
      write_durably((building / file.name).string(), file.bytes, pace);
    }
    sync_folder(building.string());
    // One of the same step is there only when it was damaged and passed over.
    remove_quietly(done);
    rename_durably(building.string(), done.string());
  } catch (const std::system_error& error) {
    remove_quietly(building);
    throw CheckpointError(error.what());
  }
  remove_old(save.folder, save.keep);
  return done.string();
}

model::Result<Checkpoint> load_newest_checkpoint(const std::string& folder,
                                                 const model::Transformer& transformer) {
  std::vector<std::string> damaged;
  for (const std::string& name : checkpoint_names(folder)) {
    auto checkpoint = load_one(fs::path(folder) / name, transformer);
    if (checkpoint) {
      checkpoint->damaged = std::move(damaged);
      return checkpoint;
    }
    const model::Diagnostic& reason = checkpoint.error().front();
    damaged.push_back(reason.file + " " + reason.message);
  }
  model::Diagnostics faults;
  for (const std::string& reason : damaged) faults.push_back(file_problem(folder, reason));
  faults.push_back(file_problem(folder, "holds no checkpoint to go on from",
                                "a folder with step-… from an earlier run"));
  return model::fail(std::move(faults));
}

bool has_checkpoints(const std::string& folder) { return !checkpoint_names(folder).empty(); }

std::string config_path(const std::string& folder) { return (fs::path(folder) / kConfig).string(); }

std::optional<std::string> config_text(const std::string& folder) {
  return bytes_of(config_path(folder));
}

model::Result<ModelState> load_huggingface_weights(const std::string& folder,
                                                   const model::Transformer& transformer) {
  model::Diagnostics faults = config_faults(fs::path(folder) / kConfig);
  if (!faults.empty()) return model::fail(std::move(faults));
  MEGATWIN_TRY(const std::set<std::string> names, weight_files(folder));
  std::vector<Tensor> all;
  for (const std::string& name : names) {
    const fs::path path = fs::path(folder) / name;
    const auto bytes = bytes_of(path);
    if (!bytes) return model::fail(file_problem(path.string(), "cannot be read"));
    MEGATWIN_TRY(std::vector<Tensor> tensors, parse_safetensors(path.string(), *bytes));
    std::move(tensors.begin(), tensors.end(), std::back_inserter(all));
  }
  return state_of_huggingface(transformer, std::move(all));
}

}  // namespace megatwin::exec
