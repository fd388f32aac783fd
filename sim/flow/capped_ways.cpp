#include "sim/flow/capped_ways.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::BytesPerSecond;
using model::LinkId;
using model::Seconds;

// Sums of rates that differ from a capacity by rounding only are no shortage.
constexpr double kRounding = 1e-9;
constexpr std::size_t kUsersNamed = 4;

}  // namespace

std::string to_text(const FlowUser& user) {
  const std::string where = (user.stage < 0 ? "" : " of stage " + std::to_string(user.stage)) +
                            (user.replica < 0 ? "" : ", replica " + std::to_string(user.replica));
  switch (user.kind) {
    case FlowUser::Kind::Activation:
      return "activations" + where;
    case FlowUser::Kind::Gradient:
      return "gradients of activations" + where;
    case FlowUser::Kind::Group:
      return "collectives" + where;
    case FlowUser::Kind::InTasks:
      return "collectives inside tasks" + where;
    case FlowUser::Kind::Background:
      return "another job's traffic" + where;
  }
  return "traffic" + where;
}

CappedWays::Handle CappedWays::add(const model::Route& route, BytesPerSecond rate,
                                   const FlowUser& user) {
  MEGATWIN_ASSERT(rate.value > 0, "a user without a rate: ", to_text(user));
  if (demand_.empty()) demand_.assign(index(topology_.num_links()), 0);
  Lane lane{.user = user, .rate = rate.value, .latency = route.latency.value};
  for (const LinkId link : route.links) {
    lane.links.push_back(link.value);
    demand_[index(link.value)] += rate.value;
  }
  lanes_.push_back(std::move(lane));
  return static_cast<Handle>(lanes_.size()) - 1;
}

FlowSet CappedWays::settle() {
  number_.assign(index(topology_.num_links()), -1);
  std::vector<BytesPerSecond> capacities;
  for (std::size_t link = 0; link < demand_.size(); ++link) {
    const BytesPerSecond capacity =
        topology_.link(LinkId{static_cast<std::int32_t>(link)}).bandwidth;
    if (demand_[link] <= capacity.value * (1 + kRounding)) continue;
    number_[link] = static_cast<std::int32_t>(links_.size());
    links_.push_back(static_cast<std::int32_t>(link));
    capacities.push_back(capacity);
  }
  FlowSet flows(std::move(capacities));
  for (Lane& lane : lanes_) {
    std::erase_if(lane.links, [&](std::int32_t link) { return number_[index(link)] < 0; });
    if (lane.links.empty()) continue;
    std::vector<std::int32_t> way;
    for (const std::int32_t link : lane.links) way.push_back(number_[index(link)]);
    way.push_back(flows.add_link(BytesPerSecond{lane.rate}));
    lane.way = flows.add_way(way);
  }
  return flows;
}

FlowIndex CappedWays::add_flow(FlowSet& flows, Handle handle, Seconds alone,
                               std::vector<FlowIndex> after) {
  const Lane& lane = lanes_[index(handle)];
  // Whole bytes, as SimGrid wants them; what rounding takes from the size goes to the latency.
  const double size =
      lane.way == 0 ? 0 : std::floor(lane.rate * std::max(0.0, alone.value - lane.latency));
  if (size < 1) return flows.add_on({.latency = alone, .after = std::move(after)}, 0);
  const FlowIndex flow = flows.add_on({.size = {size},
                                       .latency = Seconds{alone.value - size / lane.rate},
                                       .after = std::move(after)},
                                      lane.way);
  sent_.push_back({flow, handle, alone.value});
  return flow;
}

std::vector<LinkLoad> CappedWays::loads(const FlowSet& flows, const std::vector<Seconds>& finish,
                                        Seconds span, std::size_t count) const {
  std::vector<double> carried(links_.size()), delay(links_.size());
  // Adds a flow to what its links carried. Gives the link that held it: one below its own rate,
  // which would hold it alone, else the one with the largest demand for its capacity.
  const auto carry = [&](const Lane& lane, double size) {
    std::int32_t narrowest = -1, below = -1;
    double most = 0, least = lane.rate;
    for (const std::int32_t link : lane.links) {
      const std::int32_t number = number_[index(link)];
      carried[index(number)] += size;
      const double capacity = topology_.link(LinkId{link}).bandwidth.value;
      if (capacity < least) least = capacity, below = number;
      const double wanted = demand_[index(link)] / capacity;
      if (wanted > most) most = wanted, narrowest = number;
    }
    return below >= 0 ? below : narrowest;
  };
  for (const Sent& sent : sent_) {
    const Flow& flow = flows.flows()[index(sent.flow)];
    double start = flow.start.value;
    for (const FlowIndex before : flows.after(sent.flow)) {
      start = std::max(start, finish[index(before)].value);
    }
    const Lane& lane = lanes_[index(sent.lane)];
    const double end = finish[index(sent.flow)].value;
    if (lane.user.kind == FlowUser::Kind::Background) {
      // Another job sends on after the step; its own delay is not the step's.
      carry(lane, flow.size.value * std::min(1.0, span.value / end));
      continue;
    }
    const std::int32_t narrowest = carry(lane, flow.size.value);
    const double late = end - start - sent.alone;
    if (late > kRounding * sent.alone) delay[index(narrowest)] += late;
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (delay[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return delay[a] > delay[b]; });
  order.resize(std::min(order.size(), count));
  std::vector<LinkLoad> loads;
  for (const std::size_t i : order) {
    const LinkId id{links_[i]};
    LinkLoad load{.link = topology_.link_name(id),
                  .capacity = topology_.link(id).bandwidth,
                  .demand = BytesPerSecond{demand_[index(id.value)]},
                  .carried = model::Bytes{carried[i]},
                  .delay = Seconds{delay[i]}};
    // What others send after the step is faster than what they send beside it.
    load.carried = std::min(load.carried, load.capacity * span);
    load.full = ratio(load.carried / (load.capacity * span));
    name_users(id, load);
    loads.push_back(std::move(load));
  }
  return loads;
}

// Ranks that do the same are named together.
void CappedWays::name_users(LinkId link, LinkLoad& load) const {
  std::vector<std::pair<std::string, std::vector<int>>> alike;
  for (const Lane& lane : lanes_) {
    if (std::find(lane.links.begin(), lane.links.end(), link.value) == lane.links.end()) continue;
    ++load.num_users;
    const std::string text = to_text(lane.user);
    if (alike.empty() || alike.back().first != text) alike.push_back({text, {}});
    alike.back().second.push_back(lane.user.rank.value);
  }
  for (std::size_t i = 0; i < std::min(alike.size(), kUsersNamed); ++i) {
    const auto& [text, ranks] = alike[i];
    const std::string first = std::to_string(ranks.front());
    load.users.push_back(text + (ranks.size() == 1 ? " (rank " + first + ")"
                                                   : " (" + std::to_string(ranks.size()) +
                                                         " ranks from " + first + ")"));
  }
  if (alike.size() > kUsersNamed) {
    load.users.push_back("and " + std::to_string(alike.size() - kUsersNamed) + " more kinds");
  }
}

}  // namespace megatwin::sim
