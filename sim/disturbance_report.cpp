#include "sim/disturbance_report.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/counted.h"
#include "model/rank_layout.h"
#include "sim/job_network.h"

namespace megatwin::sim {
namespace {

using model::Disturbance;
using model::DisturbanceKind;
using model::Instant;
using model::Seconds;

constexpr std::size_t kUnitsNamed = 3;
constexpr std::size_t kLinksNamed = 3;

std::string text(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}
// Steps are compared to the microsecond; nobody reads millions of milliseconds.
std::string in_ms(Seconds time) {
  if (time.value >= 7200) return text("%.2f h", time.value / 3600);
  return time.value >= 120 ? text("%.3f s", time.value) : text("%.3f ms", 1e3 * time.value);
}
std::string in_ms(Instant time) { return in_ms(model::to_seconds(time)); }
std::string change(Seconds from, Seconds to) {
  return in_ms(to) + " instead of " + in_ms(from) +
         text(" (%+.2f %%)", 100 * (ratio(to / from) - 1));
}

// Folded replicas: rank r of the result stands for several; it is named by its first.
class Chain {
 public:
  Chain(const model::Job& job, const StepRun& plain, const StepRun& disturbed)
      : job_(job), plain_(plain), disturbed_(disturbed), p_(job.plan.pipeline) {}

  std::vector<std::string> lines() {
    for (std::size_t i = 0; i < job_.disturbances.size(); ++i) {
      const Disturbance& d = job_.disturbances[i];
      if (is_late(d)) continue;
      name_rank(d);
      name_idle(d, i);
    }
    name_units();
    name_program();
    name_links();
    if (lines_.empty() && job_.network != model::NetworkKind::Analytic) {
      lines_.emplace_back(
          "no flow of this job takes longer: none passes there, or its fair share of the links has "
          "room for it");
    }
    name_ends();
    return std::move(lines_);
  }

 private:
  const RankResult& plain_rank(std::size_t unit) const {
    const std::size_t replica = unit / index(p_);
    const std::size_t same =
        replica * index(p_) < plain_.result.ranks.size() ? unit : unit % index(p_);
    return plain_.result.ranks[same];
  }

  // Whether the step is over before it begins.
  bool is_late(const Disturbance& d) {
    const Instant end = disturbed_.result.makespan;
    if (d.start < end) return false;
    lines_.push_back(to_text(d) + ": begins when the step is over, which takes " + in_ms(end) +
                     ", and changes nothing");
    return true;
  }

  void name_rank(const Disturbance& d) {
    if (d.kind != DisturbanceKind::SlowGpu) return;
    const auto rank = gpu_of_name(job_.cluster, d.at);
    if (!rank || rank->value >= job_.plan.gpus()) {
      lines_.push_back(d.at + " has no rank of this job: nothing changes");
      return;
    }
    const model::RankCoordinates at = model::RankLayout(job_.plan).coordinates(*rank);
    std::string line = d.at + " is rank " + std::to_string(rank->value) + ": stage " +
                       std::to_string(at.pipeline) + " of replica " + std::to_string(at.data);
    const int group = job_.plan.tensor * job_.plan.context;
    if (group > 1) {
      line += "; its tensor- and context-parallel group of " + std::to_string(group) +
              " ranks waits for it in every layer";
    }
    if (d.is_timed()) line += "; slow" + window_of(d);
    lines_.push_back(std::move(line));
  }

  std::string effect_of_storage(const Disturbance& d) const {
    if (!job_.failures) {
      return "checkpoints are written under failures, and none are given: slow-storage changes "
             "nothing";
    }
    const model::FailurePlan& plan = *job_.failures;
    if (plan.storage.value > 0 && plan.storage <= d.rate) {
      return "the storage of failures.checkpoint is no faster than that of slow-storage: it "
             "changes nothing";
    }
    if (plan.checkpoint_blocks.value > 0 && !plan.asynchronous) {
      return "failures.checkpoint.blocks says how long the job waits for a checkpoint: "
             "slow-storage changes only when it is durable, and how soon the next one can begin";
    }
    return "slow-storage changes checkpoints, not the step: see the weeks of training under "
           "failures";
  }

  // What a disturbance has nothing to act on.
  void name_idle(const Disturbance& d, std::size_t number) {
    if (d.kind == DisturbanceKind::ExpertImbalance && !job_.transformer.experts) {
      lines_.push_back("the model has no experts: expert-imbalance changes nothing");
    }
    if (d.kind == DisturbanceKind::SlowStorage) lines_.push_back(effect_of_storage(d));
    if (d.kind == DisturbanceKind::DeadNic) {
      const std::string& detour = disturbed_.notes[number];
      lines_.push_back(d.at + " is dead" + window_of(d) + ": " +
                       (detour.empty() ? "it serves no rank of this job" : detour));
    }
    if (d.kind == DisturbanceKind::FlappingLink) {
      lines_.push_back("the cable from " + d.at + " to " + d.to + " " + disturbed_.notes[number]);
    }
    const bool cable =
        d.kind == DisturbanceKind::SlowLink || d.kind == DisturbanceKind::FlappingLink;
    if (!cable) return;
    const auto ends = [&](const LinkLoad& load) {
      return load.link == d.at + " -> " + d.to || load.link == d.to + " -> " + d.at;
    };
    if (std::any_of(disturbed_.links.begin(), disturbed_.links.end(), ends)) return;
    // Down at times, it has no room then, however much it has on average.
    const bool counted = !disturbed_.flaps.empty() && disturbed_.flaps[number];
    if (counted && disturbed_.sends_over[number]) return;
    lines_.push_back("the cable from " + d.at + " to " + d.to +
                     (disturbed_.sends_over[number]
                          ? " is not among the links that delay this job most: what is left has "
                            "room for what the job sends there"
                          : " carries nothing of this job"));
  }

