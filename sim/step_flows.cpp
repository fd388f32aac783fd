#include "sim/step_flows.h"

#include <algorithm>
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
  StepFlowBuilder(const StepFlowsInput& input, JobNetwork& network)
      : in_(input),
        costs_(input.costs),
        shape_(input.compiled.shape),
        slots_{shape_},
        layout_(input.job.plan),
        network_(network),
        ways_(network.topology()) {
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
    for (const JobNetwork::Background& other : network_.background()) {
      background_.push_back(ways_.add(other.route, other.rate,
                                      {.kind = FlowUser::Kind::Background, .rank = other.from}));
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
    if (in_.traffic.empty()) return faults;
    auto lanes = TaskLanes::add(in_.job, in_.traffic_rates, network_, ways_);
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
      MEGATWIN_TRY(const JobNetwork::Way way, network_.way({from_ranks[i], to_ranks[i]}));
      const double moving = in_seconds(alone).value - way.route.latency.value;
      const BytesPerSecond own{moving > 0 ? in_.message.value / moving : way.undisturbed.value};
      hops_[hop_index(hop, replica)].push_back(
          ways_.add(way.route, std::min(own, way.undisturbed),
                    {.kind = hop.kind == SendKind::Activation ? FlowUser::Kind::Activation
                                                              : FlowUser::Kind::Gradient,
                     .stage = stage,
                     .replica = replica,
                     .rank = from_ranks[i]}));
    }
    return true;
  }

  // The rings of every data-parallel group of a stage.
  model::Result<bool> add_rings(int stage) {
    const BytesPerSecond rate = in_.ring_rate[as_index(stage)];
    if (rate.value <= 0 || costs_.num_classes * in_.job.plan.context < 2) return true;
    for (int tensor = 0; tensor < in_.job.plan.tensor; ++tensor) {
      const RankId first = layout_.rank_at(RankCoordinates{.tensor = tensor, .pipeline = stage});
      for (const GroupLane& lane :
           ring_lanes(network_, layout_.members(GroupKind::Data, first), rate)) {
        MEGATWIN_TRY(const JobNetwork::Way way, network_.way(lane.key));
        rings_[as_index(stage)].push_back(
            ways_.add(way.route, std::min(lane.rate, way.undisturbed),
                      {.kind = FlowUser::Kind::Group, .stage = stage, .rank = lane.key.from}));
      }
    }
    return true;
  }

  void add_background() {
    Nanoseconds work = 1;
    for (const auto& duration : costs_.task) work = std::max(work, duration);
    const double step = in_seconds(work).value * shape_.num_tasks() * shape_.pipeline;
    for (const CappedWays::Handle handle : background_) {
      ways_.add_flow(flows_, handle, Seconds{kOutlasts * step}, {});
    }
  }

  // One message or collective: flows that can be delayed, and one that stands for all the others.
  FlowIndex add_transfer(const Handles& handles, Nanoseconds alone, After after) {
    After ends;
    bool others = handles.empty();
    for (const CappedWays::Handle handle : handles) {
      if (!ways_.contended(handle)) {
        others = true;
        continue;
      }
      ends.push_back(ways_.add_flow(flows_, handle, in_seconds(alone), after));
    }
    num_flows_ += std::ssize(ends);
    if (ends.empty()) ++num_closed_;
    if (others) {
      ends.push_back(flows_.add_on({.latency = in_seconds(alone), .after = std::move(after)}, 0));
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
      const Nanoseconds alone = costs_.gather[costs_.chunk_index(stage, chunk)];
      if (alone > 0) {
        const FlowIndex end = add_transfer(rings_[as_index(stage)], alone, only({last}));
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
    const Nanoseconds* durations = costs_.task.data() + as_index(replica) * costs_.class_stride();
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
          shares(unit, step)
              ? add_shared_task(unit, step, first, durations[step.cost], std::move(ready))
              : flows_.add_on(
                    {.latency = in_seconds(durations[step.cost]), .after = std::move(ready)}, 0);
      lane = task;
      end_[first + step.slot] = task;
      if (step.send == 0) continue;
      const Nanoseconds alone = costs_.class_sends(replica)[step.send];
      FlowIndex& queue = send_last[step.send_lane];
      const FlowIndex before = costs_.overlap_p2p && queue >= 0
                                   ? flows_.add_on({.after = only({task, queue})}, 0)
                                   : task;
      const FlowIndex end =
          alone == 0 ? before
                     : add_transfer(hops_[hop_of_row[row_of(step)]], alone, only({before}));
      sent_[first + step.slot] = {before, end};
      arrival_[first + step.slot] = end;
      (costs_.overlap_p2p ? queue : lane) = end;
    }
  }

  // Units whose collectives inside tasks can meet other traffic.
  void find_shared_units() {
    if (in_.traffic.empty()) return;
    for (std::size_t unit = 0; unit < costs_.num_units(); ++unit) {
      shared_.push_back(task_lanes_.contended(unit, ways_));
    }
    if (std::find(shared_.begin(), shared_.end(), true) == shared_.end()) shared_.clear();
    if (!shared_.empty()) tasks_.assign(arrival_.size(), {-1, -1});
  }

  bool shares(std::size_t unit, const CompiledPipeline::Step& step) const {
    return !shared_.empty() && shared_[unit] && in_.traffic[step.cost].total() > 0;
  }

  // Its compute, then its collectives, each as long as alone unless somebody else sends.
  FlowIndex add_shared_task(std::size_t unit, const CompiledPipeline::Step& step, std::size_t first,
                            Nanoseconds duration, After ready) {
    const TaskTraffic& traffic = in_.traffic[step.cost];
    const FlowIndex before = flows_.add_on({.after = std::move(ready)}, 0);
    FlowIndex now =
        flows_.add_on({.latency = in_seconds(duration - traffic.total()), .after = {before}}, 0);
    for (std::size_t kind = 0; kind < kTaskTrafficKinds; ++kind) {
      if (traffic.exposed[kind] == 0) continue;
      now = add_transfer(task_lanes_.of(unit, kind), traffic.exposed[kind], {now});
    }
    tasks_[first + step.slot] = {before, now};
    return now;
  }

  void add_reduces(int stage) {
    const auto last_slot = slots_.task(stage, in_.compiled.orders[as_index(stage)].back());
    FlowIndex last = -1;
    for (const auto& [chunk, slot] : in_.compiled.chunk_ends[as_index(stage)]) {
      const Nanoseconds alone = costs_.reduce[costs_.chunk_index(stage, chunk.value)];
      if (alone == 0) continue;
      After ready = only({last});
      for (int k = 0; k < costs_.num_classes; ++k) {
        ready.push_back(
            end_[as_index(k) * slots_.size() + (costs_.overlap_grad_reduce ? slot : last_slot)]);
      }
      const FlowIndex before = flows_.add_on({.after = std::move(ready)}, 0);
      last = add_transfer(rings_[as_index(stage)], alone, {before});
      reduces_[costs_.chunk_index(stage, chunk.value)] = {before, last};
    }
  }

  static Nanoseconds duration(const Span& span, const std::vector<Seconds>& finish) {
    const Seconds before = span.before < 0 ? Seconds{} : finish[as_index(span.before)];
    return model::round_to_instant(finish[as_index(span.end)] - before).ns;
  }

  StepFlows result(const std::vector<Seconds>& finish) const {
    StepFlows out{.costs = costs_, .flows = num_flows_, .closed_form = num_closed_};
    for (const auto& [index, span] : gathers_) out.costs.gather[index] = duration(span, finish);
    for (const auto& [index, span] : reduces_) out.costs.reduce[index] = duration(span, finish);
    out.costs.send_by_slot.assign(sent_.size(), 0);
    for (std::size_t slot = 0; slot < sent_.size(); ++slot) {
      if (sent_[slot].end >= 0 && sent_[slot].end != sent_[slot].before) {
        out.costs.send_by_slot[slot] = duration(sent_[slot], finish);
      }
    }
    if (!tasks_.empty()) put_task_durations(finish, out.costs);
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
    for (int k = 0; k < costs_.num_classes; ++k) {
      const std::size_t first = as_index(k) * slots_.size();
      const Nanoseconds* alone = costs_.task.data() + as_index(k) * costs_.class_stride();
      for (const CompiledPipeline::Step& step : in_.compiled.steps) {
        const Span& task = tasks_[first + step.slot];
        costs.task_by_slot[first + step.slot] =
            task.end < 0 ? alone[step.cost] : duration(task, finish);
      }
    }
  }

  const StepFlowsInput& in_;
  const PipelineCosts& costs_;
  const model::PipelineShape& shape_;
  SlotLayout slots_;
  RankLayout layout_;
  JobNetwork& network_;
  CappedWays ways_;
  FlowSet flows_{std::vector<BytesPerSecond>{}};
  Handles background_;
  std::vector<Handles> hops_;   // By unit and kind.
  std::vector<Handles> rings_;  // By stage.
  TaskLanes task_lanes_;
  std::vector<bool> shared_;  // By unit; empty where none is.
  std::vector<FlowIndex> lane_last_;
  std::vector<FlowIndex> arrival_, end_;  // By slot, class by class.
  std::vector<Span> sent_;
  std::vector<Span> tasks_;                        // Of shared units; empty where none is.
  std::map<std::size_t, Span> gathers_, reduces_;  // By chunk index.
  std::int64_t num_flows_ = 0, num_closed_ = 0;
};

}  // namespace

model::Result<StepFlows> run_step_flows(const StepFlowsInput& input, JobNetwork& network,
                                        const FlowNet& net) {
  return StepFlowBuilder(input, network).run(net);
}

}  // namespace megatwin::sim
