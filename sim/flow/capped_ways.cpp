#include "sim/flow/capped_ways.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "model/assert.h"
#include "sim/changing_work.h"

namespace megatwin::sim {
namespace {

using model::BytesPerSecond;
using model::GroupKind;
using model::LinkId;
using model::Seconds;

// Sums of rates that differ from a capacity by rounding only are no shortage.
constexpr double kRounding = 1e-9;
// What moves no time at all is given a nanosecond.
constexpr double kShortest = 1e-9;
// Bytes of what takes time in some stretches only: few, so that they are sent at once in the
// others.
constexpr double kFewest = 1000;
constexpr std::size_t kUsersNamed = 4;

std::string_view name_of(GroupKind group) {
  switch (group) {
    case GroupKind::Tensor:
      return "tensor-parallel";
    case GroupKind::Context:
      return "context-parallel";
    case GroupKind::Expert:
      return "expert-parallel";
    case GroupKind::ExpertTensor:
      return "expert-tensor-parallel";
    case GroupKind::Data:
      return "data-parallel";
    case GroupKind::ExpertData:
      return "expert-data-parallel";
    case GroupKind::Pipeline:
      return "pipeline-parallel";
  }
  return "data-parallel";
}

std::string with_rank(const FlowUser& user) {
  return to_text(user) + " (rank " + std::to_string(user.rank.value) + ")";
}

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
      return std::string(name_of(user.group)) + " collectives" + where;
    case FlowUser::Kind::InTasks:
      return std::string(name_of(user.group)) + " collectives inside tasks" + where;
    case FlowUser::Kind::Background:
      return "another job's traffic" + where;
  }
  return "traffic" + where;
}

double uptime_of(const model::Topology& topology, const model::Route& route) {
  double uptime = 1;
  for (const LinkId link : route.links) uptime *= topology.link(link).uptime;
  return uptime;
}

CappedWays::CappedWays(std::vector<NetworkStretch> stretches, model::Instant sized_until)
    : stretches_(std::move(stretches)) {
  MEGATWIN_ASSERT(!stretches_.empty() && stretches_.front().from.ns == 0, stretches_.size());
  num_sizing_ = 1;
  while (num_sizing_ < stretches_.size() && stretches_[num_sizing_].from < sized_until) {
    ++num_sizing_;
  }
  demand_.assign(stretches_.size(),
                 std::vector<double>(index(stretches_.front().topology->num_links()), 0.0));
  used_.assign(demand_.front().size(), false);
  at_times_ = used_;
}

CappedWays::Handle CappedWays::add(const std::vector<Way>& ways, const FlowUser& user) {
  MEGATWIN_ASSERT(ways.size() == stretches_.size(), ways.size());
  Lane lane{.user = user};
  for (std::size_t k = 0; k < ways.size(); ++k) {
    const bool there = ways[k].rate.value > 0;
    lane.there.push_back(there);
    lane.links.emplace_back();
    if (!there) continue;
    if (lane.rate == 0) {
      lane.rate = ways[k].rate.value;
      lane.latency = ways[k].route.latency.value;
      lane.from = stretches_[k].from;
    }
    for (const LinkId link : ways[k].route.links) {
      lane.links.back().push_back(link.value);
      demand_[k][index(link.value)] += ways[k].rate.value;
      if (user.kind != FlowUser::Kind::Background) used_[index(link.value)] = true;
      if (ways[k].uptime < 1 && link_in(k, link.value).uptime < 1) {
        at_times_[index(link.value)] = true;
      }
    }
  }
  for (const Way& way : ways) {
    lane.uptime.push_back(way.rate.value > 0 ? way.uptime : 1.0);
    lane.rates.push_back(way.rate.value > 0 ? way.rate.value : lane.rate);
  }
  MEGATWIN_ASSERT(lane.rate > 0, "a user without a rate: ", to_text(user));
  lanes_.push_back(std::move(lane));
  return static_cast<Handle>(lanes_.size()) - 1;
}

