#include "sim/network_step.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "model/numbers.h"
#include "model/program/lowering.h"
#include "model/topology/topology.h"
#include "sim/dataflow.h"
#include "sim/delayed_program.h"
#include "sim/flapping.h"
#include "sim/flow/flow_net.h"
#include "sim/step_analysis.h"
#include "sim/step_flows.h"
#include "sim/step_limit.h"
#include "sim/stretch_prices.h"
#include "sim/task_traffic.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::Instant;
using model::Job;

std::unique_ptr<FlowNet> flow_net(model::NetworkKind kind) {
  switch (kind) {
    case model::NetworkKind::Analytic:
      return make_analytic_net();
    case model::NetworkKind::MaxMin:
      return make_max_min_net();
    case model::NetworkKind::Simgrid:
      return make_simgrid_net();
  }
  return make_analytic_net();
}

std::shared_ptr<const CompiledPipeline> compiled_for(const model::ProgramSpec& spec,
                                                     PipelineCache* cache) {
  if (cache != nullptr) return cache->get(spec);
  return std::make_shared<const CompiledPipeline>(compile_pipeline(spec));
}

// By disturbance: whether anybody of the job sends over the cable that it names, either way.
std::vector<bool> sends_over(const Job& job, const model::Topology& topology,
                             const std::vector<bool>& used) {
  std::vector<bool> sends;
  for (const model::Disturbance& d : job.disturbances) {
    const auto uses = [&](const std::string& from, const std::string& to) {
      const model::LinkId link = topology.find_link(from, to);
      return link.value >= 0 && used[static_cast<std::size_t>(link.value)];
    };
    sends.push_back(uses(d.at, d.to) || uses(d.to, d.at));
  }
  return sends;
}

std::string flaps_of(const model::Disturbance& d, bool counted, Instant makespan) {
  const double flaps = flaps_before(d, makespan);
  char number[32];
  std::snprintf(number, sizeof number, "%.6g", flaps);
  return "goes down " + (flaps == 1 ? "once" : std::string(number) + " times") +
         " within the step" + (counted ? "" : ": its mean rate counts");
}

std::vector<std::string> notes_of(const NetworkStepInput& input, ChangingNetwork& network,
                                  Instant makespan) {
  const Job& job = input.named;
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < job.disturbances.size(); ++i) {
    const model::Disturbance& d = job.disturbances[i];
    std::string& note = notes.emplace_back();
    if (d.kind == model::DisturbanceKind::FlappingLink) {
      note = flaps_of(d, !input.counted.empty() && input.counted[i], makespan);
    }
    if (d.kind != model::DisturbanceKind::DeadNic) continue;
    for (std::size_t k = 0; k < network.size() && note.empty(); ++k) {
      if (d.holds_at(network.starts()[k])) note = network.at(k).detour(d.at, job.plan.gpus());
    }
  }
  return notes;
}

// Collectives over a link that is down for a while do not take so many times as long: they wait.
constexpr double kDownSlowdown = kDownFactor / 100;

// A link that is down at times is as wide as it is planned when it is up.
void show_planned_width(const model::Topology& planned, std::vector<LinkLoad>& links) {
  for (LinkLoad& load : links) {
    const std::size_t arrow = load.link.find(" -> ");
    const model::LinkId link =
        planned.find_link(load.link.substr(0, arrow), load.link.substr(arrow + 4));
    const model::BytesPerSecond width = planned.link(link).bandwidth;
    if (width > kDownSlowdown * load.capacity) load.capacity = width;
  }
}

// The units whose stage costs something else than in the worst replica of it: by replica, stage.
std::vector<Replicas::Difference> unlike_worst(const DelayedProgram& delayed,
                                               const std::vector<double>& unit_factor) {
  std::vector<Replicas::Difference> list;
  const int p = delayed.worst().spec.pipeline;
  for (std::size_t unit = 0; unit < unit_factor.size(); ++unit) {
    const int replica = static_cast<int>(unit) / p, stage = static_cast<int>(unit) % p;
    if (unit_factor[unit] == 1 && !delayed.differs(replica, stage)) continue;
    list.push_back({.replica = replica,
                    .stage = {stage},
                    .cost = slowed(delayed.stage_cost(replica, stage),
                                   delayed.worst().stages[as_index(stage)], unit_factor[unit])});
  }
  return list;
}

