#include "sim/step_flows.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "model/assert.h"
#include "model/numbers.h"
#include "model/program/program_builder.h"
#include "sim/group_lanes.h"

namespace megatwin::sim {
namespace {

using model::as_index;
using model::BytesPerSecond;
using model::GroupKind;
using model::RankCoordinates;
using model::RankId;
using model::RankLayout;
using model::Seconds;

using Handles = std::vector<CappedWays::Handle>;
using After = std::vector<FlowIndex>;

constexpr std::size_t kLinksOfStep = 8;
// Another job's traffic outlasts any step that it slows less than this many times.
constexpr double kOutlasts = 1000;

Seconds in_seconds(Nanoseconds ns) { return model::to_seconds(model::Instant{ns}); }

class StepFlowBuilder {
 public:
  StepFlowBuilder(const StepFlowsInput& input, ChangingNetwork& network)
      : in_(input),
        costs_(input.stretches.front().costs),
        shape_(input.compiled.shape),
        slots_{shape_},
        layout_(input.job.plan),
        network_(network),
        ways_(stretches_of(network), input.sized_until) {
    MEGATWIN_ASSERT(input.stretches.size() == network.size(), input.stretches.size());
    MEGATWIN_ASSERT(!costs_.slows_down(), "compute slowed by traffic is not laid out as flows");
    MEGATWIN_ASSERT(costs_.num_classes == input.job.plan.data, costs_.num_classes);
  }

  model::Result<StepFlows> run(const FlowNet& net) {
    if (auto faults = add_users(); !faults.empty()) return model::fail(std::move(faults));
    flows_ = ways_.settle();
    add_background();
    lane_last_.assign(costs_.num_units(), -1);
    arrival_.assign(as_index(costs_.num_classes) * slots_.size(), -1);
    end_ = arrival_;
    sent_.assign(arrival_.size(), {-1, -1});
    find_shared_units();
    for (int stage = 0; stage < shape_.pipeline; ++stage) add_gathers(stage);
    for (int k = 0; k < costs_.num_classes; ++k) add_tasks(k);
    for (int stage = 0; stage < shape_.pipeline; ++stage) add_reduces(stage);
    ways_.add_changes(flows_);
    MEGATWIN_TRY(const std::vector<Seconds> finish, net.finish_times(flows_));
    return result(finish);
  }

 private:
  // Who may ever send, so that links that suffice for all are known before the first flow.
  model::Diagnostics add_users() {
    model::Diagnostics faults;
    const auto collect = [&](auto&& result) {
      if (!result && faults.size() < 8) {
        faults.insert(faults.end(), result.error().begin(), result.error().end());
      }
      return result.has_value();
    };
    for (std::size_t d = 0; d < in_.job.disturbances.size(); ++d) add_other_job(d);
    for (std::size_t unit = 0; num_stretches() > 1 && unit < costs_.num_units(); ++unit) {
      lone_.push_back(ways_.add_lone());
    }
    for (int stage = 0; num_stretches() > 1 && stage < shape_.pipeline; ++stage) {
      stage_lone_.push_back(ways_.add_lone());
    }
    hops_.resize(costs_.num_units() * 4);
    rings_.resize(as_index(shape_.pipeline));
    for (int stage = 0; stage < shape_.pipeline; ++stage) {
      for (int k = 0; k < costs_.num_classes; ++k) {
        for (int row = 0; row < shape_.num_rows(); ++row) {
          if (!collect(add_hop(stage, k, row))) return faults;
        }
      }
      if (!collect(add_rings(stage))) return faults;
    }
    if (in_.stretches.front().traffic.empty()) return faults;
    std::vector<TaskTrafficRates> rates;
    for (const StepStretch& stretch : in_.stretches) rates.push_back(stretch.traffic_rates);
    const std::int64_t tasks = std::int64_t{shape_.num_tasks()};
    auto lanes = TaskLanes::add(in_.job, rates, in_.algorithms, tasks, network_, ways_);
    if (collect(lanes)) task_lanes_ = *std::move(lanes);
    return faults;
  }

