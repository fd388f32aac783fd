#include "sim/decoupled/decoupled_pipeline.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

using model::EventKind;
using model::EventRecord;
using model::Instant;
using model::Lane;
using policies::DecoupledFeed;
using Nanoseconds = std::int64_t;

enum class Event : std::uint8_t {
  Forward,      // A forward may start: its input is there, or the weights are.
  Feed,         // What a backward rank was sent is there.
  Gradient,     // From the next stage.
  WeightInput,  // At a forward rank.
  Released,     // A micro-batch is finished at a backward rank.
  Free,         // The rank's lane, or room at the backward rank.
};

// What is to happen. Equal times go by rank, kind and micro-batch.
struct Pending {
  Nanoseconds time;
  int rank;
  Event event;
  int micro_batch;
  friend bool operator>(const Pending& a, const Pending& b) {
    return std::tie(a.time, a.rank, a.event, a.micro_batch) >
           std::tie(b.time, b.rank, b.event, b.micro_batch);
  }
};

enum SendLane { kPipeline, kAcross, kNumSendLanes };

struct Rank {
  Nanoseconds free = 0;
  Nanoseconds send_free[kNumSendLanes] = {0, 0};
  std::vector<char> there, gradient_there;  // Inputs by micro-batch.
  std::vector<int> weight_tasks;            // Arrived at a forward rank.
  std::size_t weight_tasks_done = 0;
  int next = 0;            // Of its own micro-batches.
  bool ran_again = false;  // The forward of `next`.
  int waiting = 0;
  int finished = 0;  // Micro-batches, at a backward rank.
  Nanoseconds last_end = 0;
};

class Simulation {
 public:
  explicit Simulation(const DecoupledSpec& spec)
      : spec_(spec), num_stages_(static_cast<int>(spec.stages.size())) {
    MEGATWIN_ASSERT(num_stages_ >= 1 && spec.micro_batches >= 1);
    MEGATWIN_ASSERT(spec.forward_instances >= 1 && spec.backward_instances >= 1);
    MEGATWIN_ASSERT(spec.weight_share >= 0 && spec.weight_share <= 1, spec.weight_share);
    const auto num_ranks =
        static_cast<std::size_t>((spec.forward_instances + spec.backward_instances) * num_stages_);
    ranks_.resize(num_ranks);
    result_.ranks.resize(num_ranks);
    for (int rank = 0; rank < static_cast<int>(num_ranks); ++rank) {
      Rank& state = ranks_[static_cast<std::size_t>(rank)];
      const auto m = static_cast<std::size_t>(spec.micro_batches);
      state.there.assign(m, 0);
      state.gradient_there.assign(m, 0);
      DecoupledRank& report = result_.ranks[static_cast<std::size_t>(rank)];
      report.forward_side = is_forward(rank);
      report.stage = {rank % num_stages_};
      report.instance = instance_of(rank);
    }
  }