// The step as it would be if all of it were as in one stretch.
model::Result<StepStretch> priced_stretch(const NetworkStepInput& input,
                                          const StepRun::Stretch& stretch,
                                          const GroupContention& contention,
                                          const GroupAlgorithms& algorithms) {
  const Job& job = input.priced;
  const DelayedProgram delayed({.job = job,
                                .effects = input.effects,
                                .plain = input.program,
                                .contention = contention,
                                .algorithms = algorithms});
  if (auto fault = endless_step(delayed.worst(), input.slowest)) {
    return model::fail(*std::move(fault));
  }
  const std::vector<Replicas::Difference> unlike = unlike_worst(delayed, stretch.unit_factor);
  std::vector<ReplicaClass> classes(as_index(job.plan.data), replica_class(delayed.worst().spec));
  for (const Replicas::Difference& unit : unlike) {
    classes[as_index(unit.replica)].stages[as_index(unit.stage.value)] = &unit.cost;
  }
  StepStretch priced{.from = stretch.from, .costs = pipeline_costs(classes)};
  constexpr auto kData = model::GroupKind::Data;
  for (const double factor : contention.data) {
    priced.ring_rate.push_back(algorithms.mean(kData, factor));
  }
  priced.traffic = task_traffic(delayed, priced.costs, contention, algorithms);
  priced.traffic_rates = task_traffic_rates(contention, priced.traffic, algorithms);
  return priced;
}

// A link that is too small for groups, as their closed forms have it in the stretch from `from` on.
struct GroupLink {
  Instant from;
  LinkLoad load;
};

// The worst stretch of the step has the word. A link that flows met too stands as they did where
// that is a part of the step: they are held against durations that have the slowdown of groups in
// them already. One that is short only when the step is over slows nobody.
std::vector<LinkLoad> with_group_links(std::vector<LinkLoad> links, std::vector<GroupLink> groups,
                                       Instant makespan) {
  constexpr double kPartOfStep = 0.01;
  for (GroupLink& group : groups) {
    if (group.from > Instant{} && group.from >= makespan) continue;
    LinkLoad& load = group.load;
    const auto listed = std::find_if(links.begin(), links.end(),
                                     [&](const LinkLoad& l) { return l.link == load.link; });
    if (listed == links.end()) {
      links.push_back(std::move(load));
    } else if (listed->of_one_collective
                   ? load.slowdown > listed->slowdown
                   : listed->delay < kPartOfStep * model::to_seconds(makespan)) {
      *listed = std::move(load);
    }
  }
  return links;
}

// What groups do to each other, stretch by stretch.
struct Contentions {
  std::vector<std::shared_ptr<const GroupContention>> by_stretch;
  std::vector<GroupLink> links;
  std::vector<bool> used;
};
model::Result<Contentions> contentions_of(const NetworkStepInput& input, ChangingNetwork& network,
                                          const FlowNet& net, const GroupAlgorithms& algorithms) {
  Contentions all{.used = std::vector<bool>(as_index(network.at(0).topology().num_links()))};
  for (std::size_t k = 0; k < network.size(); ++k) {
    if (const std::size_t first = network.first_like(k); first == k) {
      MEGATWIN_TRY(GroupContention one,
                   group_contention(input.priced, network.at(k), net, algorithms));
      for (LinkLoad& load : one.links) {
        if (load.slowdown > kDownSlowdown) continue;
        all.links.push_back({input.stretches[k].from, std::move(load)});
      }
      for (std::size_t i = 0; i < all.used.size(); ++i) all.used[i] = all.used[i] || one.used[i];
      all.by_stretch.push_back(std::make_shared<const GroupContention>(std::move(one)));
    } else {
      const auto same = all.by_stretch[first];
      all.by_stretch.push_back(same);
    }
  }
  return all;
}