  // Ranks whose tasks take longer, the worst first.
  void name_units() {
    const auto& ranks = disturbed_.result.ranks;
    std::vector<std::size_t> order(ranks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto more = [&](std::size_t unit) {
      return ranks[unit].compute.ns - plain_rank(unit).compute.ns;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return more(a) > more(b); });
    for (std::size_t i = 0; i < std::min(order.size(), kUnitsNamed); ++i) {
      if (more(order[i]) <= 0) return;
      lines_.push_back("stage " + std::to_string(ranks[order[i]].stage.value) +
                       replica_of(order[i]) + ": its tasks take " +
                       change(model::to_seconds(plain_rank(order[i]).compute),
                              model::to_seconds(ranks[order[i]].compute)));
    }
  }

  std::string replica_of(std::size_t unit) const {
    const int count = disturbed_.result.ranks[unit].multiplicity;
    if (count > 1) return " of " + std::to_string(count) + " replicas alike";
    return " of replica " + std::to_string(first_replica(unit / index(p_)));
  }

  // Folded classes stand in the order of their first replicas.
  std::size_t first_replica(std::size_t replica_class) const {
    const auto replicas = index(job_.plan.data);
    if (disturbed_.result.ranks.size() == replicas * index(p_)) return replica_class;
    std::vector<std::vector<double>> classes;
    for (std::size_t d = 0; d < replicas; ++d) {
      std::vector<double> factors;
      for (const StepRun::Stretch& stretch : disturbed_.stretches) {
        const auto first = stretch.unit_factor.begin() + static_cast<std::ptrdiff_t>(d) * p_;
        factors.insert(factors.end(), first, first + p_);
      }
      if (std::find(classes.begin(), classes.end(), factors) != classes.end()) continue;
      if (classes.size() == replica_class) return d;
      classes.push_back(std::move(factors));
    }
    return replica_class;
  }

  // Reductions that the network makes longer, by stage.
  void name_program() {
    // Of several stretches the program holds what they cost on average.
    const bool is_mean = disturbed_.stretches.size() > 1;
    int named = 0;
    for (std::size_t s = 0; s < disturbed_.program().stages.size(); ++s) {
      Seconds before, after;
      for (const auto& chunk : plain_.program().stages[s].chunks)
        before += chunk.reduce + chunk.gather;
      for (const auto& chunk : disturbed_.program().stages[s].chunks) {
        after += chunk.reduce + chunk.gather;
      }
      if (after <= before || before.value <= 0) continue;
      if (++named > 3) {
        lines_.push_back("and so on for later stages");
        return;
      }
      lines_.push_back("data-parallel traffic of stage " + std::to_string(s) +
                       ", hidden or not, takes " + (is_mean ? "on average over the step " : "") +
                       change(before, after));
    }
  }

  void name_links() {
    std::size_t named = 0;
    for (const LinkLoad& load : disturbed_.links) {
      const auto same =
          std::find_if(plain_.links.begin(), plain_.links.end(), [&](const LinkLoad& other) {
            return other.link == load.link && other.of_one_collective == load.of_one_collective;
          });
      const bool known = same != plain_.links.end();
      const LinkLoad before = known ? *same : LinkLoad{};
      if (load.delay <= before.delay || ++named > kLinksNamed) continue;
      const std::string link = load.link + " (" + text("%.3g GB/s", load.capacity.value / 1e9) +
                               ", " + model::counted(load.num_users, "user") + ")";
      if (load.of_one_collective) {
        lines_.push_back(link + " makes " + load.first_delayed + " take " +
                         text("%.2f times as long as alone", load.slowdown) +
                         (known ? text(" instead of %.2f times", before.slowdown) : ""));
      } else {
        lines_.push_back(link + " delays its flows by " + in_ms(load.delay - before.delay) +
                         " in all; the first that it delays are " + load.first_delayed);
      }
    }
  }

  void name_ends() {
    const RankResult& after = disturbed_.result.ranks[disturbed_.unit];
    const RankResult& before = plain_rank(disturbed_.unit);
    const std::string who =
        "stage " + std::to_string(after.stage.value) + replica_of(disturbed_.unit);
    const auto say = [&](const char* what, Instant was, Instant is) {
      if (is.ns == was.ns) return;
      lines_.push_back(who + " " + what + " " + in_ms(is) + " instead of " + in_ms(was));
    };
    say("idles for", before.bubble, after.bubble);
    say("waits for messages", before.exposed_p2p, after.exposed_p2p);
    say("waits for data-parallel traffic", before.exposed_data_parallel,
        after.exposed_data_parallel);
    lines_.push_back(
        "the step takes " +
        change(model::to_seconds(plain_.result.makespan) + plain_.program().step_overhead,
               model::to_seconds(disturbed_.result.makespan) + disturbed_.program().step_overhead));
  }

  static std::size_t index(int value) { return static_cast<std::size_t>(value); }

  const model::Job& job_;
  const StepRun& plain_;
  const StepRun& disturbed_;
  int p_;
  std::vector<std::string> lines_;
};

}  // namespace

DisturbanceReport disturbance_report(const model::Job& job, const StepRun& plain,
                                     const StepRun& disturbed) {
  DisturbanceReport report{.undisturbed_step_time = model::to_seconds(plain.result.makespan) +
                                                    plain.program().step_overhead};
  for (const Disturbance& d : job.disturbances) report.causes.push_back(to_text(d));
  report.chain = Chain(job, plain, disturbed).lines();
  return report;
}

}  // namespace megatwin::sim
