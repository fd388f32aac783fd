// The answer of a training run as text and as JSON. Pure: the caller prints.
#ifndef MEGATWIN_CLI_REPORT_TRAINING_REPORT_H_
#define MEGATWIN_CLI_REPORT_TRAINING_REPORT_H_

#include <string>
#include <vector>

#include "exec/training.h"

namespace megatwin::cli {

struct TrainingSummary {
  std::string name;
  const exec::HostJob& job;
  const exec::TrainingResult& result;
  bool is_text = false;  // A token is a byte.
  std::vector<std::string> warnings;
};

// Above the first step: the model, the plan, how many ranks.
std::string terminal_training_head(const std::string& name, const exec::HostJob& job,
                                   const std::vector<std::string>& warnings);
// The titles of the lines below, and one line.
std::string terminal_training_titles();
std::string terminal_training_step(const exec::TrainingStep& step, double tokens_per_second);
std::string terminal_training_summary(const TrainingSummary& summary);

std::string json_training(const TrainingSummary& summary);
// A plan that cannot run here: {"error": …}, as simulate has it.
std::string json_training_refusal(const std::vector<std::string>& reasons);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_TRAINING_REPORT_H_
