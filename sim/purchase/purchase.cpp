#include "sim/purchase/purchase.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "model/assert.h"
#include "sim/disturbed_job.h"
#include "sim/purchase/scaling_knee.h"
#include "sim/search/best_plan.h"
#include "sim/search/impossible_wish.h"
#include "sim/search/parallel_for.h"
#include "sim/search/search_space.h"

namespace megatwin::sim {
namespace {

using model::Job;
using model::MachineOffer;
using model::TrainingWish;

// So often the gaps on both sides of the choice are halved.
constexpr int kRefinements = 4;
constexpr int kGoodputRuns = 200;

struct Place {
  int offer = 0;
  int machines = 1;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// 1, 2, 3, 4, 6, 8, 12, 16, … between the bounds, which belong to it.
std::vector<int> ladder(int low, int high) {
  std::vector<int> counts = {low};
  for (int power = 1; power <= high; power *= 2) {
    for (const int count : {power, power + power / 2}) {
      if (count > counts.back() && count < high) counts.push_back(count);
    }
    if (power > high / 2) break;
  }
  if (high > counts.back()) counts.push_back(high);
  return counts;
}

// How far the machines that are tried together are. The first take longest, so that what is known
// of the plans of those in hand is told as well.
class PlacesProgress {
 public:
  PlacesProgress(std::size_t places, const ProgressCallback& callback)
      : begun_(places), callback_(callback) {}

  void show(std::size_t place, const WorkProgress& of_place) {
    if (of_place.phase != kPricingPlans || of_place.total == 0) return;
    const std::lock_guard lock(mutex_);
    begun_[place] = static_cast<double>(of_place.done) / static_cast<double>(of_place.total);
    tell();
  }

  void finish(std::size_t place) {
    const std::lock_guard lock(mutex_);
    begun_[place] = 0;
    ++done_;
    tell();
  }

 private:
  void tell() const {
    if (!callback_) return;
    callback_({.phase = "trying machines",
               .done = done_,
               .total = static_cast<std::int64_t>(begun_.size()),
               .begun = std::accumulate(begun_.begin(), begun_.end(), 0.0)});
  }

  std::mutex mutex_;
  std::vector<double> begun_;  // Of the places that are not done, their part.
  std::int64_t done_ = 0;
  const ProgressCallback& callback_;
};

std::vector<std::string> not_counted(const Job& job) {
  if (has_sound_cluster(job)) return {};
  return {"Disturbances of one cluster are in no row, since rows are of many: " + struck_text(job) +
          "; `megatwin simulate` counts them, and so does `megatwin search` of its first plans."};
}

class Planner {
 public:
  Planner(const Job& job, const TrainingWish& wish, const PurchaseRequest& request)
      : job_(on_sound_cluster(job)), wish_(wish), request_(request) {
    answer_.not_counted = not_counted(job);
    if (request_.num_threads <= 0) {
      request_.num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    }
  }

  PurchaseAnswer run() {
    std::vector<Place> places;
    for (int offer = 0; offer < std::ssize(wish_.offers); ++offer) {
      const MachineOffer& machine = wish_.offers[static_cast<std::size_t>(offer)];
      for (const int count : ladder(machine.count_min, machine.count_max)) {
        places.push_back({offer, count});
      }
    }
    evaluate(places);
    for (int i = 0; i < kRefinements; ++i) {
      arrange();
      evaluate(between_neighbours());
    }
    arrange();
    if (answer_.options.empty()) {
      answer_.unmet = nothing_fits();
    } else if (!answer_.choice) {
      answer_.unmet = unmet_wish(wish_, answer_.options);
    } else {
      finish_choice();
    }
    find_utilisations();
    if (request_.mixes) mix_machines();
    return std::move(answer_);
  }

 private:
  Job job_at(const Place& place) const {
    return job_on(job_, wish_.offers[static_cast<std::size_t>(place.offer)], place.machines);
  }

  SearchSpace space_of(const Job& job) const {
    return request_.space ? request_.space(job) : short_space(job);
  }

