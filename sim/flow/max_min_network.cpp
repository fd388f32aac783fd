#include "sim/flow/max_min_network.h"

#include <algorithm>
#include <functional>

#include "model/assert.h"
#include "model/numbers.h"

namespace megatwin::sim {
namespace {

using model::as_index;

// Ends within this part of the time are one moment.
constexpr double kSameMoment = 1e-12;

}  // namespace

MaxMinNetwork::MaxMinNetwork(std::vector<model::BytesPerSecond> capacities) {
  links_.resize(capacities.size());
  for (std::size_t i = 0; i < capacities.size(); ++i) links_[i].capacity = capacities[i].value;
}

std::int32_t MaxMinNetwork::bundle_of(std::span<const std::int32_t> links) {
  std::vector<std::int32_t> route(links.begin(), links.end());
  const auto next = static_cast<std::int32_t>(bundles_.size());
  const auto [found, is_new] = bundle_by_route_.emplace(std::move(route), next);
  if (is_new) {
    Bundle& bundle = bundles_.emplace_back();
    bundle.links = found->first;
    bundle.position.resize(bundle.links.size());
  }
  return found->second;
}

void MaxMinNetwork::join_links(std::int32_t number) {
  Bundle& bundle = bundles_[as_index(number)];
  for (std::size_t k = 0; k < bundle.links.size(); ++k) {
    Link& link = links_[as_index(bundle.links[k])];
    bundle.position[k] = static_cast<std::int32_t>(link.bundles.size());
    link.bundles.push_back(number);
  }
}

void MaxMinNetwork::leave_links(std::int32_t number) {
  Bundle& bundle = bundles_[as_index(number)];
  for (std::size_t k = 0; k < bundle.links.size(); ++k) {
    Link& link = links_[as_index(bundle.links[k])];
    const std::int32_t at = bundle.position[k];
    const std::int32_t moved = link.bundles.back();
    link.bundles[as_index(at)] = moved;
    link.bundles.pop_back();
    if (moved == number) continue;
    Bundle& other = bundles_[as_index(moved)];
    for (std::size_t j = 0; j < other.links.size(); ++j) {
      if (other.links[j] == bundle.links[k]) other.position[j] = at;
    }
  }
}

void MaxMinNetwork::touch(const Bundle& bundle) {
  touched_.insert(touched_.end(), bundle.links.begin(), bundle.links.end());
}

void MaxMinNetwork::catch_up(Bundle& bundle) const {
  if (now_ > bundle.since) bundle.served += bundle.rate * (now_ - bundle.since);
  bundle.since = now_;
}

double MaxMinNetwork::end_of(const Bundle& bundle) {
  return bundle.since + (bundle.pending.top().served_at_end - bundle.served) / bundle.rate;
}

void MaxMinNetwork::start(FlowNumber flow, model::Bytes size, std::span<const std::int32_t> links) {
  MEGATWIN_ASSERT(!links.empty(), "flow ", flow, " has no links");
  start_on(flow, size, bundle_of(links));
}

void MaxMinNetwork::start_on(FlowNumber flow, model::Bytes size, std::int32_t number) {
  MEGATWIN_ASSERT(size.value > 0, "flow ", flow, " of ", size.value, " bytes");
  Bundle& bundle = bundles_[as_index(number)];
  if (bundle.pending.empty()) {
    bundle.served = 0;
    bundle.rate = 0;
    bundle.since = now_;
    join_links(number);
  } else {
    catch_up(bundle);
  }
  bundle.pending.push({.served_at_end = bundle.served + size.value, .flow = flow});
  touch(bundle);
}

void MaxMinNetwork::set_capacity(std::int32_t link, model::BytesPerSecond capacity) {
  MEGATWIN_ASSERT(capacity.value > 0, "link ", link);
  links_[as_index(link)].capacity = capacity.value;
  touched_.push_back(link);
}

std::vector<MaxMinNetwork::Left> MaxMinNetwork::take_all(std::int32_t number) {
  std::vector<Left> taken;
  Bundle& bundle = bundles_[as_index(number)];
  if (bundle.pending.empty()) return taken;
  solve();
  catch_up(bundle);
  for (; !bundle.pending.empty(); bundle.pending.pop()) {
    const Pending& next = bundle.pending.top();
    taken.push_back({next.flow, model::Bytes{next.served_at_end - bundle.served}});
  }
  ++bundle.version;
  touch(bundle);
  leave_links(number);
  return taken;
}

std::optional<model::Seconds> MaxMinNetwork::next_completion() {
  solve();
  while (!completions_.empty()) {
    const Completion& next = completions_.top();
    const Bundle& bundle = bundles_[as_index(next.bundle)];
    if (bundle.version == next.version && !bundle.pending.empty()) {
      return model::Seconds{next.time};
    }
    completions_.pop();
  }
  return std::nullopt;
}

void MaxMinNetwork::end_flows_of(std::int32_t number, double until,
                                 std::vector<FlowNumber>& ended) {
  Bundle& bundle = bundles_[as_index(number)];
  while (!bundle.pending.empty() && end_of(bundle) <= until) {
    ended.push_back(bundle.pending.top().flow);
    bundle.pending.pop();
  }
  catch_up(bundle);
  ++bundle.version;
  touch(bundle);
  if (bundle.pending.empty()) leave_links(number);
}

void MaxMinNetwork::advance(model::Seconds now, std::vector<FlowNumber>& ended) {
  solve();
  MEGATWIN_ASSERT(now.value >= now_, "time went back from ", now_, " to ", now.value);
  now_ = now.value;
  const double until = now_ + now_ * kSameMoment;
  const auto first = static_cast<std::ptrdiff_t>(ended.size());
  while (!completions_.empty() && completions_.top().time <= until) {
    const Completion next = completions_.top();
    completions_.pop();
    const Bundle& bundle = bundles_[as_index(next.bundle)];
    if (bundle.version == next.version && !bundle.pending.empty()) {
      end_flows_of(next.bundle, until, ended);
    }
  }
  std::sort(ended.begin() + first, ended.end());
}

model::BytesPerSecond MaxMinNetwork::rate_of(std::span<const std::int32_t> links) {
  solve();
  return model::BytesPerSecond{bundles_[as_index(bundle_of(links))].rate};
}

void MaxMinNetwork::solve() {
  if (touched_.empty()) return;
  collect();
  fill();
  touched_.clear();
}

// Every link and bundle that hangs together with a touched link.
void MaxMinNetwork::collect() {
  component_links_.clear();
  component_bundles_.clear();
  for (const std::int32_t link : touched_) {
    if (links_[as_index(link)].collected) continue;
    links_[as_index(link)].collected = true;
    component_links_.push_back(link);
  }
  for (std::size_t i = 0; i < component_links_.size(); ++i) {
    Link& link = links_[as_index(component_links_[i])];
    link.left = link.capacity;
    link.flows_left = 0;
    for (const std::int32_t number : link.bundles) {
      Bundle& bundle = bundles_[as_index(number)];
      link.flows_left += static_cast<double>(bundle.pending.size());
      if (bundle.collected) continue;
      bundle.collected = true;
      bundle.fixed = false;
      component_bundles_.push_back(number);
      for (const std::int32_t other : bundle.links) {
        if (links_[as_index(other)].collected) continue;
        links_[as_index(other)].collected = true;
        component_links_.push_back(other);
      }
    }
  }
}

// Progressive filling: the link with the least left for each of its flows fixes them; what they
// leave on their other links is shared by the rest, which can only gain by it.
void MaxMinNetwork::fill() {
  shares_.clear();
  for (const std::int32_t number : component_links_) {
    const Link& link = links_[as_index(number)];
    if (link.flows_left > 0) {
      shares_.push_back({link.left / link.flows_left, number, link.version});
    }
  }
  std::make_heap(shares_.begin(), shares_.end(), std::greater<>{});
  while (!shares_.empty()) {
    std::pop_heap(shares_.begin(), shares_.end(), std::greater<>{});
    const Share least = shares_.back();
    shares_.pop_back();
    const Link& link = links_[as_index(least.link)];
    if (link.flows_left <= 0) continue;
    if (link.version != least.version) {  // It lost flows since: back with what it has now.
      shares_.push_back({link.left / link.flows_left, least.link, link.version});
      std::push_heap(shares_.begin(), shares_.end(), std::greater<>{});
      continue;
    }
    for (const std::int32_t bundle : link.bundles) {
      if (!bundles_[as_index(bundle)].fixed) fix(bundle, least.value);
    }
  }
  for (const std::int32_t bundle : component_bundles_) bundles_[as_index(bundle)].collected = false;
  for (const std::int32_t link : component_links_) links_[as_index(link)].collected = false;
}

void MaxMinNetwork::fix(std::int32_t number, double rate) {
  Bundle& bundle = bundles_[as_index(number)];
  bundle.fixed = true;
  const auto flows = static_cast<double>(bundle.pending.size());
  for (const std::int32_t at : bundle.links) {
    Link& link = links_[as_index(at)];
    link.left = std::max(0.0, link.left - flows * rate);
    link.flows_left -= flows;
    ++link.version;
  }
  catch_up(bundle);
  bundle.rate = rate;
  ++bundle.version;
  completions_.push({end_of(bundle), number, bundle.version});
}

}  // namespace megatwin::sim
