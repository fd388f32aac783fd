// What the command line of `megatwin train` asks for, read in full.
#ifndef MEGATWIN_CLI_TRAIN_INPUT_H_
#define MEGATWIN_CLI_TRAIN_INPUT_H_

#include <optional>
#include <string>

#include "cli/train.h"
#include "exec/training.h"
#include "model/result.h"
#include "traces/executor_log.h"

namespace megatwin::cli {

struct TrainInput {
  exec::TrainingRequest request;
  std::string name;
  std::string policy_name;  // As logs have it: "list" for a static order.
  std::optional<traces::RunLog> replay;
};

// Errors: every fault of the files and the options.
model::Result<TrainInput> read_train_input(const TrainArguments& arguments);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_TRAIN_INPUT_H_
