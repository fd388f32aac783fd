#include "scenarios/disturbance_reader.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/disturbed_parts.h"
#include "scenarios/token_table.h"

namespace megatwin::scenarios {
namespace {

using model::Disturbance;
using model::DisturbanceKind;

constexpr NumberRange kFactor{.min = 1, .max = 1e6};
// No step takes eleven days; the clock counts nanoseconds for 292 years.
constexpr model::Seconds kWindowMax{1e6};

// "n3/gpu2" of the GPU that has this number when machines are filled in order; its clock, too.
struct Place {
  std::string name;
  const model::Gpu* gpu = nullptr;
};

std::optional<Place> place_of(std::int64_t rank, const model::Cluster& cluster) {
  std::int64_t machine = 0;
  for (const model::NodeGroup& group : cluster.groups) {
    const std::int64_t gpus = std::int64_t{group.count} * group.node.num_gpus;
    if (rank < gpus) {
      return Place{"n" + std::to_string(machine + rank / group.node.num_gpus) + "/gpu" +
                       std::to_string(rank % group.node.num_gpus),
                   &group.gpu};
    }
    rank -= gpus;
    machine += group.count;
  }
  return std::nullopt;
}

class DisturbanceReader {
 public:
  DisturbanceReader(MapReader& reader, const model::Cluster& cluster, const std::string& folder)
      : reader_(reader), cluster_(cluster), folder_(folder) {}

  std::optional<Disturbance> read() {
    reader_.require("kind",
                    "slow-gpu, jitter, slow-link, flapping-link, pcie-width, dead-nic, "
                    "background, expert-imbalance or slow-storage");
    const auto kind = reader_.choice<DisturbanceKind>(
        "kind", {{"slow-gpu", DisturbanceKind::SlowGpu},
                 {"jitter", DisturbanceKind::Jitter},
                 {"slow-link", DisturbanceKind::SlowLink},
                 {"flapping-link", DisturbanceKind::FlappingLink},
                 {"pcie-width", DisturbanceKind::PcieWidth},
                 {"dead-nic", DisturbanceKind::DeadNic},
                 {"background", DisturbanceKind::Background},
                 {"expert-imbalance", DisturbanceKind::ExpertImbalance},
                 {"slow-storage", DisturbanceKind::SlowStorage}});
    if (!kind) return std::nullopt;
    Disturbance d{.kind = *kind};
    read_fields(d);
    read_window(d);
    reader_.finish();
    return d;
  }

 private:
  void read_fields(Disturbance& d) {
    switch (d.kind) {
      case DisturbanceKind::SlowGpu:
        return read_slow_gpu(d);
      case DisturbanceKind::Jitter:
        d.deviation = needed(reader_.read<double>("deviation", parse_share), "deviation",
                             "a part of the time, such as 2 %");
        return;
      case DisturbanceKind::SlowLink:
        read_cable(d);
        d.factor = needed(reader_.number("factor", kFactor), "factor", "a number of 1 or more");
        return;
      case DisturbanceKind::FlappingLink:
        read_cable(d);
        d.down = needed(reader_.read("down", parse_time), "down", "a time");
        d.period = needed(reader_.read("every", parse_time), "every", "a time");
        if (d.down >= d.period && d.period.value > 0) {
          reader_.error_at(*reader_.find("down"), "down", "the link is never up",
                           "less than every");
        }
        return;
      case DisturbanceKind::PcieWidth:
        d.at = needed(reader_.text("at"), "at", "a GPU or an adapter, such as n0/gpu3");
        d.lanes = static_cast<int>(
            needed(reader_.integer("lanes", {.min = 1, .max = 16}), "lanes", "1 to 16"));
        return;
      case DisturbanceKind::DeadNic:
        d.at = needed(reader_.text("nic"), "nic", "an adapter, such as n2/nic5");
        return;
      case DisturbanceKind::Background:
        d.at = needed(reader_.text("from"), "from", "a GPU, such as n0/gpu0");
        d.to = needed(reader_.text("to"), "to", "a GPU, such as n9/gpu0");
        d.rate = needed(reader_.read("rate", parse_bandwidth), "rate", "a rate");
        return;
      case DisturbanceKind::ExpertImbalance:
        only_one_of("factor", "tokens");
        d.tokens = read_token_table(reader_, folder_);
        if (reader_.has("tokens")) return;  // Its factor: fit_token_table().
        d.factor = needed(reader_.number("factor", kFactor), "factor",
                          "a number of 1 or more, or tokens: a table");
        return;
      case DisturbanceKind::SlowStorage:
        d.rate = needed(reader_.read("bandwidth", parse_bandwidth), "bandwidth", "a rate");
        return;
    }
  }

  // From when until when in the step; the whole of it where nothing is said.
  void read_window(Disturbance& d) {
    if (const char* reason = why_without_window(d.kind)) {
      for (const char* key : {"start", "until", "duration"}) {
        if (const TreeNode* node = reader_.find(key)) {
          reader_.error_at(*node, key, std::string(name_of(d.kind)) + " has no window: " + reason,
                           "no start, until or duration");
        }
      }
      return;
    }
    only_one_of("until", "duration");
    d.start = read_instant("start", Zero::Allowed).value_or(model::Instant{});
    const auto until = read_instant("until");
    const auto duration = read_instant("duration");
    if (until) d.until = until;
    if (duration) d.until = d.start + *duration;
    if (!d.until || d.start < *d.until) return;
    const bool by_duration = !until;
    const char* key = by_duration ? "duration" : "until";
    reader_.error_at(*reader_.find(key), key,
                     by_duration ? "is shorter than the nanosecond that the clock counts"
                                 : "is not after start, so that the disturbance never holds",
                     by_duration ? "1 ns or more" : "a time after start");
  }