  // Ranks of a unit: its tensor- and context-parallel members.
  std::vector<RankId> ranks_of(int stage, int replica) const {
    std::vector<RankId> ranks;
    const model::Plan& plan = in_.job.plan;
    for (int context = 0; context < plan.context; ++context) {
      for (int tensor = 0; tensor < plan.tensor; ++tensor) {
        ranks.push_back(layout_.rank_at(RankCoordinates{
            .tensor = tensor, .context = context, .data = replica, .pipeline = stage}));
      }
    }
    return ranks;
  }

  // Where the messages of a row of tasks go, and as what; to -1 when they send none.
  struct Hop {
    int to = -1;
    SendKind kind = SendKind::None;
    std::size_t index = 0;   // Into hops_, of replica 0.
    std::uint16_t send = 0;  // Into PipelineCosts::class_sends().
  };
  Hop hop_of(int stage, int row) const {
    const model::TaskId first{row * shape_.micro_batches};
    const model::Task task = shape_.task(first);
    const auto message = model::sent_message(shape_, {stage}, task);
    if (!message.exists() || message.stage.value == stage) return {};
    const bool forward = task.kind == model::TaskKind::Forward;
    const bool next = message.stage.value == (stage + 1) % shape_.pipeline;
    return {.to = message.stage.value,
            .kind = forward ? SendKind::Activation : SendKind::Gradient,
            .index = 4 * as_index(stage) + (forward ? 0U : 2U) + (next ? 0U : 1U),
            .send = in_.compiled.rows.row(stage, in_.compiled.rows.place(first)).send_cost};
  }
  std::size_t hop_index(const Hop& hop, int replica) const {
    return hop.index + 4 * costs_.unit(replica, 0);
  }

  model::Result<bool> add_hop(int stage, int replica, int row) {
    const Hop hop = hop_of(stage, row);
    if (hop.to < 0 || !hops_[hop_index(hop, replica)].empty()) return true;
    const Nanoseconds alone = costs_.class_sends(replica)[hop.send];
    if (alone == 0) return true;
    const std::vector<RankId> from_ranks = ranks_of(stage, replica),
                              to_ranks = ranks_of(hop.to, replica);
    for (std::size_t i = 0; i < from_ranks.size(); ++i) {
      MEGATWIN_TRY([[maybe_unused]] const bool added,
                   add_message(hop, stage, replica, in_seconds(alone), from_ranks[i], to_ranks[i]));
    }
    return true;
  }

  // In equal parts over the adapters that the sender has to itself.
  model::Result<bool> add_message(const Hop& hop, int stage, int replica, Seconds alone,
                                  RankId from, RankId to) {
    const JobNetwork& network = network_.at(0);
    const bool leaves = network.machine_of(from) != network.machine_of(to);
    const int parts = leaves ? network.adapter_lanes(from) : 1;
    const FlowUser user{.kind = hop.kind == SendKind::Activation ? FlowUser::Kind::Activation
                                                                 : FlowUser::Kind::Gradient,
                        .stage = stage,
                        .replica = replica,
                        .rank = from};
    for (int adapter = 0; adapter < parts; ++adapter) {
      MEGATWIN_TRY(std::vector<JobNetwork::Way> ways, network_.ways({from, to, 0, adapter}));
      std::vector<CappedWays::Way> by_stretch;
      for (std::size_t k = 0; k < ways.size(); ++k) {
        JobNetwork::Way& way = ways[k];
        const double uptime = uptime_of(network_.at(k).topology(), way.route);
        const Seconds moving = alone - way.route.latency;
        const BytesPerSecond own =
            moving.value > 0 ? 1.0 / parts * in_.message / moving : way.undisturbed;
        by_stretch.push_back({std::move(way.route), std::min(own, way.undisturbed), uptime});
      }
      hops_[hop_index(hop, replica)].push_back(ways_.add(by_stretch, user));
    }
    return true;
  }

