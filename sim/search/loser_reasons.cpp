#include "sim/search/loser_reasons.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "model/assert.h"
#include "sim/memory_report.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Job;
using model::Plan;
using model::Seconds;

struct Term {
  const char* effect;  // As effects_without() takes it.
  const char* words;
};

// Terms that a plan can be to blame for; what every plan pays alike comes last.
constexpr std::array<Term, 11> kTerms = {{{"tensor", "tensor-parallel traffic"},
                                          {"pipeline", "pipeline bubble and sends"},
                                          {"recompute", "recomputation"},
                                          {"data-parallel", "data-parallel traffic"},
                                          {"expert", "expert-parallel traffic"},
                                          {"context", "context-parallel traffic"},
                                          {"launch", "kernel gaps and host launches"},
                                          {"memory-bound", "memory-bound kernels"},
                                          {"wave", "partly filled waves of small products"},
                                          {"quantisation", "casts to fp8"},
                                          {"spread", "ranks that are not equally fast"}}};

bool matters(const Plan& plan, const Plan& other, const std::string& effect) {
  const auto either = [&](auto has) { return has(plan) || has(other); };
  if (effect == "tensor") return either([](const Plan& p) { return p.tensor > 1; });
  if (effect == "pipeline") return either([](const Plan& p) { return p.pipeline > 1; });
  if (effect == "expert") return either([](const Plan& p) { return p.expert > 1; });
  if (effect == "context") return either([](const Plan& p) { return p.context > 1; });
  if (effect == "data-parallel")
    return either([](const Plan& p) { return p.data * p.context > 1; });
  if (effect == "recompute") {
    return either([](const Plan& p) { return p.recompute != model::RecomputeKind::None; });
  }
  return true;
}

// A plan, and its step for as many sequences as the loser's batch has.
class Timed {
 public:
  Timed(TimesWithout& times, std::int64_t batch)
      : times_(times), batch_(batch), time_(without({})) {}

  Seconds without(const std::set<std::string>& effects) const {
    return paced(batch_, plan().global_batch, times_.without(effects));
  }
  const Plan& plan() const { return times_.plan(); }
  Seconds time() const { return time_; }

 private:
  TimesWithout& times_;
  std::int64_t batch_;
  Seconds time_;  // With nothing left out.
};

struct Blame {
  Term term;
  Seconds excess;  // What it costs the plan beyond what it costs the winner.
};

// The terms that cost the plan more than the winner, worst first: what both pay alike is no reason.
std::vector<Blame> blames(const Timed& plan, const Timed& winner) {
  std::vector<Blame> all;
  for (const Term& term : kTerms) {
    if (!matters(plan.plan(), winner.plan(), term.effect)) continue;
    const Seconds cost = plan.time() - plan.without({term.effect});
    const Seconds winners = winner.time() - winner.without({term.effect});
    if (cost > winners) all.push_back({term, cost - winners});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Blame& a, const Blame& b) { return a.excess > b.excess; });
  return all;
}

}  // namespace

SimulationReport report_of_plan(const Job& job, const Plan& plan, const SimulateOptions& options) {
  Job changed = job;
  changed.plan = plan;
  auto answer = simulate(changed, options);
  if (auto* report = std::get_if<SimulationReport>(&answer)) return std::move(*report);
  auto& refusal = std::get<PlanRefusal>(answer);
  MEGATWIN_ASSERT(refusal.report.has_value(), refusal.reasons.empty() ? "" : refusal.reasons[0]);
  return std::move(*refusal.report);
}

Seconds TimesWithout::without(const std::set<std::string>& effects) {
  const std::lock_guard lock(mutex_);
  const auto found = times_.find(effects);
  if (found != times_.end()) return found->second;
  const auto without = effects_without(effects);
  MEGATWIN_ASSERT(without.has_value(), "an unknown effect");
  const Seconds time =
      report_of_plan(job_, plan_, {.effects = *without, .cache = &cache_, .sensitivities = false})
          .step_time;
  return times_.emplace(effects, time).first->second;
}

Loser slow_loser(const Job& job, const Plan& plan, TimesWithout& winner) {
  TimesWithout times(job, plan);
  const Timed own(times, plan.global_batch), best(winner, plan.global_batch);
  Loser loser{.plan = plan, .too_slow = Seconds{0}, .step_time = own.time()};
  if (own.time() <= best.time()) {
    loser.reason = own.time() == best.time() ? "as fast: more memory, or later in the list"
                                             : "faster before contention and disturbances";
    return loser;
  }
  const std::vector<Blame> all = blames(own, best);
  std::set<std::string> effects;
  Seconds left = own.time(), winners_left = best.time();
  std::size_t named = all.size();  // Terms without which it wins against the winner with them.
  bool explained = false;
  for (std::size_t i = 0; i < all.size() && !explained; ++i) {
    effects.insert(all[i].term.effect);
    left = own.without(effects);
    if (left >= best.time()) continue;
    named = std::min(named, i + 1);
    // Taken off from both, so that what they share cannot make it win.
    explained = left <= best.without(effects);
    if (explained) named = i + 1;
  }
  effects.clear();
  for (std::size_t i = 0; i < named; ++i) {
    effects.insert(all[i].term.effect);
    loser.terms.emplace_back(all[i].term.effect);
    loser.reason += (loser.reason.empty() ? "" : ", ") + std::string(all[i].term.words);
  }
  left = own.without(effects);
  winners_left = best.without(effects);
  if (!explained) {
    loser.reason += (loser.reason.empty() ? "" : ", besides ") +
                    std::string("products that are slower, more or spread less evenly");
  }
  const Seconds gap = own.time() - best.time();
  loser.too_slow = loser.terms.empty() ? gap : gap + winners_left - left;
  return loser;
}

Loser large_loser(const Job& job, const Plan& plan, Bytes memory_limit) {
  const SimulationReport report = report_of_plan(job, plan, {.sensitivities = false});
  const auto heaviest =
      std::max_element(report.memory.begin(), report.memory.end(),
                       [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
  const std::array<std::pair<const char*, Bytes>, 5> parts = {
      {{"activations", heaviest->activations},
       {"optimizer states", heaviest->optimizer},
       {"parameters", heaviest->parameters},
       {"gradients", heaviest->gradients},
       {"buffers and short-lived tensors", heaviest->buffers}}};
  const auto largest = std::max_element(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Loser loser{.plan = plan};
  loser.reason = "does not fit: stage " + std::to_string(heaviest->stage) + " needs " +
                 in_gib(heaviest->peak) + " of " + in_gib(memory_limit) + ", " + largest->first +
                 " " + in_gib(largest->second) + " of it";
  loser.too_large = heaviest->peak - memory_limit;
  return loser;
}

}  // namespace megatwin::sim
