// The adaptive policy against fixed orders on the same pipelines and conditions, in the simulator.
#ifndef MEGATWIN_TESTS_POLICIES_ORDER_RACE_H_
#define MEGATWIN_TESTS_POLICIES_ORDER_RACE_H_

#include <string>
#include <vector>

namespace megatwin::tests {

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
