#include "sim/component_times.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace megatwin::sim {
namespace {

using model::Seconds;

constexpr std::string_view kRecomputed = "recomputation";
constexpr std::string_view kCasts = "quantisation";
constexpr std::string_view kElse = "other kernels";

// First match wins.
constexpr std::array<std::pair<std::string_view, std::string_view>, 31> kPrefixes{{
    {"embedding", "embedding"},
    {"final_norm", "norms and residuals"},
    {"norm", "norms and residuals"},
    {"qk_norm", "norms and residuals"},
    {"latent.norms", "norms and residuals"},
    {"mtp.norms", "norms and residuals"},
    {"residual", "norms and residuals"},
    {"dropout", "norms and residuals"},
    {"bias", "norms and residuals"},
    {"attention", "attention"},
    {"qkv", "attention"},
    {"proj", "attention"},
    {"rope", "attention"},
    {"latent", "attention"},
    {"q_", "attention"},
    {"kv_", "attention"},
    {"fc1", "feed-forward"},
    {"fc2", "feed-forward"},
    {"activation", "feed-forward"},
    {"moe", "experts"},
    {"router", "experts"},
    {"shared", "experts"},
    {"mtp", "prediction layers"},
    {"logits", "head and loss"},
    {"loss", "head and loss"},
    {"gradient.accumulate", "gradient accumulation"},
    {"gradients", "optimizer"},
    {"adam", "optimizer"},
    {"parameters", "optimizer"},
    {"weights", "optimizer"},
    {"cast", kCasts},
}};

class Components {
 public:
  ComponentTime& named(std::string_view name) {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [&](const ComponentTime& one) { return one.name == name; });
    if (found != all_.end()) return *found;
    all_.push_back({.name = std::string(name)});
    return all_.back();
  }
  void waits(std::string_view name, Seconds time) {
    if (time.value != 0) named(name).other += time;
  }
  Seconds total() const {
    Seconds sum;
    for (const ComponentTime& one : all_) sum += one.step();
    return sum;
  }
  std::vector<ComponentTime> take() {
    std::stable_sort(all_.begin(), all_.end(), [](const ComponentTime& a, const ComponentTime& b) {
      return a.step() > b.step();
    });
    return std::move(all_);
  }

 private:
  std::vector<ComponentTime> all_;
};

}  // namespace

std::string_view component_of(const model::MicroOp& op) {
  if (op.kind == model::MicroOpKind::Collective) return "traffic";
  if (op.recompute) return kRecomputed;
  if (op.name.find("cast") != std::string_view::npos) return kCasts;
  for (const auto& [prefix, component] : kPrefixes) {
    if (op.name.starts_with(prefix)) return component;
  }
  return kElse;
}

std::vector<ComponentTime> component_times(const model::JobProgram& program,
                                           const model::TaskPricer& pricer,
                                           const SimulationReport& report) {
  Components components;
  const double m = program.spec.micro_batches;
  const model::PricedStage& stage = program.stages[static_cast<std::size_t>(report.critical_stage)];
  const auto add = [&](const model::MicroOps& ops, Seconds ComponentTime::*pass) {
    for (const model::MicroOp& op : ops) {
      if (op.kind == model::MicroOpKind::Collective) continue;
      components.named(component_of(op)).*pass += m * op.count * pricer.time_of(op);
    }
  };
  for (const model::PricedChunk& chunk : stage.chunks) {
    add(chunk.ops->forward, &ComponentTime::forward);
    add(chunk.ops->backward, &ComponentTime::backward);
    ComponentTime& slowed = components.named("slowed by traffic beside it");
    slowed.forward += m * chunk.forward.contention;
    slowed.backward += m * chunk.backward.contention;
    ComponentTime& host = components.named("host launches");
    host.forward += m * chunk.forward.host_bound;
    host.backward += m * chunk.backward.host_bound;
  }
  const StepBreakdown& parts = report.breakdown;
  components.waits("optimizer", parts.optimizer);
  components.waits("tensor-parallel traffic", parts.exposed_tp);
  components.waits("pipeline traffic", parts.exposed_pp);
  components.waits("data-parallel traffic", parts.exposed_dp);
  components.waits("expert traffic", parts.exposed_ep);
  components.waits("context-parallel traffic", parts.exposed_cp);
  components.waits("bubble", parts.bubble);
  components.waits("once a step", parts.other);
  // Durations of tasks are rounded, and disturbances stretch them.
  components.waits("rounding and disturbances", report.step_time - components.total());
  return components.take();
}

}  // namespace megatwin::sim
