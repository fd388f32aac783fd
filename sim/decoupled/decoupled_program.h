// A decoupled pipeline as the programs of the instances of its two sides, run by the Executor and
// the event engine.
#ifndef MEGATWIN_SIM_DECOUPLED_DECOUPLED_PROGRAM_H_
#define MEGATWIN_SIM_DECOUPLED_DECOUPLED_PROGRAM_H_

#include <vector>

#include "model/program/program_spec.h"
#include "sim/decoupled/decoupled_pipeline.h"

namespace megatwin::sim {

// Whether programs say all of it: every weight gradient on the backward side.
bool is_program(const DecoupledSpec& spec);

// As decoupled_sides(), without bytes. Requires: is_program(spec).
std::vector<model::ProgramSpec> sides_of(const DecoupledSpec& spec);

// Requires: is_program(spec), and as simulate_decoupled().
DecoupledResult simulate_as_program(const DecoupledSpec& spec);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DECOUPLED_DECOUPLED_PROGRAM_H_
