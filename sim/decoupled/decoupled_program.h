// A decoupled pipeline as the programs of the instances of its two sides, run by the Executor and
// the event engine.
#ifndef MEGATWIN_SIM_DECOUPLED_DECOUPLED_PROGRAM_H_
#define MEGATWIN_SIM_DECOUPLED_DECOUPLED_PROGRAM_H_

#include <string>
#include <vector>

#include "model/program/program_spec.h"
#include "sim/decoupled/decoupled_pipeline.h"

namespace megatwin::sim {

// Whether its orders follow from the schedule alone: every weight gradient on the backward side.
bool is_program(const DecoupledSpec& spec);

// As decoupled_sides(), without bytes. Forward ranks to which weight gradients are left run what
// simulate_instances() decides.
std::vector<model::ProgramSpec> sides_of(const DecoupledSpec& spec);

// The order of every forward rank, as DecoupledSides::forward_orders. Empty if is_program(spec).
std::vector<std::vector<std::string>> forward_orders(const DecoupledSpec& spec);

// What inputs of weight gradients left to the forward side hold is not counted.
// Requires: as simulate_decoupled().
DecoupledResult simulate_as_program(const DecoupledSpec& spec);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DECOUPLED_DECOUPLED_PROGRAM_H_