  DecoupledResult run() {
    for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
      begin(rank);
    }
    while (!pending_.empty()) {
      const Pending now = pending_.top();
      pending_.pop();
      ++result_.events;
      now_ = now.time;
      arrive(now);
      advance(now.rank);
    }
    finish();
    std::stable_sort(result_.timeline.begin(), result_.timeline.end(),
                     [](const EventRecord& a, const EventRecord& b) {
                       return std::tie(a.rank, a.start) < std::tie(b.rank, b.start);
                     });
    return std::move(result_);
  }

 private:
  bool is_forward(int rank) const { return rank < spec_.forward_instances * num_stages_; }
  int instance_of(int rank) const {
    return rank / num_stages_ - (is_forward(rank) ? 0 : spec_.forward_instances);
  }
  int stage_of(int rank) const { return rank % num_stages_; }
  int forward_rank(int micro_batch, int stage) const {
    return micro_batch % spec_.forward_instances * num_stages_ + stage;
  }
  int backward_rank(int micro_batch, int stage) const {
    return (spec_.forward_instances + micro_batch % spec_.backward_instances) * num_stages_ + stage;
  }
  const DecoupledStage& costs(int rank) const {
    return spec_.stages[static_cast<std::size_t>(stage_of(rank))];
  }
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  // Whether the forward side works out the weight gradients.
  bool leaves_weights(int micro_batch) const {
    const auto up_to = [&](int n) { return std::floor(n * spec_.weight_share + 1e-9); };
    return up_to(micro_batch + 1) > up_to(micro_batch);
  }
  bool feeds_input() const { return spec_.feed == DecoupledFeed::StageInput; }

  void begin(int rank) {
    if (is_forward(rank)) {
      // The first stage reads the tokens itself.
      rank_at(rank).free = costs(rank).weights.ns;
      push(costs(rank).weights.ns, rank, Event::Free, 0);
      if (stage_of(rank) == 0) {
        std::fill(rank_at(rank).there.begin(), rank_at(rank).there.end(), 1);
      }
      return;
    }
    if (stage_of(rank) == 0 && feeds_input()) {
      std::fill(rank_at(rank).there.begin(), rank_at(rank).there.end(), 1);
    }
    if (stage_of(rank) == num_stages_ - 1) {
      auto& there = rank_at(rank).gradient_there;
      std::fill(there.begin(), there.end(), 1);
    }
    push(0, rank, Event::Free, 0);
  }

  void push(Nanoseconds time, int rank, Event event, int micro_batch) {
    pending_.push({time, rank, event, micro_batch});
  }

  void arrive(const Pending& now) {
    Rank& rank = rank_at(now.rank);
    const auto index = static_cast<std::size_t>(now.micro_batch);
    switch (now.event) {
      case Event::Forward:
      case Event::Feed:
        rank.there[index] = 1;
        break;
      case Event::Gradient:
        rank.gradient_there[index] = 1;
        break;
      case Event::WeightInput:
        rank.weight_tasks.push_back(now.micro_batch);
        break;
      case Event::Released:
        count_waiting(now.rank, -1);
        ++rank.finished;
        for (int instance = 0; instance < spec_.forward_instances; ++instance) {
          push(now_, forward_rank(instance, stage_of(now.rank)), Event::Free, 0);
        }
        break;
      case Event::Free:
        break;
    }
  }

  void advance(int rank) {
    if (rank_at(rank).free > now_) {
      return;
    }
    is_forward(rank) ? advance_forward(rank) : advance_backward(rank);
  }

  void advance_forward(int rank) {
    Rank& state = rank_at(rank);
    const int micro_batch = state.next * spec_.forward_instances + instance_of(rank);
    if (micro_batch < spec_.micro_batches && state.there[static_cast<std::size_t>(micro_batch)] &&
        has_room(micro_batch, stage_of(rank))) {
      run_forward(rank, micro_batch);
      return;
    }
    if (state.weight_tasks_done < state.weight_tasks.size()) {
      const int weights_of = state.weight_tasks[state.weight_tasks_done++];
      work(rank, EventKind::BackwardWeight, weights_of, costs(rank).weight_on_forward);
    }
  }

  // By place in the order of the backward rank, so that what is on its way has its place and no
  // later micro-batch can take that of an earlier one.
  bool has_room(int micro_batch, int stage) {
    const int most = spec_.stages[static_cast<std::size_t>(stage)].waiting_max;
    const Rank& dual = rank_at(backward_rank(micro_batch, stage));
    return feeds_input() || most == 0 ||
           micro_batch / spec_.backward_instances - dual.finished < most;
  }

  void run_forward(int rank, int micro_batch) {
    const int stage = stage_of(rank);
    const int dual = backward_rank(micro_batch, stage);
    ++rank_at(rank).next;
    if (!feeds_input()) {
      count_waiting(dual, 1);
    }
    const Nanoseconds start = now_;
    const Nanoseconds end = work(rank, EventKind::Forward, micro_batch, costs(rank).forward);
    if (stage + 1 < num_stages_) {
      push(send(rank, kPipeline, end, costs(rank).send_activation),
           forward_rank(micro_batch, stage + 1), Event::Forward, micro_batch);
    }
    if (feeds_input() && stage == 0) {
      return;
    }
    // The input is there when the forward starts; what it saves, when it ends.
    push(send(rank, kAcross, feeds_input() ? start : end, costs(rank).feed), dual, Event::Feed,
         micro_batch);
  }

  void count_waiting(int rank, int change) {
    Rank& state = rank_at(rank);
    state.waiting += change;
    int& most = result_.ranks[static_cast<std::size_t>(rank)].waiting_max;
    most = std::max(most, state.waiting);
  }

  void advance_backward(int rank) {
    Rank& state = rank_at(rank);
    const int micro_batch = state.next * spec_.backward_instances + instance_of(rank);
    const auto index = static_cast<std::size_t>(micro_batch);
    if (micro_batch >= spec_.micro_batches || !state.there[index]) {
      return;
    }
    if (feeds_input() && !state.ran_again) {
      state.ran_again = true;
      count_waiting(rank, 1);
      work(rank, EventKind::Recompute, micro_batch, costs(rank).again);
      return;
    }
    if (state.gradient_there[index]) {
      run_backward(rank, micro_batch);
    }
  }

  void run_backward(int rank, int micro_batch) {
    Rank& state = rank_at(rank);
    const int stage = stage_of(rank);
    const bool without_weights = leaves_weights(micro_batch);
    ++state.next;
    state.ran_again = false;
    const Nanoseconds end =
        work(rank, without_weights ? EventKind::BackwardInput : EventKind::Backward, micro_batch,
             without_weights ? costs(rank).backward_input : costs(rank).backward);
    if (stage > 0) {
      push(send(rank, kPipeline, end, costs(rank).send_gradient),
           backward_rank(micro_batch, stage - 1), Event::Gradient, micro_batch);
    }
    if (without_weights) {
      push(send(rank, kAcross, end, costs(rank).weight_input), forward_rank(micro_batch, stage),
           Event::WeightInput, micro_batch);
    }
    push(end, rank, Event::Released, micro_batch);
  }

  // Runs a task from now on; its end.
  Nanoseconds work(int rank, EventKind kind, int micro_batch, Instant duration) {
    Rank& state = rank_at(rank);
    MEGATWIN_ASSERT(duration.ns >= 0, duration.ns);
    state.free = now_ + duration.ns;
    state.last_end = state.free;
    result_.ranks[static_cast<std::size_t>(rank)].busy += duration;
    if (duration.ns > 0) {
      result_.timeline.push_back(
          {{rank}, Lane::Compute, kind, {micro_batch}, {0}, {now_}, {state.free}});
    }
    push(state.free, rank, Event::Free, 0);
    return state.free;
  }

  Nanoseconds send(int rank, SendLane lane, Nanoseconds ready, Instant duration) {
    Nanoseconds& free = rank_at(rank).send_free[lane];
    free = std::max(free, ready) + duration.ns;
    return free;
  }

  // Gradients of the forward side cross, all instances reduce, the backward ranks step.
  void finish() {
    for (int stage = 0; stage < num_stages_; ++stage) {
      Nanoseconds gradients = 0;
      for (int rank = stage; rank < std::ssize(ranks_); rank += num_stages_) {
        Rank& state = rank_at(rank);
        MEGATWIN_ASSERT(state.next == share_of(rank), "rank ", rank, " ran ", state.next, " of ",
                        share_of(rank));
        Nanoseconds there = state.last_end;
        if (is_forward(rank) && !state.weight_tasks.empty()) {
          there = send(rank, kAcross, state.last_end, costs(rank).gradients);
        }
        if (!is_forward(rank) || !state.weight_tasks.empty()) {
          gradients = std::max(gradients, there);
        }
        result_.ranks[static_cast<std::size_t>(rank)].finish = {there};
      }
      for (int rank = spec_.forward_instances * num_stages_ + stage; rank < std::ssize(ranks_);
           rank += num_stages_) {
        const Instant end{gradients + costs(rank).reduce.ns + costs(rank).optimizer.ns};
        result_.ranks[static_cast<std::size_t>(rank)].finish = end;
        result_.makespan = std::max(result_.makespan, end);
      }
    }
  }

  // Micro-batches of a rank.
  int share_of(int rank) const {
    const int instances = is_forward(rank) ? spec_.forward_instances : spec_.backward_instances;
    return (spec_.micro_batches - instance_of(rank) + instances - 1) / instances;
  }

  const DecoupledSpec& spec_;
  int num_stages_;
  Nanoseconds now_ = 0;
  std::vector<Rank> ranks_;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
  DecoupledResult result_;
};

}  // namespace

