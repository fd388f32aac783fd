// `megatwin collective KIND --cluster FILE`: one collective alone on the network of a scenario's
// cluster, with its time, bus bandwidth and busiest links.
#ifndef MEGATWIN_CLI_COLLECTIVE_H_
#define MEGATWIN_CLI_COLLECTIVE_H_

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/world.h"

namespace megatwin::cli {

struct CollectiveArguments {
  std::string kind;  // One of collective_kind_names().
  std::string file;  // A scenario.
  std::vector<std::string> settings;
  std::string size = "64 MB";
  std::string ranks;  // "64", or "0-7,16-23"; empty: all GPUs.
  std::string algorithm = "auto";
  std::string network = "maxmin";  // maxmin, simgrid or analytic.
  std::string tokens;              // A CSV file; empty: all pairs alike.
  bool json = false;
  bool json_diagnostics = false;
};

const std::vector<std::string>& collective_kind_names();

int collective_command(const CollectiveArguments& arguments, const World& world, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_COLLECTIVE_H_