  void evaluate(std::vector<Place> places) {
    std::erase_if(places, [&](const Place& place) { return !tried_.insert(place).second; });
    // Large clusters have the larger spaces: first, so that no thread is left alone with one.
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.machines > b.machines; });
    std::vector<std::optional<PurchaseOption>> found(places.size());
    PlacesProgress progress(places.size(), request_.progress);
    parallel_for(places.size(), request_.num_threads, [&](std::size_t i, int /*thread*/) {
      const Job job = job_at(places[i]);
      auto report = best_plan(job, space_of(job),
                              {.memory_margin = request_.memory_margin,
                               .progress = [&](const WorkProgress& p) { progress.show(i, p); }});
      if (report) found[i] = purchase_option(job, wish_, places[i].offer, *std::move(report));
      progress.finish(i);
    });
    for (auto& option : found) {
      if (option) answer_.options.push_back(*std::move(option));
    }
  }

  // Orders the options, draws the curves and chooses.
  void arrange() {
    std::sort(answer_.options.begin(), answer_.options.end(), [](const auto& a, const auto& b) {
      return std::tie(a.offer, a.machines) < std::tie(b.offer, b.machines);
    });
    answer_.curves.assign(wish_.offers.size(), {});
    for (std::size_t i = 0; i < answer_.options.size(); ++i) {
      answer_.curves[static_cast<std::size_t>(answer_.options[i].offer)].options.push_back(i);
    }
    for (OfferCurve& curve : answer_.curves) {
      std::vector<ScalingPoint> points;
      for (const std::size_t i : curve.options) {
        points.push_back({static_cast<double>(answer_.options[i].machines),
                          answer_.options[i].kept_tokens_per_s()});
      }
      curve.knee = scaling_knee(points);
      if (curve.knee) curve.knee = curve.options[*curve.knee];
    }
    answer_.choice = choose();
  }

  std::optional<std::size_t> choose() const {
    std::vector<std::size_t> possible;
    if (wish_.deadline || wish_.budget) {
      for (std::size_t i = 0; i < answer_.options.size(); ++i) possible.push_back(i);
    } else {
      for (const OfferCurve& curve : answer_.curves) {
        // Where the power does not reach for the knee, the most that it does reach for.
        std::optional<std::size_t> last;
        for (const std::size_t i : curve.options) {
          if (i <= curve.knee && keeps_all(wish_, answer_.options[i])) last = i;
        }
        if (last) possible.push_back(*last);
      }
    }
    std::erase_if(possible, [&](std::size_t i) { return !keeps_all(wish_, answer_.options[i]); });
    if (possible.empty()) return std::nullopt;
    const bool priced = std::all_of(possible.begin(), possible.end(), [&](std::size_t i) {
      return answer_.options[i].run.cost.has_value();
    });
    const auto worth_of = [&](std::size_t i) {
      return std::pair(worth(answer_.options[i], priced), i);
    };
    return *std::min_element(possible.begin(), possible.end(), [&](std::size_t a, std::size_t b) {
      return worth_of(a) < worth_of(b);
    });
  }

  void find_utilisations() {
    std::vector<std::size_t> told;
    if (answer_.choice) told.push_back(*answer_.choice);
    for (const OfferCurve& curve : answer_.curves) {
      const auto highest = std::max_element(
          curve.options.begin(), curve.options.end(), [&](std::size_t a, std::size_t b) {
            return answer_.options[a].report.mfu < answer_.options[b].report.mfu;
          });
      if (highest != curve.options.end() && *highest != answer_.choice) told.push_back(*highest);
    }
    for (const std::size_t i : told) {
      const PurchaseOption& option = answer_.options[i];
      answer_.utilisations.push_back(
          plan_utilisation(job_at({option.offer, option.machines}), i, option.report));
    }
  }

  // Money where all have a price, else machine hours; the fastest first where a budget alone
  // counts.
  std::pair<double, double> worth(const PurchaseOption& option, bool priced) const {
    const double duration = option.run.duration.value;
    const double price =
        priced ? option.run.cost->value : duration * (option.machines + option.run.spares);
    const bool fastest = wish_.budget && !wish_.deadline;
    return fastest ? std::pair(duration, price) : std::pair(price, duration);
  }

  void mix_machines() {
    // Its lists, as they are on the first kind alone.
    const std::optional<SearchSpace> space =
        request_.space ? std::optional(request_.space(job_at({0, wish_.offers.front().count_max})))
                       : std::nullopt;
    // Replicas and stages that differ take no disturbance: uneven experts are the plan's.
    answer_.mixes = machine_mixes(undisturbed(with_imbalance(job_)), wish_,
                                  {.space = space ? &*space : nullptr,
                                   .num_threads = request_.num_threads,
                                   .memory_margin = request_.memory_margin,
                                   .progress = request_.progress});
    const PurchaseOption* best = answer_.choice ? &answer_.options[*answer_.choice] : nullptr;
    for (std::size_t i = 0; i < answer_.mixes.size(); ++i) {
      const PurchaseOption& option = answer_.mixes[i].option;
      if (!keeps_all(wish_, option)) continue;
      const bool priced = option.run.cost && (best == nullptr || best->run.cost);
      if (best != nullptr && worth(*best, priced) <= worth(option, priced)) continue;
      best = &option;
      answer_.best_mix = i;
    }
  }

