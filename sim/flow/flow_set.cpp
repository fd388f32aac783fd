#include "sim/flow/flow_set.h"

#include "model/assert.h"

namespace megatwin::sim {

using model::LinkId;

FlowSet::FlowSet(const model::Topology& topology) {
  capacities_.reserve(static_cast<std::size_t>(topology.num_links()));
  for (LinkId link; link.value < topology.num_links(); ++link.value) {
    capacities_.push_back(topology.link(link).bandwidth);
  }
}

FlowIndex FlowSet::add(const Order& order, std::span<const std::int32_t> links) {
  return add_on(order, links.empty() ? 0 : add_way(links));
}

WayIndex FlowSet::add_way(std::span<const std::int32_t> links) {
  for (const std::int32_t link : links) {
    MEGATWIN_ASSERT(link >= 0 && static_cast<std::size_t>(link) < capacities_.size(), link);
    MEGATWIN_ASSERT(capacities_[static_cast<std::size_t>(link)].value > 0, link);
  }
  links_.insert(links_.end(), links.begin(), links.end());
  way_ends_.push_back(static_cast<std::int32_t>(links_.size()));
  return static_cast<WayIndex>(way_ends_.size()) - 1;
}

FlowIndex FlowSet::add_on(const Order& order, WayIndex way) {
  const auto index = static_cast<FlowIndex>(flows_.size());
  MEGATWIN_ASSERT(way >= 0 && static_cast<std::size_t>(way) < way_ends_.size(), way);
  for (const FlowIndex before : order.after) {
    MEGATWIN_ASSERT(before >= 0 && before < index, "after a flow that is not there: ", before);
  }
  flows_.push_back({.size = order.size,
                    .start = order.start,
                    .latency = order.latency,
                    .way = way,
                    .first_after = static_cast<std::int32_t>(after_.size()),
                    .num_after = static_cast<std::int32_t>(order.after.size())});
  after_.insert(after_.end(), order.after.begin(), order.after.end());
  return index;
}

FlowIndex FlowSet::add(const Order& order, const model::Route& route) {
  std::vector<std::int32_t> links;
  links.reserve(route.links.size());
  for (const LinkId link : route.links) links.push_back(link.value);
  return add(order, links);
}

std::int32_t FlowSet::add_link(model::BytesPerSecond capacity) {
  capacities_.push_back(capacity);
  return static_cast<std::int32_t>(capacities_.size()) - 1;
}

void FlowSet::change_capacity(model::Seconds at, std::int32_t link,
                              model::BytesPerSecond capacity) {
  MEGATWIN_ASSERT(link >= 0 && static_cast<std::size_t>(link) < capacities_.size(), link);
  MEGATWIN_ASSERT(capacity.value > 0, link);
  change({.at = at, .link = link, .capacity = capacity});
}

void FlowSet::change_way(model::Seconds at, WayIndex way, WayIndex leads) {
  MEGATWIN_ASSERT(way > 0 && static_cast<std::size_t>(way) < way_ends_.size(), way);
  MEGATWIN_ASSERT(leads >= 0 && static_cast<std::size_t>(leads) < way_ends_.size(), leads);
  change({.at = at, .way = way, .leads = leads});
}

void FlowSet::change(const FlowChange& change) {
  MEGATWIN_ASSERT(change.at.value > 0, change.at.value);
  MEGATWIN_ASSERT(changes_.empty() || changes_.back().at <= change.at, change.at.value);
  changes_.push_back(change);
}

std::span<const std::int32_t> FlowSet::links_of(FlowIndex flow) const {
  return links_on(flows_[static_cast<std::size_t>(flow)].way);
}

std::span<const std::int32_t> FlowSet::links_on(WayIndex way) const {
  if (way == 0) return {};
  const auto end = static_cast<std::size_t>(way_ends_[static_cast<std::size_t>(way)]);
  const auto first = static_cast<std::size_t>(way_ends_[static_cast<std::size_t>(way) - 1]);
  return std::span(links_).subspan(first, end - first);
}

std::span<const FlowIndex> FlowSet::after(FlowIndex flow) const {
  const Flow& f = flows_[static_cast<std::size_t>(flow)];
  return std::span(after_).subspan(static_cast<std::size_t>(f.first_after),
                                   static_cast<std::size_t>(f.num_after));
}

}  // namespace megatwin::sim
