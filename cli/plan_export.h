// A plan in the words of those who run it: a scenario file, the flags of Megatron-LM, a Slurm
// script. `megatwin import` reads the flags and the scripts back.
#ifndef MEGATWIN_CLI_PLAN_EXPORT_H_
#define MEGATWIN_CLI_PLAN_EXPORT_H_

#include <string>
#include <vector>

#include "model/job.h"
#include "model/result.h"

namespace megatwin::cli {

// Where the job came from.
struct ExportSource {
  std::string file;                   // The scenario,
  std::vector<std::string> settings;  // and what --set added to it.
  // As they were read from it, in its order.
  std::vector<model::Disturbance> disturbances = {};
};

// The source with `plan` in place of its own plan and without its search section. A table of tokens
// of another number of ranks than the plan's expert groups have becomes the factor that it comes
// to, which the search counted.
// Errors: the source cannot be read any more.
model::Result<std::string> scenario_text(const ExportSource& source, const model::Plan& plan);

// Arguments of pretrain_gpt.py for the model and the plan, each with its value.
std::vector<std::string> megatron_arguments(const model::Job& job, const model::Plan& plan);

// A bash script that runs them under torchrun, and the same as a Slurm job.
std::string megatron_script(const model::Job& job, const model::Plan& plan);
std::string slurm_script(const model::Job& job, const model::Plan& plan);

// A bash script that starts `megatwin train` on plan.yaml beside it under mpirun, one rank a GPU.
std::string train_script(const model::Job& job, const model::Plan& plan);

// Writes plan.yaml, megatron.sh, job.slurm and train.sh into a folder.
// Errors: throws IoError when a file cannot be read or written.
void export_plan(const ExportSource& source, const model::Job& job, const model::Plan& plan,
                 const std::string& folder);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_PLAN_EXPORT_H_
