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
  const auto index = static_cast<FlowIndex>(flows_.size());
  for (const std::int32_t link : links) {
    MEGATWIN_ASSERT(link >= 0 && static_cast<std::size_t>(link) < capacities_.size(), link);
    MEGATWIN_ASSERT(capacities_[static_cast<std::size_t>(link)].value > 0, link);
  }
  for (const FlowIndex before : order.after) {
    MEGATWIN_ASSERT(before >= 0 && before < index, "after a flow that is not there: ", before);
  }
  flows_.push_back({.size = order.size,
                    .start = order.start,
                    .latency = order.latency,
                    .first_link = static_cast<std::int32_t>(links_.size()),
                    .num_links = static_cast<std::int32_t>(links.size()),
                    .first_after = static_cast<std::int32_t>(after_.size()),
                    .num_after = static_cast<std::int32_t>(order.after.size())});
  links_.insert(links_.end(), links.begin(), links.end());
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

std::span<const std::int32_t> FlowSet::links_of(FlowIndex flow) const {
  const Flow& f = flows_[static_cast<std::size_t>(flow)];
  return std::span(links_).subspan(static_cast<std::size_t>(f.first_link),
                                   static_cast<std::size_t>(f.num_links));
}

std::span<const FlowIndex> FlowSet::after(FlowIndex flow) const {
  const Flow& f = flows_[static_cast<std::size_t>(flow)];
  return std::span(after_).subspan(static_cast<std::size_t>(f.first_after),
                                   static_cast<std::size_t>(f.num_after));
}

}  // namespace megatwin::sim