CappedWays::Handle CappedWays::add_lone() {
  // A byte a nanosecond, so that sizes are whole.
  constexpr BytesPerSecond kRate{1e9};
  return add(std::vector<Way>(stretches_.size(), Way{{}, kRate}), {});
}

FlowSet CappedWays::settle() {
  const std::size_t num_links = demand_.front().size();
  number_.assign(num_links, -1);
  std::vector<BytesPerSecond> capacities;
  for (std::size_t link = 0; link < num_links; ++link) {
    const auto id = static_cast<std::int32_t>(link);
    bool is_short = at_times_[link];
    for (std::size_t k = 0; k < stretches_.size(); ++k) {
      const double capacity = link_in(k, id).bandwidth.value;
      is_short = is_short || demand_[k][link] > capacity * (1 + kRounding);
    }
    if (!is_short) continue;
    number_[link] = static_cast<std::int32_t>(links_.size());
    links_.push_back(id);
    capacities.push_back(link_in(0, id).bandwidth);
    for (std::size_t k = 1; k < stretches_.size(); ++k) {
      const BytesPerSecond now = link_in(k, id).bandwidth;
      if (now == link_in(k - 1, id).bandwidth) continue;
      changes_.push_back({.at = Seconds{start_of(k)}, .link = number_[link], .capacity = now});
    }
  }
  FlowSet flows(std::move(capacities));
  for (Lane& lane : lanes_) {
    for (std::vector<std::int32_t>& links : lane.links) {
      std::erase_if(links, [&](std::int32_t link) { return number_[index(link)] < 0; });
      lane.contended = lane.contended || !links.empty();
    }
    if (!lane.contended) continue;
    lane.way = way_over(flows, lane, add_cap(flows, [&](std::size_t k) {
                          return BytesPerSecond{lane.uptime[k] * lane.rate};
                        }));
  }
  return flows;
}

// A link of one user only, as wide as `capacity` of each stretch.
std::int32_t CappedWays::add_cap(
    FlowSet& flows, const std::function<BytesPerSecond(std::size_t stretch)>& capacity) {
  BytesPerSecond before = capacity(0);
  const std::int32_t cap = flows.add_link(before);
  for (std::size_t k = 1; k < stretches_.size(); ++k) {
    const BytesPerSecond now = capacity(k);
    if (now == before) continue;
    changes_.push_back({.at = Seconds{start_of(k)}, .link = cap, .capacity = now});
    before = now;
  }
  return cap;
}

// The lane's short links and `cap`, stretch by stretch.
WayIndex CappedWays::way_over(FlowSet& flows, const Lane& lane, std::int32_t cap) {
  const auto way_in = [&](std::size_t k) {
    std::vector<std::int32_t> way;
    for (const std::int32_t link : lane.links[k]) way.push_back(number_[index(link)]);
    way.push_back(cap);
    return flows.add_way(way);
  };
  const WayIndex first = way_in(0);
  for (std::size_t k = 1; k < stretches_.size(); ++k) {
    const bool left = lane.there[k - 1] && !lane.there[k];
    if (lane.links[k] == lane.links[k - 1] && !left) continue;
    changes_.push_back({.at = Seconds{start_of(k)}, .way = first, .leads = left ? 0 : way_in(k)});
  }
  return first;
}

FlowIndex CappedWays::add_flow(FlowSet& flows, Handle handle, Seconds alone,
                               std::vector<FlowIndex> after) {
  return add_sized(flows, handle, {alone.value}, std::move(after));
}

FlowIndex CappedWays::add_changing_flow(FlowSet& flows, Handle handle,
                                        const std::vector<Seconds>& alone,
                                        std::vector<FlowIndex> after) {
  MEGATWIN_ASSERT(alone.size() == stretches_.size(), alone.size());
  std::vector<double> times;
  times.reserve(alone.size());
  for (const Seconds time : alone) times.push_back(time.value);
  const bool same =
      std::all_of(times.begin(), times.end(), [&](double time) { return time == times.front(); });
  if (same) times.resize(1);
  return add_sized(flows, handle, times, std::move(after));
}

