// A training run from files to files: data, first weights or a checkpoint, the steps, held-out
// losses, checkpoints, and what came of it. Everything that a run needs is opened and checked
// before the first step; the host world does the steps.
#ifndef MEGATWIN_EXEC_TRAINING_H_
#define MEGATWIN_EXEC_TRAINING_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint.h"
#include "exec/host_job.h"
#include "exec/stored_model.h"
#include "model/result.h"
#include "model/training.h"

namespace megatwin::exec {

struct TrainingRequest {
  model::Transformer transformer;
  model::Plan plan;
  model::TrainingData data;
  model::TrainingSettings settings;

  model::DecidedSides decided;  // As in HostJob, and these:
  policies::PolicyFactory policy;
  policies::ExecutorOptions executor;
  bool log = false;
  int timeline_steps = 0;

  bool resume = false;       // From the newest checkpoint of the settings' folder.
  std::string weights_from;  // A folder as Hugging Face writes it; empty: random weights.
  ModelPlaces model_places;  // For messages about those two.

  HostHooks hooks;
  const std::atomic<bool>* stop = nullptr;  // Ends the run, with a checkpoint, after the step.

  // Those that train together, all given the same request: each has an equal share of the ranks,
  // and the first looks at held-out text and saves. Null for one process.
  model::Processes* processes = nullptr;
};

// What is known after a step, in the first process.
struct TrainingStep {
  int step = 0;  // From 1.
  double loss = 0;
  std::optional<double> held_out_loss;
  std::string checkpoint;  // The folder that was saved, or empty.
};

struct TrainingResult {
  HostResult host;
  int first_step = 0;  // Steps that were done before.
  std::vector<TrainingStep> steps;
  model::Seconds time;             // Of the steps, held-out losses and saves included.
  model::Seconds step_time_total;  // Without those.
  std::int64_t tokens_per_step = 0;
  std::int64_t parameters = 0;
  bool stopped = false;  // As `stop` asked for, before the last step.
  std::string last_checkpoint;
  // Nats per byte of the whole held-out part by counting; only for text.
  std::optional<double> trigram_loss;
  std::int64_t held_out_tokens = 0;  // That each held-out loss is the mean over.
};

// A run that can start. Not to be moved.
class Training {
 public:
  // Errors: what the data, the checkpoint or the weights lack. Whether the plan can run here is
  // answered by host_job_problems(job()).
  static model::Result<std::unique_ptr<Training>> prepare(const TrainingRequest& request);
  ~Training();

  const HostJob& job() const;
  int first_step() const;
  // What was passed over on the way, in words for the user.
  const std::vector<std::string>& warnings() const;

  // Called once. `on_step` runs on the thread of rank 0.
  TrainingResult run(const std::function<void(const TrainingStep&)>& on_step);

 private:
  struct Parts;
  explicit Training(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

ExpertSettings expert_settings(const model::TrainingSettings& settings);

// Linear rise to 1 over the warm-up, then half a cosine down to the final rate (Loshchilov and
// Hutter, arXiv:1608.03983, equation 5, without restarts). `step` counts from 0.
double learning_rate_factor(const model::TrainingSettings& settings, int step);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_TRAINING_H_
