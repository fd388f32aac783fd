// A plan in words: one line for a report's head, and the YAML names of its choices.
#ifndef MEGATWIN_CLI_REPORT_PLAN_TEXT_H_
#define MEGATWIN_CLI_REPORT_PLAN_TEXT_H_

#include <string>
#include <string_view>

#include "model/plan.h"

namespace megatwin::cli {

// As a scenario file writes them.
std::string_view yaml_name(model::ScheduleKind schedule);

// "tensor 4 · pipeline 4 × 5 chunks · data 32 · micro-batch 1 · global batch 512 · bf16 · …"; sizes
// of one are left out.
std::string describe(const model::Plan& plan);

// "t4 p4 v5 d32": for a column head.
std::string describe_short(const model::Plan& plan);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_PLAN_TEXT_H_