  // The collectives of every data-parallel group of a stage.
  model::Result<bool> add_rings(int stage) {
    const BytesPerSecond rate = in_.stretches.front().ring_rate[as_index(stage)];
    if (rate.value <= 0 || costs_.num_classes * in_.job.plan.context < 2) return true;
    for (int tensor = 0; tensor < in_.job.plan.tensor; ++tensor) {
      const RankId first = layout_.rank_at(RankCoordinates{.tensor = tensor, .pipeline = stage});
      MEGATWIN_TRY(const GroupLanes group,
                   group_lanes(network_.at(0), layout_.members(GroupKind::Data, first),
                               in_.algorithms.of(GroupKind::Data), rate));
      ChangingLaneRoutes routes(network_, group.pattern);
      for (const GroupLane& lane : group.lanes) {
        // The first as it is, so that a step without changes has the bits of its rate.
        const double share = ratio(lane.rate / rate);
        MEGATWIN_TRY(
            const std::vector<CappedWays::Way> by_stretch, routes.ways(lane, [&](std::size_t k) {
              return k == 0 ? lane.rate : share * in_.stretches[k].ring_rate[as_index(stage)];
            }));
        rings_[as_index(stage)].push_back(ways_.add(
            by_stretch, {.kind = FlowUser::Kind::Group, .stage = stage, .rank = lane.key.from}));
      }
    }
    return true;
  }

  static std::vector<NetworkStretch> stretches_of(ChangingNetwork& network) {
    std::vector<NetworkStretch> stretches;
    for (std::size_t k = 0; k < network.size(); ++k) {
      stretches.push_back({network.starts()[k], &network.at(k).topology()});
    }
    return stretches;
  }
  std::size_t num_stretches() const { return in_.stretches.size(); }

  // The user that a disturbance brings in, in the stretches in which it holds.
  void add_other_job(std::size_t disturbance) {
    std::vector<CappedWays::Way> by_stretch(num_stretches());
    FlowUser user{.kind = FlowUser::Kind::Background};
    bool any = false;
    for (std::size_t k = 0; k < num_stretches(); ++k) {
      for (const JobNetwork::Background& other : network_.at(k).background()) {
        if (other.disturbance != disturbance) continue;
        by_stretch[k] = {other.route, other.rate,
                         uptime_of(network_.at(k).topology(), other.route)};
        user.rank = other.from;
        any = true;
      }
    }
    if (any) background_.push_back(ways_.add(by_stretch, user));
  }

  void add_background() {
    Nanoseconds work = 1;
    for (const auto& duration : costs_.task) work = std::max(work, duration);
    const double step = in_seconds(work).value * shape_.num_tasks() * shape_.pipeline;
    for (const CappedWays::Handle handle : background_) {
      ways_.add_flow(flows_, handle, Seconds{kOutlasts * step}, {});
    }
  }

  // A duration by stretch; one stands for all.
  using Alone = std::vector<Seconds>;
  template <class NanosecondsIn>
  Alone in_stretches(NanosecondsIn nanoseconds_in) const {
    Alone alone;
    for (const StepStretch& stretch : in_.stretches) {
      alone.push_back(in_seconds(nanoseconds_in(stretch)));
    }
    const bool same = std::all_of(alone.begin(), alone.end(),
                                  [&](Seconds time) { return time == alone.front(); });
    if (same) alone.resize(1);
    return alone;
  }

  static bool takes_time(const Alone& alone) { return alone.size() > 1 || alone.front().value > 0; }
  static CappedWays::Handle idle_of(const Handles& lone, std::size_t index) {
    return lone.empty() ? -1 : lone[index];
  }

  // Work on a handle, which no link need hold.
  FlowIndex add_work(CappedWays::Handle handle, const Alone& alone, After after) {
    if (alone.size() > 1) {
      return ways_.add_changing_flow(flows_, handle, alone, std::move(after));
    }
    return ways_.add_flow(flows_, handle, alone.front(), std::move(after));
  }
  FlowIndex add_compute(std::size_t unit, const Alone& alone, After after) {
    if (alone.size() > 1) return add_work(lone_[unit], alone, std::move(after));
    return flows_.add_on({.latency = alone.front(), .after = std::move(after)}, 0);
  }

