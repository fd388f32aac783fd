// A topology for eyes: as text, with how many of what, the cables by rate and a few ways; and as an
// SVG with a row a level and a line a cable. Large clusters show the first of each row and say how
// many more there are.
#ifndef MEGATWIN_CLI_REPORT_TOPOLOGY_PICTURE_H_
#define MEGATWIN_CLI_REPORT_TOPOLOGY_PICTURE_H_

#include <string>

#include "model/topology/topology.h"

namespace megatwin::cli {

std::string topology_text(const model::Topology& topology);
std::string topology_svg(const model::Topology& topology);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_TOPOLOGY_PICTURE_H_