FlowIndex CappedWays::add_sized(FlowSet& flows, Handle handle, const std::vector<double>& alone,
                                std::vector<FlowIndex> after) {
  const Lane& lane = lanes_[index(handle)];
  const bool changes = alone.size() > 1;
  const Seconds start = model::to_seconds(lane.from);
  // The least that a stretch would send, so that a short one in which much waits does not make it
  // much for good; where it takes longer, its own link slows it. A ring's rate falls as its time
  // grows, but for what hides.
  const double least_alone = *std::min_element(alone.begin(), alone.end());
  std::size_t least = 0;
  for (std::size_t k = 1; k < std::min(alone.size(), num_sizing_); ++k) {
    if (lane.rates[k] * (alone[k] - lane.latency) <
        lane.rates[least] * (alone[least] - lane.latency)) {
      least = k;
    }
  }
  const double rate = changes ? lane.rates[least] : lane.rate;
  // Whole bytes, as SimGrid wants them; what rounding takes from the size goes to the latency.
  double size =
      lane.contended || changes ? std::floor(rate * std::max(0.0, alone[least] - lane.latency)) : 0;
  double latency = alone[least] - size / rate;
  if (changes && size < kFewest) {
    size = kFewest;
    latency = std::min(least_alone, lane.latency);
  }
  if (size < 1) {
    return flows.add_on(
        {.start = start, .latency = Seconds{alone.front()}, .after = std::move(after)}, 0);
  }
  WayIndex way = lane.way;
  const std::vector<double>* shared = nullptr;
  if (changes) {
    const auto entry = changing_ways_.try_emplace({handle, alone}, 0).first;
    shared = &entry->first.second;
    WayIndex& known = entry->second;
    if (known == 0) {
      known = way_over(
          flows, lane, add_cap(flows, [&](std::size_t k) {
            return BytesPerSecond{lane.uptime[k] * size / std::max(alone[k] - latency, kShortest)};
          }));
    }
    way = known;
  }
  const FlowIndex flow = flows.add_on(
      {.size = {size}, .start = start, .latency = Seconds{latency}, .after = std::move(after)},
      way);
  sent_.push_back({flow, handle, shared});
  return flow;
}

void CappedWays::add_changes(FlowSet& flows) {
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const FlowChange& a, const FlowChange& b) { return a.at < b.at; });
  for (const FlowChange& change : changes_) {
    if (change.link >= 0) {
      flows.change_capacity(change.at, change.link, change.capacity);
    } else {
      flows.change_way(change.at, change.way, change.leads);
    }
  }
}

double CappedWays::alone_time(const Sent& sent, double start) const {
  return changing_duration(
      stretches_.size() - 1, start, [&](std::size_t k) { return start_of(k + 1); },
      [&](std::size_t k) { return (*sent.alone)[k]; });
}

double CappedWays::carries_until(std::int32_t link, double span) const {
  double bytes = 0;
  for (std::size_t k = 0; k < stretches_.size() && start_of(k) < span; ++k) {
    const double end = k + 1 < stretches_.size() ? std::min(span, start_of(k + 1)) : span;
    bytes += link_in(k, link).bandwidth.value * (end - start_of(k));
  }
  return bytes;
}

BytesPerSecond CappedWays::least_capacity(std::int32_t link, double span) const {
  BytesPerSecond least = link_in(0, link).bandwidth;
  for (std::size_t k = 1; k < stretches_.size() && start_of(k) < span; ++k) {
    least = std::min(least, link_in(k, link).bandwidth);
  }
  return least;
}

// What the flows did to the short links.
struct CappedWays::Carried {
  explicit Carried(std::size_t links)
      : bytes(links), delay(links), slowdown(links, 1.0), first(links, -1), by_others(links) {}
  std::vector<double> bytes, delay, slowdown;
  std::vector<std::int32_t> first;  // Lane of the first flow that was delayed.
  std::vector<bool> by_others;      // Whether another job sends there.
};