double DecoupledResult::busy_share(bool forward_side) const {
  double busy = 0;
  double all = 0;
  for (const DecoupledRank& rank : ranks) {
    if (rank.forward_side != forward_side) {
      continue;
    }
    busy += static_cast<double>(rank.busy.ns);
    all += static_cast<double>(makespan.ns);
  }
  return busy / all;
}

DecoupledResult simulate_decoupled(const DecoupledSpec& spec) { return Simulation(spec).run(); }

double balanced_weight_share(const DecoupledSpec& spec) {
  const double a = spec.forward_instances;
  const double b = spec.backward_instances;
  const bool again = spec.feed == DecoupledFeed::StageInput;
  double share = 0;
  double busiest = -1;
  for (const DecoupledStage& stage : spec.stages) {
    const auto ns = [](Instant instant) { return static_cast<double>(instant.ns); };
    const double forward_side = ns(stage.forward) / a;
    const double backward_side = (ns(stage.backward) + (again ? ns(stage.again) : 0)) / b;
    const double moved =
        ns(stage.weight_on_forward) / a + (ns(stage.backward) - ns(stage.backward_input)) / b;
    if (backward_side <= busiest || moved <= 0) {
      continue;
    }
    busiest = backward_side;
    share = std::clamp((backward_side - forward_side) / moved, 0.0, 1.0);
  }
  return share;
}

}  // namespace megatwin::sim