// Lays `input` out; where the step is over before its last stretch, once more without it.
model::Result<StepFlows> settled_flows(StepFlowsInput& input, ChangingNetwork& network,
                                       const FlowNet& net, DataflowEvaluator& evaluator) {
  MEGATWIN_TRY(StepFlows flows, run_step_flows(input, network, net));
  if (auto fault = endless_traffic(flows.costs)) return model::fail(*std::move(fault));
  const Instant makespan{evaluator.makespan(input.compiled, flows.costs)};
  const Instant last = input.stretches.back().from;
  if (last == Instant{} || last < makespan) return flows;
  // What comes after the step has no part in it.
  input.sized_until = makespan;
  MEGATWIN_TRY(flows, run_step_flows(input, network, net));
  if (auto fault = endless_traffic(flows.costs)) return model::fail(*std::move(fault));
  evaluator.makespan(input.compiled, flows.costs);
  return flows;
}

}  // namespace

model::Result<NetworkStep> network_step(const NetworkStepInput& input,
                                        const StepRunOptions& options) {
  const Job& job = input.priced;
  MEGATWIN_TRY(ChangingNetwork network, ChangingNetwork::build(input.placed));
  const std::unique_ptr<FlowNet> net = flow_net(job.network);
  const GroupAlgorithms algorithms(job, input.program);
  MEGATWIN_TRY(Contentions contention, contentions_of(input, network, *net, algorithms));
  std::vector<StepStretch> stretches;
  for (std::size_t k = 0; k < network.size(); ++k) {
    MEGATWIN_TRY(StepStretch stretch,
                 priced_stretch(input, input.stretches[k], *contention.by_stretch[k], algorithms));
    stretches.push_back(std::move(stretch));
  }
  const auto compiled = compiled_for(input.program.spec, options.cache);
  StepFlowsInput laid_out{.job = job,
                          .compiled = *compiled,
                          .stretches = std::move(stretches),
                          .message = model::pipeline_message(model::lowering_input(job)),
                          .algorithms = algorithms};
  DataflowEvaluator evaluator;
  MEGATWIN_TRY(StepFlows flows, settled_flows(laid_out, network, *net, evaluator));
  std::vector<const policies::Order*> orders;
  for (std::size_t unit = 0; unit < flows.costs.num_units(); ++unit) {
    orders.push_back(&compiled->orders[unit % compiled->orders.size()]);
  }
  NetworkStep step{.flows = flows.flows,
                   .closed_form = flows.closed_form,
                   .contention = std::move(contention.by_stretch)};
  step.result = analyse_step({.costs = flows.costs,
                              .rows = {&compiled->rows},
                              .times = evaluator.times(),
                              .orders = orders,
                              .multiplicities = std::vector<int>(as_index(job.plan.data), 1),
                              .timeline = options.timeline});
  step.links =
      with_group_links(std::move(flows.links), std::move(contention.links), step.result.makespan);
  std::vector<bool>& used = contention.used;
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = used[i] || flows.used[i];
  step.sends_over = sends_over(input.named, network.at(0).planned(), used);
  show_planned_width(network.at(0).planned(), step.links);
  step.notes = notes_of(input, network, step.result.makespan);
  return step;
}

model::JobProgram program_of_replica(const NetworkStepInput& input, const NetworkStep& step,
                                     int replica) {
  std::vector<StretchPrices> prices;
  const GroupAlgorithms algorithms(input.priced, input.program);
  for (std::size_t k = 0; k < step.contention.size(); ++k) {
    prices.push_back({input.stretches[k].from, DelayedProgram({.job = input.priced,
                                                               .effects = input.effects,
                                                               .plain = input.program,
                                                               .contention = *step.contention[k],
                                                               .algorithms = algorithms})
                                                   .of_replica(replica)});
  }
  return prices.size() == 1 ? std::move(prices.front().program)
                            : mean_prices(prices, step.result.makespan);
}

}  // namespace megatwin::sim
