#include "model/disturbance.h"

#include <cstdio>

namespace megatwin::model {
namespace {

// Four digits say what a disturbance is; the exact value is in the scenario.
std::string shortly(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Down and period may differ in a far digit, and that is what the link has left.
std::string in_ms(Seconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g ms", 1e3 * time.value);
  return text;
}

std::string in_ms(Instant time) { return in_ms(to_seconds(time)); }

std::string what_of(const Disturbance& d) {
  std::string name(name_of(d.kind));
  const std::string cable = name + " " + d.at + " - " + d.to;
  switch (d.kind) {
    case DisturbanceKind::SlowGpu:
      return name + " " + d.at + " × " + shortly(d.factor);
    case DisturbanceKind::Jitter:
      return name + " of " + shortly(100 * d.deviation) + " %";
    case DisturbanceKind::SlowLink:
      return cable + " at 1/" + shortly(d.factor);
    case DisturbanceKind::FlappingLink:
      return cable + " down " + in_ms(d.down) + " of every " + in_ms(d.period);
    case DisturbanceKind::PcieWidth:
      return name + " " + d.at + " × " + std::to_string(d.lanes);
    case DisturbanceKind::DeadNic:
      return name + " " + d.at;
    case DisturbanceKind::Background:
      return name + " " + d.at + " -> " + d.to + " at " + shortly(d.rate.value / 1e9) + " GB/s";
    case DisturbanceKind::ExpertImbalance:
      return name + " × " + shortly(d.factor);
    case DisturbanceKind::SlowStorage:
      return name + " of " + shortly(d.rate.value / 1e9) + " GB/s";
  }
  return name;
}

}  // namespace

std::string_view name_of(DisturbanceKind kind) {
  switch (kind) {
    case DisturbanceKind::SlowGpu:
      return "slow-gpu";
    case DisturbanceKind::Jitter:
      return "jitter";
    case DisturbanceKind::SlowLink:
      return "slow-link";
    case DisturbanceKind::FlappingLink:
      return "flapping-link";
    case DisturbanceKind::PcieWidth:
      return "pcie-width";
    case DisturbanceKind::DeadNic:
      return "dead-nic";
    case DisturbanceKind::Background:
      return "background";
    case DisturbanceKind::ExpertImbalance:
      return "expert-imbalance";
    case DisturbanceKind::SlowStorage:
      return "slow-storage";
  }
  return "slow-gpu";
}

std::string window_of(const Disturbance& d) {
  if (!d.is_timed()) return "";
  return (d.until && d.start.ns == 0 ? "" : " from " + in_ms(d.start)) +
         (d.until ? " until " + in_ms(*d.until) : " on");
}

std::string to_text(const Disturbance& d) { return what_of(d) + window_of(d); }

}  // namespace megatwin::model
