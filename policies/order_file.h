// Orders that a user wrote: reads the tokens and says what is wrong with them.
#ifndef MEGATWIN_POLICIES_ORDER_FILE_H_
#define MEGATWIN_POLICIES_ORDER_FILE_H_

#include <string>
#include <vector>

#include "model/program/program_spec.h"
#include "policies/schedule.h"

namespace megatwin::policies {

// Every reason why spec.orders is not a legal schedule: unknown tokens, tasks that are missing,
// repeated or out of range, a task before one that it needs, stages that wait for each other.
std::vector<std::string> order_file_problems(const model::ProgramSpec& spec);

// Requires: order_file_problems(spec) is empty.
std::vector<Order> order_file_orders(const model::ProgramSpec& spec);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_ORDER_FILE_H_