  // Halfway from the choice, or from what comes nearest to the wish, to the counts beside it.
  std::vector<Place> between_neighbours() const {
    if (answer_.options.empty()) return {};
    const std::size_t center =
        answer_.choice ? *answer_.choice : *unmet_wish(wish_, answer_.options).nearest;
    const PurchaseOption& option = answer_.options[center];
    std::vector<Place> places;
    for (const int step : {-1, 1}) {
      const auto beside = static_cast<std::ptrdiff_t>(center) + step;
      if (beside < 0 || beside >= std::ssize(answer_.options)) continue;
      const PurchaseOption& other = answer_.options[static_cast<std::size_t>(beside)];
      if (other.offer != option.offer) continue;
      const int middle = (option.machines + other.machines) / 2;
      if (middle != option.machines && middle != other.machines) {
        places.push_back({option.offer, middle});
      }
    }
    return places;
  }

  void finish_choice() {
    PurchaseOption& option = answer_.options[*answer_.choice];
    const Job job = job_at({option.offer, option.machines});
    if (!request_.space) {
      auto report = best_plan(job, whole_space(job),
                              {.num_threads = request_.num_threads,
                               .memory_margin = request_.memory_margin,
                               .progress = request_.progress});
      // Plans are ranked without contention: over links the one of the part may stay the faster.
      MEGATWIN_ASSERT(report && (report->step_time <= option.report.step_time ||
                                 job.network != model::NetworkKind::Analytic),
                      "the whole space is worse than a part of it");
      if (report->step_time <= option.report.step_time) {
        option = purchase_option(job, wish_, option.offer, *std::move(report));
      }
    }
    const TrainingRun& run = option.run;
    if (!run.mean_time_to_failure) return;
    answer_.goodput =
        goodput_spread({.failures = {{.part = "machine",
                                      .count = static_cast<double>(option.machines),
                                      .per_day = wish_.operations.failures_per_node_day}},
                        .span = run.duration,
                        .interval = run.checkpoint_interval,
                        .checkpoint_blocks = wish_.operations.checkpoint_time,
                        .checkpoint_durable = wish_.operations.checkpoint_time,
                        .detection = {},
                        .restart = wish_.operations.restart,
                        .spares = run.spares,
                        .repair = wish_.operations.replacement},
                       kGoodputRuns);
  }

  // No plan on any number of any machines: what the search says of the largest.
  UnmetWish nothing_fits() {
    UnmetWish unmet;
    unmet.message = "no plan is legal and fits on any of the machines on offer";
    for (int offer = 0; offer < std::ssize(wish_.offers); ++offer) {
      const MachineOffer& machine = wish_.offers[static_cast<std::size_t>(offer)];
      const Job job = job_at({offer, machine.count_max});
      const SearchOptions options{.num_threads = request_.num_threads,
                                  .memory_margin = request_.memory_margin,
                                  .progress = request_.progress};
      const ImpossibleWish wish = impossible_wish_of(job, space_of(job), options);
      const std::string name = std::to_string(machine.count_max) + " of " + machine.group.node.name;
      unmet.reasons.push_back(name + ": " + wish.message);
      for (const std::string& reason : wish.reasons) unmet.reasons.push_back(name + ": " + reason);
      for (const auto& relaxation : wish.relaxations) {
        unmet.other_ways.push_back(name + ": " + relaxation.what);
      }
    }
    return unmet;
  }

  const Job job_;
  const TrainingWish& wish_;
  PurchaseRequest request_;
  std::set<Place> tried_;
  PurchaseAnswer answer_;
};

}  // namespace

PurchaseAnswer plan_purchase(const Job& job, const TrainingWish& wish,
                             const PurchaseRequest& request) {
  MEGATWIN_ASSERT(!wish.offers.empty() && wish.tokens > 0, wish.offers.size(), " offers");
  return Planner(job, wish, request).run();
}

}  // namespace megatwin::sim
