// What ibnetdiscover prints of an InfiniBand fabric: switches, adapters, cables. As a graph it has
// every switch and every adapter; machines are told apart by the name in front of the adapter's.
#ifndef MEGATWIN_SCENARIOS_IBNETDISCOVER_H_
#define MEGATWIN_SCENARIOS_IBNETDISCOVER_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "model/topology/topology.h"

namespace megatwin::scenarios {

struct IbFabric {
  struct Device {
    int ports = 0;
    std::string guid, name;  // "S-…" or "H-…"; what stands in the comment.
    bool is_switch = false;
    bool is_aggregation = false;  // An adapter that is a part of a switch (SHARP).
  };
  std::vector<Device> devices;
  int num_switches = 0, num_adapters = 0;
  int num_port_lines = 0, num_to_switch = 0, num_to_adapter = 0;  // Each cable has two.
  std::map<std::string, int> rates;                               // "4xNDR" and how many ports.
  int num_hosts = 0;  // Machines with an adapter, without aggregation nodes.
  // Leaves are the switches with a host, spines those next to a leaf, cores the rest. No GPUs.
  model::Topology topology;
  model::Diagnostics warnings;
};

// Errors: not ibnetdiscover's; no switch in it (and what it holds); a port line that cannot be
// read.
model::Result<IbFabric> parse_ibnetdiscover(const std::string& file, std::string_view text);

// Of "4xNDR", one way. Nothing when the word is unknown.
model::BytesPerSecond infiniband_rate(std::string_view width_and_speed);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_IBNETDISCOVER_H_
