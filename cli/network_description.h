// Descriptions of machines and fabrics by other tools, read into one form for `import` and
// `topology show`: what kind it is, its facts, and the graph where there is one.
#ifndef MEGATWIN_CLI_NETWORK_DESCRIPTION_H_
#define MEGATWIN_CLI_NETWORK_DESCRIPTION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/result.h"
#include "model/topology/topology.h"

namespace megatwin::cli {

struct NetworkDescription {
  std::string kind;  // One of network_kinds().
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::string> lines;  // What no table of facts holds, such as NCCL's channels.
  std::optional<model::Topology> topology;
  std::vector<std::string> warnings;
};

const std::vector<std::string>& network_kinds();

// By content; nothing when it is none of them.
std::optional<std::string> recognise_network_kind(const std::string& text);

// Errors: as the reader of that kind has them. Requires: kind is one of network_kinds().
model::Result<NetworkDescription> read_network_description(const std::string& kind,
                                                           const std::string& file,
                                                           const std::string& text);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_NETWORK_DESCRIPTION_H_