  // One message or collective: flows that can be delayed, and one that stands for all the others.
  // `idle`: of whoever runs it, for what changes without a link to hold it.
  FlowIndex add_transfer(const Handles& handles, const Alone& alone, After after,
                         CappedWays::Handle idle = -1) {
    After ends;
    bool others = handles.empty();
    for (const CappedWays::Handle handle : handles) {
      if (!ways_.contended(handle)) {
        others = true;
        continue;
      }
      ends.push_back(add_work(handle, alone, after));
    }
    num_flows_ += std::ssize(ends);
    if (ends.empty()) ++num_closed_;
    if (others) {
      ends.push_back(alone.size() > 1
                         ? add_work(idle, alone, std::move(after))
                         : flows_.add_on({.latency = alone.front(), .after = std::move(after)}, 0));
    }
    return ends.size() == 1 ? ends.front() : flows_.add_on({.after = std::move(ends)}, 0);
  }

  static After only(std::initializer_list<FlowIndex> flows) {
    After after;
    for (const FlowIndex flow : flows) {
      if (flow >= 0 && std::find(after.begin(), after.end(), flow) == after.end()) {
        after.push_back(flow);
      }
    }
    return after;
  }

  std::size_t row_of(const CompiledPipeline::Step& step) const {
    const std::size_t task = step.slot - slots_.task(step.stage, {0});
    return as_index(step.stage) * as_index(shape_.num_rows()) +
           task / as_index(shape_.micro_batches);
  }

  // Before and end of a transfer: its duration is what lies between them.
  struct Span {
    FlowIndex before, end;
  };

  void add_gathers(int stage) {
    FlowIndex last = -1;
    std::vector<FlowIndex> ends;
    for (int chunk = 0; chunk < shape_.model_chunks; ++chunk) {
      const Alone alone = in_stretches([&](const StepStretch& stretch) {
        return stretch.costs.gather[costs_.chunk_index(stage, chunk)];
      });
      if (takes_time(alone)) {
        const FlowIndex end = add_transfer(rings_[as_index(stage)], alone, only({last}),
                                           idle_of(stage_lone_, as_index(stage)));
        gathers_[costs_.chunk_index(stage, chunk)] = {last, end};
        last = end;
      }
      ends.push_back(last);
    }
    if (!costs_.overlap_param_gather) ends.assign(ends.size(), last);
    for (int k = 0; k < costs_.num_classes; ++k) {
      for (int chunk = 0; chunk < shape_.model_chunks; ++chunk) {
        arrival_[as_index(k) * slots_.size() + slots_.gather(stage, chunk)] = ends[as_index(chunk)];
      }
    }
  }

  void add_tasks(int replica) {
    const std::size_t first = as_index(replica) * slots_.size();
    const std::size_t first_cost = as_index(replica) * costs_.class_stride();
    std::vector<FlowIndex> send_last(as_index(2 * shape_.pipeline + 1), -1);
    std::vector<std::size_t> hop_of_row;  // By stage and row.
    for (int stage = 0; stage < shape_.pipeline; ++stage) {
      for (int row = 0; row < shape_.num_rows(); ++row) {
        hop_of_row.push_back(hop_index(hop_of(stage, row), replica));
      }
    }
    for (const CompiledPipeline::Step& step : in_.compiled.steps) {
      FlowIndex& lane = lane_last_[costs_.unit(replica, step.stage)];
      After ready = only({lane, step.waits_for == 0 ? -1 : arrival_[first + step.waits_for]});
      const std::size_t unit = costs_.unit(replica, step.stage);
      const FlowIndex task =
          follows_network(unit, step)
              ? add_shared_task(unit, step, first, first_cost + step.cost, std::move(ready))
              : flows_.add_on({.latency = in_seconds(costs_.task[first_cost + step.cost]),
                               .after = std::move(ready)},
                              0);
      lane = task;
      end_[first + step.slot] = task;
      if (step.send == 0) continue;
      const Nanoseconds alone = costs_.class_sends(replica)[step.send];
      FlowIndex& queue = send_last[step.send_lane];
      const FlowIndex before = costs_.overlap_p2p && queue >= 0
                                   ? flows_.add_on({.after = only({task, queue})}, 0)
                                   : task;
      const FlowIndex end = alone == 0 ? before
                                       : add_transfer(hops_[hop_of_row[row_of(step)]],
                                                      {in_seconds(alone)}, only({before}));
      sent_[first + step.slot] = {before, end};
      arrival_[first + step.slot] = end;
      (costs_.overlap_p2p ? queue : lane) = end;
    }
  }

