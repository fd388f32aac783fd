// When the flows of a set end. Three answers behind one interface:
//   analytic: every flow is alone on its links. Right on an idle network, a lower bound on any.
//   maxmin:   flows share links fairly, by our own solver. Any scale.
//   simgrid:  the same by SimGrid 3.32, in a process of its own. Where its library is installed.
// A lone flow takes exactly latency + size / bandwidth in all three.
#ifndef MEGATWIN_SIM_FLOW_FLOW_NET_H_
#define MEGATWIN_SIM_FLOW_FLOW_NET_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"
#include "sim/flow/flow_set.h"

namespace megatwin::sim {

class FlowNet {
 public:
  virtual ~FlowNet() = default;
  virtual std::string_view name() const = 0;
  // The end of every flow, by its index. Deterministic: same flows, same bits.
  // Errors: of simgrid only, when its library or its process fails.
  virtual model::Result<std::vector<model::Seconds>> finish_times(const FlowSet& flows) const = 0;
};

std::unique_ptr<FlowNet> make_analytic_net();
std::unique_ptr<FlowNet> make_max_min_net();

// `plugin`: the path of libmegatwin_simgrid.so; empty: beside the program, then where the loader
// looks. Nothing is loaded before the first call of finish_times().
std::unique_ptr<FlowNet> make_simgrid_net(std::string plugin = {});

// The latest of them.
model::Seconds last_of(const std::vector<model::Seconds>& finish);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_FLOW_FLOW_NET_H_
