// SimGrid's platform XML: which clusters, hosts, links and routes it describes. A summary with
// every unit checked, for `megatwin import`; SimGrid itself is not needed.
#ifndef MEGATWIN_SCENARIOS_SIMGRID_PLATFORM_H_
#define MEGATWIN_SCENARIOS_SIMGRID_PLATFORM_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "model/units.h"

namespace megatwin::scenarios {

struct SimgridCluster {
  std::string id, topology, parameters, radical;  // topology: FLAT, FAT_TREE, DRAGONFLY, TORUS.
  int num_hosts = 0;
  model::BytesPerSecond bandwidth, limiter;
  model::Seconds latency;
};

struct SimgridPlatform {
  std::string version;
  std::vector<SimgridCluster> clusters;  // <cluster>
  std::vector<SimgridCluster> cabinets;  // <cabinet>
  int num_hosts = 0;                     // <host>
  int num_links = 0, num_routes = 0;     // <link>; <route> and <zoneRoute>.
  model::Diagnostics warnings;
  std::vector<std::string> radicals() const;

  int num_hosts_in_all() const;
};

// Errors: not XML, another root, a unit or a radical that SimGrid does not have, a cluster whose
// shape holds another number of hosts than its radical, a link without bandwidth, a route over a
// link that is not there. Hosts of a zone of single routes that none reaches are a warning.
model::Result<SimgridPlatform> parse_simgrid_platform(const std::string& file,
                                                      std::string_view text);

// "125MBps", "1Gbps" (bits), "2KiBps", a bare number in B/s.
model::Result<model::BytesPerSecond> simgrid_bandwidth(std::string_view text);
// "50us", "0.1ms", a bare number in s.
model::Result<model::Seconds> simgrid_latency(std::string_view text);
// Hosts of "0-15,20".
model::Result<int> simgrid_radical(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SIMGRID_PLATFORM_H_