  // Units whose collectives inside tasks can meet other traffic.
  void find_shared_units() {
    if (num_stretches() > 1) tasks_.assign(arrival_.size(), {});
    if (in_.stretches.front().traffic.empty()) return;
    for (std::size_t unit = 0; unit < costs_.num_units(); ++unit) {
      shared_.push_back(task_lanes_.contended(unit, ways_));
    }
    if (std::find(shared_.begin(), shared_.end(), true) == shared_.end()) shared_.clear();
    if (!shared_.empty()) tasks_.assign(arrival_.size(), {});
  }

  const TaskTraffic& traffic_of(std::size_t stretch, std::size_t unit, std::size_t cost) const {
    const std::size_t replica = unit / as_index(shape_.pipeline);
    return in_.stretches[stretch].traffic[replica * costs_.class_stride() + cost];
  }
  bool shares(std::size_t unit, const CompiledPipeline::Step& step) const {
    return !shared_.empty() && shared_[unit] && traffic_of(0, unit, step.cost).total() > 0;
  }
  // Where a task's end is more than its begin and its cost.
  bool follows_network(std::size_t unit, const CompiledPipeline::Step& step) const {
    return num_stretches() > 1 || shares(unit, step);
  }

  // Its compute, then its collectives, each as long as alone unless somebody else sends.
  FlowIndex add_shared_task(std::size_t unit, const CompiledPipeline::Step& step, std::size_t first,
                            std::size_t cost, After ready) {
    const FlowIndex before = flows_.add_on({.after = std::move(ready)}, 0);
    if (!shares(unit, step)) {
      const Alone whole =
          in_stretches([&](const StepStretch& stretch) { return stretch.costs.task[cost]; });
      const FlowIndex end = add_compute(unit, whole, {before});
      tasks_[first + step.slot] = {.before = before, .computed = end, .end = end};
      return end;
    }
    const Alone compute = in_stretches([&](const StepStretch& stretch) {
      return stretch.costs.task[cost] - stretch.traffic[cost].total();
    });
    const FlowIndex computed = add_compute(unit, compute, {before});
    FlowIndex now = computed;
    TaskSpan& span = tasks_[first + step.slot];
    for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
      if (in_.stretches.front().traffic[cost].exposed[kind] == 0) continue;
      const Alone exposed = in_stretches(
          [&](const StepStretch& stretch) { return stretch.traffic[cost].exposed[kind]; });
      now = add_transfer(task_lanes_.of(unit, kind), exposed, {now}, idle_of(lone_, unit));
      span.sent[kind] = now;
    }
    span.before = before;
    span.computed = computed;
    span.end = now;
    return now;
  }

  void add_reduces(int stage) {
    const auto last_slot = slots_.task(stage, in_.compiled.orders[as_index(stage)].back());
    FlowIndex last = -1;
    for (const auto& [chunk, slot] : in_.compiled.chunk_ends[as_index(stage)]) {
      const Alone alone = in_stretches([&, &chunk = chunk](const StepStretch& stretch) {
        return stretch.costs.reduce[costs_.chunk_index(stage, chunk.value)];
      });
      if (!takes_time(alone)) continue;
      After ready = only({last});
      for (int k = 0; k < costs_.num_classes; ++k) {
        ready.push_back(
            end_[as_index(k) * slots_.size() + (costs_.overlap_grad_reduce ? slot : last_slot)]);
      }
      const FlowIndex before = flows_.add_on({.after = std::move(ready)}, 0);
      last = add_transfer(rings_[as_index(stage)], alone, {before},
                          idle_of(stage_lone_, as_index(stage)));
      reduces_[costs_.chunk_index(stage, chunk.value)] = {before, last};
    }
  }

  static Nanoseconds duration(const Span& span, const std::vector<Seconds>& finish) {
    const Seconds before = span.before < 0 ? Seconds{} : finish[as_index(span.before)];
    return model::round_to_instant(finish[as_index(span.end)] - before).ns;
  }

