// The adaptive policy against fixed orders on the same pipelines and conditions, in the simulator.
#ifndef MEGATWIN_TESTS_POLICIES_ORDER_RACE_H_
#define MEGATWIN_TESTS_POLICIES_ORDER_RACE_H_

#include <string>
#include <vector>

#include "model/program/program_spec.h"
#include "sim/link_disturbance.h"
#include "sim/pipeline_simulation.h"

namespace megatwin::tests {

struct RaceCase {
  model::ProgramSpec spec;  // Its schedule gives the shape.
  std::vector<sim::LinkDisturbance> links;
  model::Bytes limit;  // Of every rank.
  int receive_slots = 0;
};

struct Outcome {
  model::Instant adaptive;
  model::Instant best;  // Of the fixed orders that are legal and fit.
  std::string best_name;
  double over_best_percent = 0;
  bool is_behind() const { return over_best_percent > 1; }
};

Outcome race_one(const RaceCase& race);

// What the rank that holds most holds.
model::Bytes peak_of(const model::ProgramSpec& spec, const sim::PipelineResult& result);

// With so many digits; a sign of "+" writes it always.
std::string text(double value, int digits, const char* sign = "");

struct OrderRace {
  std::string markdown;  // A table of docs/dpp.md.
  int num_cases = 0;
  struct Miss {
    std::string where;
    double over_best_percent = 0;
  };
  std::vector<Miss> misses;  // More than 1 % behind the best fixed order.
};

OrderRace race_orders();
// The same cases with one, with two and with no limit of receive slots; the table has a line each.
OrderRace race_slots();

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_POLICIES_ORDER_RACE_H_
