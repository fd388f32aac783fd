// `megatwin topology show FILE`: the graph of a cluster, as text and as a picture. FILE is a
// scenario, or a description by somebody else, which is recognised by what stands in it.
#ifndef MEGATWIN_CLI_TOPOLOGY_H_
#define MEGATWIN_CLI_TOPOLOGY_H_

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/world.h"

namespace megatwin::cli {

struct TopologyArguments {
  std::string file;
  std::vector<std::string> settings;  // Of a scenario, as --set.
  std::string svg;                    // Where the picture goes; empty: no picture.
  bool json = false;
  bool json_diagnostics = false;
};

int topology_command(const TopologyArguments& arguments, const World& world, Console& console);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_TOPOLOGY_H_