// Adds a flow to what its links carried, and its delay to the one that held it: one below its own
// rate, which would hold it alone, else the one with the largest demand for its capacity. Where its
// way changed, each stretch counts for its part of the flow's time.
void CappedWays::carry(const Sent& sent, const Flow& flow, double start, double end, double span,
                       Carried& out) const {
  const Lane& lane = lanes_[index(sent.lane)];
  const bool other = lane.user.kind == FlowUser::Kind::Background;
  // Another job sends on after the step; its own delay is not the step's.
  const double size = other ? std::min(flow.size.value * std::min(1.0, span / end),
                                       lane.rate * std::max(0.0, std::min(end, span) - start))
                            : flow.size.value;
  std::int32_t narrowest = -1, below = -1;
  double most = 0, least = lane.rate;
  for (std::size_t k = 0; k < stretches_.size(); ++k) {
    const double from = std::max(start, start_of(k));
    const double to = k + 1 < stretches_.size() ? std::min(end, start_of(k + 1)) : end;
    if (to <= from) continue;
    const double part = stretches_.size() == 1 ? 1 : (to - from) / (end - start);
    for (const std::int32_t link : lane.links[k]) {
      const std::int32_t number = number_[index(link)];
      out.bytes[index(number)] += part * size;
      if (other) out.by_others[index(number)] = true;
      const double capacity = link_in(k, link).bandwidth.value;
      if (capacity < least) least = capacity, below = number;
      const double wanted = demand_[k][index(link)] / capacity;
      if (wanted > most) most = wanted, narrowest = number;
    }
  }
  if (below >= 0) narrowest = below;
  const double alone = sent.alone == nullptr ? flow.latency.value + flow.size.value / lane.rate
                                             : alone_time(sent, start);
  const double late = end - start - alone;
  if (other || narrowest < 0 || late <= kRounding * alone) return;
  out.delay[index(narrowest)] += late;
  double& slowdown = out.slowdown[index(narrowest)];
  slowdown = std::max(slowdown, (end - start) / alone);
  if (out.first[index(narrowest)] < 0) out.first[index(narrowest)] = sent.lane;
}

std::vector<LinkLoad> CappedWays::loads(const FlowSet& flows, const std::vector<Seconds>& finish,
                                        Seconds span, std::size_t count) const {
  Carried carried(links_.size());
  for (const Sent& sent : sent_) {
    const Flow& flow = flows.flows()[index(sent.flow)];
    double start = flow.start.value;
    for (const FlowIndex before : flows.after(sent.flow)) {
      start = std::max(start, finish[index(before)].value);
    }
    carry(sent, flow, start, finish[index(sent.flow)].value, span.value, carried);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (carried.delay[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return carried.delay[a] > carried.delay[b];
  });
  order.resize(std::min(order.size(), count));
  std::vector<LinkLoad> loads;
  for (const std::size_t i : order) {
    const std::int32_t link = links_[i];
    double demand = 0;
    for (const std::vector<double>& by_link : demand_) {
      demand = std::max(demand, by_link[index(link)]);
    }
    LinkLoad load{.link = stretches_.front().topology->link_name(LinkId{link}),
                  .capacity = least_capacity(link, span.value),
                  .demand = BytesPerSecond{demand},
                  .carried = model::Bytes{carried.bytes[i]},
                  .delay = Seconds{carried.delay[i]},
                  .slowdown = carried.slowdown[i],
                  .first_delayed = with_rank(lanes_[index(carried.first[i])].user)};
    const model::Bytes most{carries_until(link, span.value)};
    // Of another job it is known when its flow ends, not how much of it went beside the step: it
    // may be faster after it.
    if (carried.by_others[i]) load.carried = std::min(load.carried, most);
    load.full = ratio(load.carried / most);
    name_users(link, load);
    loads.push_back(std::move(load));
  }
  return loads;
}

// Ranks that do the same are named together.
void CappedWays::name_users(std::int32_t link, LinkLoad& load) const {
  std::vector<std::pair<std::string, std::vector<int>>> alike;
  for (const Lane& lane : lanes_) {
    const bool uses = std::any_of(lane.links.begin(), lane.links.end(), [&](const auto& links) {
      return std::find(links.begin(), links.end(), link) != links.end();
    });
    if (!uses) continue;
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