  StepFlows result(const std::vector<Seconds>& finish) const {
    StepFlows out{
        .costs = costs_, .used = ways_.used(), .flows = num_flows_, .closed_form = num_closed_};
    for (const auto& [index, span] : gathers_) out.costs.gather[index] = duration(span, finish);
    for (const auto& [index, span] : reduces_) out.costs.reduce[index] = duration(span, finish);
    out.costs.send_by_slot.assign(sent_.size(), 0);
    for (std::size_t slot = 0; slot < sent_.size(); ++slot) {
      if (sent_[slot].end >= 0 && sent_[slot].end != sent_[slot].before) {
        out.costs.send_by_slot[slot] = duration(sent_[slot], finish);
      }
    }
    if (!tasks_.empty()) put_task_durations(finish, out.costs);
    for (std::size_t k = 1; k < num_stretches(); ++k) {
      out.costs.changes.push_back(
          {.at = in_.stretches[k].from.ns, .optimizer = in_.stretches[k].costs.optimizer});
    }
    Seconds span;
    for (const FlowIndex flow : end_) {
      if (flow >= 0) span = std::max(span, finish[as_index(flow)]);
    }
    for (const auto& [index, reduce] : reduces_) {
      span = std::max(span, finish[as_index(reduce.end)]);
    }
    out.links = ways_.loads(flows_, finish, span, kLinksOfStep);
    return out;
  }

  void put_task_durations(const std::vector<Seconds>& finish, PipelineCosts& costs) const {
    costs.task_by_slot.assign(tasks_.size(), 0);
    costs.delay_by_slot.assign(tasks_.size(), {});
    for (int k = 0; k < costs_.num_classes; ++k) {
      const std::size_t first = as_index(k) * slots_.size();
      const Nanoseconds* alone = costs_.task.data() + as_index(k) * costs_.class_stride();
      for (const CompiledPipeline::Step& step : in_.compiled.steps) {
        const TaskSpan& task = tasks_[first + step.slot];
        if (task.end < 0) {
          costs.task_by_slot[first + step.slot] = alone[step.cost];
          continue;
        }
        costs.task_by_slot[first + step.slot] = duration({task.before, task.end}, finish);
        if (task.computed == task.end) continue;
        const TaskTraffic& traffic = traffic_of(0, costs_.unit(k, step.stage), step.cost);
        FlowIndex last = task.computed;
        for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
          if (traffic.exposed[kind] == 0) continue;
          costs.delay_by_slot[first + step.slot][kind] =
              duration({last, task.sent[kind]}, finish) - traffic.exposed[kind];
          last = task.sent[kind];
        }
      }
    }
  }

  const StepFlowsInput& in_;
  const PipelineCosts& costs_;
  const model::PipelineShape& shape_;
  SlotLayout slots_;
  RankLayout layout_;
  ChangingNetwork& network_;
  CappedWays ways_;
  FlowSet flows_{std::vector<BytesPerSecond>{}};
  Handles background_;
  Handles lone_, stage_lone_;   // By unit, by stage, where anything changes.
  std::vector<Handles> hops_;   // By unit and kind.
  std::vector<Handles> rings_;  // By stage.
  TaskLanes task_lanes_;
  std::vector<bool> shared_;  // By unit; empty where none is.
  std::vector<FlowIndex> lane_last_;
  std::vector<FlowIndex> arrival_, end_;  // By slot, class by class.
  std::vector<Span> sent_;
  struct TaskSpan {
    FlowIndex before = -1, computed = -1, end = -1;
    std::array<FlowIndex, kTaskTrafficKinds> sent{-1, -1, -1};  // By kind, when it is over.
  };
  std::vector<TaskSpan> tasks_;                    // Of shared units; empty where none is.
  std::map<std::size_t, Span> gathers_, reduces_;  // By chunk index.
  std::int64_t num_flows_ = 0, num_closed_ = 0;
};

}  // namespace

model::Result<StepFlows> run_step_flows(const StepFlowsInput& input, ChangingNetwork& network,
                                        const FlowNet& net) {
  return StepFlowBuilder(input, network).run(net);
}

}  // namespace megatwin::sim
