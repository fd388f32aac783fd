// Turns the description of a pipeline into the program of each stage: places the chunks, splits the
// backward where the schedule asks for it, gives each side of a decoupled pipeline its tasks, and
// derives who sends what to whom.
#ifndef MEGATWIN_MODEL_PROGRAM_PROGRAM_BUILDER_H_
#define MEGATWIN_MODEL_PROGRAM_PROGRAM_BUILDER_H_

#include <vector>

#include "model/program/program.h"
#include "model/program/program_spec.h"

namespace megatwin::model {

// The message that `task` of `stage` sends, or waits for; exists() is false when the neighbouring
// virtual stage is on the same rank or there is none.
Message sent_message(const PipelineShape& shape, StageId stage, const Task& task);
Message awaited_message(const PipelineShape& shape, StageId stage, const Task& task);

// The boundary that the message of `task` crosses: b joins stages b and b + 1, the last one the
// last stage and the first. Requires: sent_message() exists.
int crossed_boundary(const PipelineShape& shape, StageId stage, const Task& task);

// Requires: spec.stages has `pipeline` entries with `model_chunks` chunks each; one chunk on a side
// of a decoupled pipeline.
Program build_program(const ProgramSpec& spec, StageId stage);

// One program a stage.
std::vector<Program> build_programs(const ProgramSpec& spec);
// Those of several specs one behind the other, as of the two sides of a decoupled pipeline.
std::vector<Program> build_programs(const std::vector<ProgramSpec>& specs);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_PROGRAM_BUILDER_H_
