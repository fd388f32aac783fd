#include "exec/training.h"

#include <chrono>
#include <cmath>
#include <numbers>
#include <thread>

#include "exec/durable_file.h"
#include "exec/file_problem.h"
#include "exec/held_out.h"
#include "exec/token_file.h"
#include "exec/window_source.h"
#include "model/processes.h"

namespace megatwin::exec {
namespace {

using Clock = std::chrono::steady_clock;

model::Seconds since(Clock::time_point start) {
  const std::chrono::duration<double> spent = Clock::now() - start;
  return {spent.count()};
}

// The whole model's table, for checking what was read.
ParameterTable whole_table(const model::Transformer& transformer) {
  model::Plan plan;
  plan.micro_batch = plan.global_batch = 1;
  return parameter_table({.shape = model_shape(transformer, plan),
                          .part = {.first_layer = 0,
                                   .num_layers = static_cast<int>(transformer.num_layers),
                                   .has_embedding = true,
                                   .has_head = true},
                          .member = {}});
}

bool is_due(int every, int step) { return every > 0 && step % every == 0; }

}  // namespace

double learning_rate_factor(const model::TrainingSettings& settings, int step) {
  if (step < settings.warmup_steps) {
    return (step + 1.0) / settings.warmup_steps;
  }
  const double final_factor =
      settings.learning_rate > 0 ? settings.learning_rate_final / settings.learning_rate : 0;
  const int last = settings.steps - 1;
  const double share =
      last > settings.warmup_steps
          ? static_cast<double>(step - settings.warmup_steps) / (last - settings.warmup_steps)
          : 1;
  return final_factor +
         (1 - final_factor) * (1 + std::cos(std::numbers::pi * std::min(share, 1.0))) / 2;
}

ExpertSettings expert_settings(const model::TrainingSettings& settings) {
  return {.capacity_factor = settings.expert_capacity_factor,
          .balance_loss = settings.expert_balance_loss};
}

struct Training::Parts {
  TrainingRequest request;
  Tokens tokens;
  std::unique_ptr<WindowSource> source;
  std::unique_ptr<HeldOutLoss> held_out;
  HostJob job;
  std::optional<ModelState> start;
  std::vector<std::string> warnings;
  ParameterTable table;

  CheckpointPoint point(int step) const {
    return {.step = step,
            .seed = request.settings.seed,
            .global_batch = request.plan.global_batch,
            .sequence_length = request.transformer.sequence_length};
  }

