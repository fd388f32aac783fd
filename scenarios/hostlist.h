// Slurm's way to write many names in a word: a[1-3,7]b[01-02],c.
#ifndef MEGATWIN_SCENARIOS_HOSTLIST_H_
#define MEGATWIN_SCENARIOS_HOSTLIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

constexpr std::size_t kHostsMax = 1'000'000;

// All names in order; leading zeros keep their width. Errors: a bracket that is not closed, a range
// that is none or runs backwards, more than kHostsMax names.
model::Result<std::vector<std::string>> expand_hostlist(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_HOSTLIST_H_
