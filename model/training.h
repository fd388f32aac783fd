// What a real training run is told besides model and plan: its data, the optimizer, and when to
// look and to save. Plain data, from the sections `data:` and `training:` of a scenario.
#ifndef MEGATWIN_MODEL_TRAINING_H_
#define MEGATWIN_MODEL_TRAINING_H_

#include <cstdint>
#include <string>

#include "model/units.h"

namespace megatwin::model {

enum class TrainingDataKind {
  None,    // The scenario names no data.
  Text,    // A UTF-8 file; every byte is a token.
  Tokens,  // A file of tokens, see exec/token_file.h.
};

struct TrainingData {
  TrainingDataKind kind = TrainingDataKind::None;
  std::string path;
  double held_out = 0.1;  // Share of the tokens, from the end, that is never trained on.
};

struct TrainingSettings {
  int steps = 100;         // Optimizer steps of the whole run, resumed ones included.
  std::uint64_t seed = 1;  // Of the first weights and of the order of the data.

  double learning_rate = 1e-3;        // The highest.
  double learning_rate_final = 1e-4;  // At the last step, along a cosine.
  int warmup_steps = 0;               // Of linear rise to the highest.
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double gradient_norm_max = 1;  // Clips the global norm; 0 for never.

  // Of a model with experts. Each takes at most so many times its even share of a micro-batch's
  // assignments, the others are dropped; 0 drops none (dropless).
  double expert_capacity_factor = 0;
  double expert_balance_loss = 0;  // Factor of the loss that balances them.

  int evaluate_every = 0;       // Steps between held-out losses; 0: only at the end.
  int evaluate_sequences = 64;  // Of the held-out part, evenly spread; fewer when it is short.

  std::string checkpoint_folder;  // Empty: nothing is saved.
  int checkpoint_every = 0;       // Steps; 0: only at the end.
  int checkpoints_kept = 2;       // The newest.

  Seconds watchdog{8};  // Nothing done by any rank for so long ends the run.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_TRAINING_H_
