// The named parts of a step in the order in which every writer shows them. Parts without time are
// left out, so that a dense model's report does not list expert traffic.
#ifndef MEGATWIN_CLI_REPORT_BREAKDOWN_H_
#define MEGATWIN_CLI_REPORT_BREAKDOWN_H_

#include <string>
#include <vector>

#include "sim/simulation_report.h"

namespace megatwin::cli {

struct BreakdownPart {
  std::string key;   // As in the JSON contract: "exposed_tp".
  std::string name;  // For people: "tensor-parallel traffic".
  model::Seconds time;
};

// All nine parts, in the order of the contract.
std::vector<BreakdownPart> all_parts(const sim::StepBreakdown& breakdown);

// Those with time.
std::vector<BreakdownPart> nonzero_parts(const sim::StepBreakdown& breakdown);

// Kinds of kernels with time.
std::vector<sim::ComputeShare> nonzero_shares(const sim::SimulationReport& report);

// What a stage holds, largest block first in time of allocation: parameters … overhead.
struct MemoryPart {
  std::string key;
  std::string name;
  model::Bytes amount;
};
std::vector<MemoryPart> memory_parts(const sim::StageMemory& stage);

// "of 31.7 GiB", and on which stage where their limits differ: the one nearest its own.
std::string memory_limit_text(const sim::SimulationReport& report);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_BREAKDOWN_H_