  std::optional<model::Instant> read_instant(std::string_view key, Zero zero = Zero::Refused) {
    const auto time = reader_.read(key, parse_time, zero);
    if (!time) return std::nullopt;
    if (*time <= kWindowMax) return model::round_to_instant(*time);
    reader_.error_at(*reader_.find(key), key, "is beyond any step",
                     "at most " + std::to_string(std::llround(kWindowMax.value)) + " s");
    return std::nullopt;
  }

  static const char* why_without_window(DisturbanceKind kind) {
    switch (kind) {
      case DisturbanceKind::ExpertImbalance:
        return "which experts are busy goes by the tokens of a step, not by its clock";
      case DisturbanceKind::SlowStorage:
        return "checkpoints are written between steps";
      case DisturbanceKind::SlowGpu:
      case DisturbanceKind::Jitter:
      case DisturbanceKind::SlowLink:
      case DisturbanceKind::FlappingLink:
      case DisturbanceKind::PcieWidth:
      case DisturbanceKind::DeadNic:
      case DisturbanceKind::Background:
        return nullptr;
    }
    return nullptr;
  }

  void read_slow_gpu(Disturbance& d) {
    const auto rank = reader_.integer("rank", {.min = 0, .max = 10'000'000});
    const auto name = reader_.text("gpu");
    if (!rank && !name) reader_.require("rank", "a number of a GPU, or gpu with its name");
    only_one_of("rank", "gpu");
    const model::Gpu* gpu = cluster_.groups.empty() ? nullptr : &cluster_.groups.front().gpu;
    if (rank) {
      const auto place = place_of(*rank, cluster_);
      if (place) {
        d.at = place->name;
        gpu = place->gpu;
      } else if (!cluster_.groups.empty()) {
        reader_.error_at(*reader_.find("rank"), "rank", "the cluster has no such GPU",
                         "0 to " + std::to_string(cluster_.num_gpus() - 1));
      }
    } else if (name) {
      d.at = *name;
    }
    const auto factor = reader_.number("factor", kFactor);
    const auto clock = reader_.read("clock", parse_frequency);
    only_one_of("factor", "clock");
    if (!reader_.has("clock"))
      reader_.require("factor", "one of factor and clock: 1.3, or clock: 1.2 GHz");
    if (!factor && !clock) return;  // Said already.
    // Time goes with the clock for what computes; memory-bound kernels slow less.
    d.factor = factor ? *factor : clock_factor(*clock, gpu);
  }

  double clock_factor(model::Hertz clock, const model::Gpu* gpu) {
    if (gpu == nullptr || gpu->boost_clock.value <= 0) return 1;
    const double factor = gpu->boost_clock.value / clock.value;
    if (factor >= 1) return factor;
    reader_.error_at(*reader_.find("clock"), "clock", "is above the boost clock",
                     "at most " + short_number(gpu->boost_clock.value / 1e9) + " GHz");
    return 1;
  }

  void only_one_of(std::string_view one, std::string_view other) {
    if (!reader_.has(one) || !reader_.has(other)) return;
    reader_.error_at(*reader_.find(other), other,
                     "contradicts " + std::string(one) + ", which is given too",
                     "one of " + std::string(one) + " and " + std::string(other));
  }

  void read_cable(Disturbance& d) {
    d.at = needed(reader_.text("from"), "from", "one end, such as n0/nic0");
    d.to = needed(reader_.text("to"), "to", "the other end, such as rail0/leaf0");
  }

  static model::Result<double> parse_share(std::string_view text, Zero) {
    return parse_fraction(text);
  }

  template <class Value>
  Value needed(std::optional<Value> value, std::string_view key, std::string_view allowed) {
    if (!value) reader_.require(key, allowed);
    return value.value_or(Value{});
  }

  MapReader& reader_;
  const model::Cluster& cluster_;
  const std::string& folder_;
};

}  // namespace

std::vector<DisturbanceAt> read_disturbances(MapReader& scenario, const model::Cluster& cluster,
                                             const std::string& folder) {
  std::vector<DisturbanceAt> read;
  const TreeNode* list = scenario.find("disturbances");
  if (list == nullptr) return read;
  if (list->kind != TreeKind::Sequence) {
    scenario.error_at(*list, "disturbances", "is no list",
                      "- {kind: slow-gpu, rank: 0, factor: 2}");
    return read;
  }
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    const std::string path = "disturbances[" + std::to_string(i) + "]";
    MapReader item(scenario.context(), list->items[i], scenario.path_of(path));
    if (list->items[i].kind == TreeKind::Null) item.require("kind", "what happens");
    if (list->items[i].kind != TreeKind::Map) continue;
    if (auto disturbance = DisturbanceReader(item, cluster, folder).read()) {
      read.push_back({*std::move(disturbance), &list->items[i], path});
    }
  }
  check_parts(scenario, cluster, read);
  return read;
}

}  // namespace megatwin::scenarios