  model::Diagnostics open_data();
  model::Diagnostics try_outputs() const;
  model::Diagnostics open_start();
  model::Diagnostics check_model(const std::string& file, const std::string& config);
  model::Diagnostics check_start(const std::string& path) const;
  void fill_job();
};

model::Diagnostics Training::Parts::open_data() {
  if (request.data.kind == model::TrainingDataKind::None) {
    return {file_problem("data", "there is nothing to train on",
                         "data: {text: FILE} or {tokens: FILE}")};
  }
  auto read = read_tokens(request.data, request.transformer.vocab_size);
  if (!read) {
    return read.error();
  }
  tokens = *std::move(read);
  const WindowSetup windows{.tokens = tokens,
                            .held_out = request.data.held_out,
                            .sequence_length = request.transformer.sequence_length,
                            .micro_batch = request.plan.micro_batch,
                            .global_batch = request.plan.global_batch,
                            .seed = request.settings.seed};
  model::Diagnostics faults;
  for (const std::string& problem : window_problems(windows)) {
    faults.push_back(
        file_problem(request.data.path, problem, "a longer text, or a shorter sequence"));
  }
  if (faults.empty()) {
    source = std::make_unique<WindowSource>(windows);
  }
  return faults;
}

// Shapes alone do not tell: two of four layers, or other heads of the same width, would fit.
model::Diagnostics Training::Parts::check_model(const std::string& file,
                                                const std::string& config) {
  const auto stored = stored_facts(file, config);
  if (stored) {
    return other_model_faults(file, *stored, request.transformer, request.model_places);
  }
  warnings.push_back(file + " is not understood (" + stored.error().front().message +
                     "): whether it is the scenario's model is known by the weights' names and "
                     "shapes only");
  return {};
}

// One message, however many weights differ.
model::Diagnostics Training::Parts::check_start(const std::string& path) const {
  std::vector<std::string> problems = state_problems(*start, table);
  for (const std::string& name : weights_without_place(*start, table)) {
    problems.push_back("the model has no place for " + name);
  }
  if (problems.empty()) return {};
  std::string message = problems.front();
  if (problems.size() > 1) {
    message += ", and " + std::to_string(problems.size() - 1) + " more of its weights do not fit";
  }
  return {file_problem(path, message, "weights of the scenario's model")};
}

// Only the first process saves.
model::Diagnostics Training::Parts::try_outputs() const {
  const std::string& folder = request.settings.checkpoint_folder;
  const bool saves = request.processes == nullptr || request.processes->rank() == 0;
  if (!saves || folder.empty()) return {};
  const auto problem = folder_problem(folder);
  if (!problem) return {};
  return {file_problem(folder, "training.checkpoint.folder cannot take checkpoints: " + *problem,
                       "a folder that can be written, or made")};
}

model::Diagnostics Training::Parts::open_start() {
  const std::string& folder = request.settings.checkpoint_folder;
  if (request.resume) {
    if (folder.empty()) {
      return {
          file_problem("--resume", "there is no checkpoint folder", "training.checkpoint.folder")};
    }
    auto checkpoint = load_newest_checkpoint(folder, request.transformer);
    if (!checkpoint) {
      return checkpoint.error();
    }
    for (const std::string& reason : checkpoint->damaged) {
      warnings.push_back(reason + "; an older checkpoint is taken");
    }
    model::Diagnostics others = check_model(config_path(checkpoint->path), checkpoint->config);
    if (!others.empty()) return others;
    if (checkpoint->point != point(checkpoint->point.step)) {
      return {
          file_problem(checkpoint->path,
                       "is of another run: seed " + std::to_string(checkpoint->point.seed) +
                           ", global batch " + std::to_string(checkpoint->point.global_batch) +
                           ", sequences of " + std::to_string(checkpoint->point.sequence_length),
                       "the same seed, global batch and sequence length; the rest of the plan is "
                       "free")};
    }
    start = std::move(checkpoint->state);
    job.first_step = checkpoint->point.step;
    return check_start(checkpoint->path);
  }
  if (!folder.empty() && has_checkpoints(folder)) {
    return {file_problem(folder, "holds checkpoints of an earlier run",
                         "--resume to go on from them, or another folder")};
  }
  if (request.weights_from.empty()) {
    return {};
  }
  if (const auto config = config_text(request.weights_from)) {
    model::Diagnostics others = check_model(config_path(request.weights_from), *config);
    if (!others.empty()) return others;
  }
  auto weights = load_huggingface_weights(request.weights_from, request.transformer);
  if (!weights) {
    return weights.error();
  }
  start = *std::move(weights);
  return check_start(request.weights_from);
}

void Training::Parts::fill_job() {
  const model::TrainingSettings& settings = request.settings;
  job.transformer = request.transformer;
  job.plan = request.plan;
  job.tokens = source.get();
  job.steps = settings.steps;
  job.seed = settings.seed;
  job.experts = expert_settings(settings);
  job.optimizer = {.learning_rate = settings.learning_rate,
                   .beta1 = settings.beta1,
                   .beta2 = settings.beta2,
                   .epsilon = settings.epsilon,
                   .weight_decay = settings.weight_decay};
  job.learning_rate_factor = [settings](int step) { return learning_rate_factor(settings, step); };
  job.gradient_norm_max = settings.gradient_norm_max;
  job.orders = request.plan.orders;
  job.decided = request.decided;
  job.policy = request.policy;
  job.executor = request.executor;
  job.log = request.log;
  job.timeline_steps = request.timeline_steps;
  job.hooks = request.hooks;
  job.watchdog = std::chrono::milliseconds(std::llround(settings.watchdog.value * 1000));
}

model::Result<std::unique_ptr<Training>> Training::prepare(const TrainingRequest& request) {
  auto parts = std::make_unique<Parts>();
  parts->request = request;
  const auto unsupported = host_problems(request.transformer, request.plan);
  model::Diagnostics faults = parts->open_data();
  parts->fill_job();
  const model::TrainingSettings& settings = request.settings;
  if (!request.transformer.experts &&
      (settings.expert_capacity_factor > 0 || settings.expert_balance_loss > 0)) {
    faults.push_back(file_problem("training.experts", "the model has no experts", "model.experts"));
  }
  // A model that the host does not know has no table; its problems are told by host_job_problems().
  if (unsupported.empty()) {
    parts->table = whole_table(request.transformer);
    const model::Diagnostics more = parts->open_start();
    faults.insert(faults.end(), more.begin(), more.end());
  }
  const model::Diagnostics outputs = parts->try_outputs();
  faults.insert(faults.end(), outputs.begin(), outputs.end());
  if (!faults.empty()) {
    return model::fail(std::move(faults));
  }
  if (settings.warmup_steps > settings.steps) {
    parts->warnings.push_back("training.warmup_steps is " + std::to_string(settings.warmup_steps) +
                              ", of " + std::to_string(settings.steps) +
                              " steps: the learning rate rises to the last one and never reaches "
                              "its highest");
  }
  return std::unique_ptr<Training>(new Training(std::move(parts)));
}

Training::Training(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Training::~Training() = default;

const HostJob& Training::job() const { return parts_->job; }
int Training::first_step() const { return parts_->job.first_step; }
const std::vector<std::string>& Training::warnings() const { return parts_->warnings; }

TrainingResult Training::run(const std::function<void(const TrainingStep&)>& on_step) {
  Parts& parts = *parts_;
  const model::TrainingSettings& settings = parts.request.settings;
  const std::atomic<bool>* stop = parts.request.stop;
  TrainingResult result{.first_step = parts.job.first_step,
                        .tokens_per_step = parts.request.plan.global_batch *
                                           parts.request.transformer.sequence_length,
                        .parameters = parts.table.size};
  model::Processes* processes = parts.request.processes;
  const bool looks = processes == nullptr || processes->rank() == 0;
  if (looks && parts.source->num_held_out() > 0) {
    parts.held_out = std::make_unique<HeldOutLoss>(
        HeldOutLoss::Setup{.transformer = parts.request.transformer,
                           .source = *parts.source,
                           .sequences = settings.evaluate_sequences,
                           .threads = static_cast<int>(std::thread::hardware_concurrency())});
    result.held_out_tokens = parts.held_out->num_tokens();
    if (parts.request.data.kind == model::TrainingDataKind::Text) {
      result.trigram_loss = byte_trigram_loss(parts.tokens, parts.source->held_out_from());
    }
  }
  parts.job.on_start = [&](std::span<const ChunkState> state) {
    if (parts.start) scatter_state(*parts.start, state);
  };
  const Clock::time_point start = Clock::now();
  Clock::time_point step_start = start;
  parts.job.on_step = [&](const StepEnd& end) {
    result.step_time_total = result.step_time_total + since(step_start);
    TrainingStep step{.step = end.step + 1, .loss = end.loss};
    const bool last = step.step == settings.steps;
    const bool stops = stop != nullptr && stop->load();
    if (parts.held_out && (last || stops || is_due(settings.evaluate_every, step.step))) {
      step.held_out_loss = parts.held_out->of(gather_state(end.state(), StatePart::Weights));
    }
    if (!settings.checkpoint_folder.empty() &&
        (last || stops || is_due(settings.checkpoint_every, step.step))) {
      const ModelState state = gather_state(end.state(), StatePart::WeightsAndMoments);
      step.checkpoint = save_checkpoint({.folder = settings.checkpoint_folder,
                                         .point = parts.point(step.step),
                                         .transformer = parts.request.transformer,
                                         .state = state,
                                         .keep = settings.checkpoints_kept});
      result.last_checkpoint = step.checkpoint;
    }
    result.steps.push_back(step);
    if (on_step) on_step(step);
    result.stopped = stops && !last;
    step_start = Clock::now();
    return !stops;
  };
  result.host = processes == nullptr ? run_host(parts.job) : run_host(parts.job, *processes);
  result.time = since(start);
  return result;
}

}  // namespace megatwin::exec
