#include "sim/decoupled/decoupled_instances.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "model/assert.h"
#include "model/program/pipeline_shape.h"

namespace megatwin::sim {
namespace {

using model::EventKind;
using model::EventRecord;
using model::Instant;
using model::Lane;
using policies::DecoupledFeed;
using Nanoseconds = std::int64_t;

enum class Event : std::uint8_t {
  FeedSent,     // Activations have left a forward rank.
  WeightDone,   // A forward rank needs the input no more.
  Forward,      // A forward may start: its input is there, or the weights are.
  Feed,         // What a backward rank was sent is there.
  Gradient,     // From the next stage.
  WeightInput,  // At a forward rank.
  Released,     // A micro-batch is finished at a backward rank.
  InputSent,    // The input of its weight gradients has left it.
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

// When something was there to send, and when it arrived; both zero of what needs no transfer.
struct Transfer {
  Nanoseconds made = 0, arrived = 0;
};

struct Rank {
  Nanoseconds free = 0;       // When its lane may go on.
  Nanoseconds idle_from = 0;  // Up to where its time is accounted for.
  Nanoseconds send_free[kNumSendLanes] = {0, 0};
  std::vector<char> there, gradient_there;              // Inputs by micro-batch …
  std::vector<Transfer> input, gradient, weight_input;  // … and how they came.
  std::vector<std::pair<int, Transfer>> weight_tasks;   // Arrived at a forward rank.
  std::size_t weight_tasks_done = 0;
  int next = 0;            // Of its own micro-batches.
  bool ran_again = false;  // The forward of `next`.
  int activations = 0, weight_inputs_held = 0;
  std::vector<Nanoseconds> finished_at;  // Micro-batches, at a backward rank.
};

class Simulation {
 public:
  explicit Simulation(const DecoupledSpec& spec)
      : spec_(spec),
        num_stages_(static_cast<int>(spec.stages.size())),
        left_{.share = spec.weight_share,
              .micro_batches = spec.micro_batches,
              .round = model::round_of(spec.forward_instances, spec.backward_instances)} {
    const auto num_ranks =
        static_cast<std::size_t>(spec.forward_instances + spec.backward_instances) *
        spec.stages.size();
    ranks_.resize(num_ranks);
    result_.ranks.resize(num_ranks);
    result_.orders.resize(num_ranks);
    for (int rank = 0; rank < static_cast<int>(num_ranks); ++rank) {
      Rank& state = ranks_[static_cast<std::size_t>(rank)];
      const auto m = static_cast<std::size_t>(spec.micro_batches);
      state.there.assign(m, 0);
      state.gradient_there.assign(m, 0);
      state.input.resize(m);
      state.gradient.resize(m);
      state.weight_input.resize(m);
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
  DecoupledRank& report_of(int rank) { return result_.ranks[static_cast<std::size_t>(rank)]; }

  // Whether the forward side works out the weight gradients.
  bool leaves_weights(int micro_batch) const { return left_.has({micro_batch}); }
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
        rank.weight_tasks.emplace_back(now.micro_batch, rank.weight_input[index]);
        count_weight_inputs(now.rank, 1);
        break;
      case Event::FeedSent:
        count_activations(now.rank, -1);
        break;
      case Event::WeightDone:
        count_weight_inputs(now.rank, -1);
        break;
      case Event::Released:
        count_activations(now.rank, -1);
        if (leaves_weights(now.micro_batch)) {
          count_weight_inputs(now.rank, 1);
        } else {
          make_room(now.rank);
        }
        break;
      case Event::InputSent:
        count_weight_inputs(now.rank, -1);
        make_room(now.rank);
        break;
      case Event::Free:
        break;
    }
  }

  // A backward rank is done with one more micro-batch.
  void make_room(int rank) {
    rank_at(rank).finished_at.push_back(now_);
    for (int instance = 0; instance < spec_.forward_instances; ++instance) {
      push(now_, forward_rank(instance, stage_of(rank)), Event::Free, 0);
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
    const bool has_weights = state.weight_tasks_done < state.weight_tasks.size();
    if (micro_batch < spec_.micro_batches && state.there[static_cast<std::size_t>(micro_batch)] &&
        has_room(micro_batch, stage_of(rank)) && !(has_weights && is_nearly_full(rank))) {
      run_forward(rank, micro_batch);
      return;
    }
    if (has_weights) {
      const auto [weights_of, came] = state.weight_tasks[state.weight_tasks_done++];
      wait_for(rank, came);
      const Nanoseconds end =
          work(rank, EventKind::BackwardWeight, weights_of, costs(rank).weight_on_forward);
      push(end, rank, Event::WeightDone, weights_of);
    }
  }

  bool is_nearly_full(int rank) {
    const DecoupledStage& stage = costs(rank);
    if (!(stage.forward_room > model::Bytes{})) return false;
    const DecoupledSizes& sizes = stage.on_forward;
    const double forwards = feeds_input() ? 0 : 1;
    return held(rank) + forwards * sizes.activation + 2 * sizes.weight_input > stage.forward_room;
  }

  // By place in the order of the backward rank, so that what is on its way has its place. A
  // micro-batch has it until the input of its weight gradients has been sent, too.
  bool has_room(int micro_batch, int stage) {
    const int most = spec_.stages[static_cast<std::size_t>(stage)].waiting_max;
    const Rank& dual = rank_at(backward_rank(micro_batch, stage));
    return feeds_input() || most == 0 ||
           micro_batch / spec_.backward_instances - std::ssize(dual.finished_at) < most;
  }
  // When there came to be room; zero where it always was.
  Nanoseconds room_made(int micro_batch, int stage) {
    const int most = spec_.stages[static_cast<std::size_t>(stage)].waiting_max;
    const int place = micro_batch / spec_.backward_instances;
    const bool always = feeds_input() || most == 0 || place < most;
    return always ? 0
                  : rank_at(backward_rank(micro_batch, stage))
                        .finished_at[static_cast<std::size_t>(place - most)];
  }

  void run_forward(int rank, int micro_batch) {
    const int stage = stage_of(rank);
    const int dual = backward_rank(micro_batch, stage);
    ++rank_at(rank).next;
    if (!feeds_input()) {
      count_activations(rank, 1);
      count_activations(dual, 1);
    }
    const Nanoseconds start = now_;
    Transfer came = rank_at(rank).input[static_cast<std::size_t>(micro_batch)];
    came.made = std::max(came.made, room_made(micro_batch, stage));
    came.arrived = std::max(came.arrived, came.made);
    wait_for(rank, came);
    wait_for_weights(rank, now_);
    const Nanoseconds end = work(rank, EventKind::Forward, micro_batch, costs(rank).forward);
    if (stage + 1 < num_stages_) {
      const Transfer sent{end, send(rank, kPipeline, end, costs(rank).send_activation)};
      const int next = forward_rank(micro_batch, stage + 1);
      rank_at(next).input[static_cast<std::size_t>(micro_batch)] = sent;
      push(sent.arrived, next, Event::Forward, micro_batch);
    }
    if (feeds_input() && stage == 0) {
      return;
    }
    // The input is there when the forward starts; what it saves, when it ends.
    const Nanoseconds made = feeds_input() ? start : end;
    const Transfer sent{made, send(rank, kAcross, made, costs(rank).feed)};
    rank_at(dual).input[static_cast<std::size_t>(micro_batch)] = sent;
    push(sent.arrived, dual, Event::Feed, micro_batch);
    if (!feeds_input()) {
      push(sent.arrived, rank, Event::FeedSent, micro_batch);
    }
  }

  void count_activations(int rank, int change) {
    int& now = rank_at(rank).activations;
    now += change;
    report_of(rank).activations_max = std::max(report_of(rank).activations_max, now);
    note_held(rank);
  }
  void count_weight_inputs(int rank, int change) {
    int& now = rank_at(rank).weight_inputs_held;
    now += change;
    report_of(rank).weight_inputs_max = std::max(report_of(rank).weight_inputs_max, now);
    note_held(rank);
  }
  void note_held(int rank) {
    report_of(rank).held_max = std::max(report_of(rank).held_max, held(rank));
  }
  model::Bytes held(int rank) {
    const Rank& state = rank_at(rank);
    const DecoupledSizes& sizes =
        is_forward(rank) ? costs(rank).on_forward : costs(rank).on_backward;
    return static_cast<double>(state.activations) * sizes.activation +
           static_cast<double>(state.weight_inputs_held) * sizes.weight_input;
  }

  // The lane has been empty since its last task: until `came` was made that is bubble, while it was
  // under way a transfer. What is left until now, work() takes for bubble.
  void wait_for(int rank, const Transfer& came) {
    Nanoseconds& from = rank_at(rank).idle_from;
    const Nanoseconds made = std::clamp(came.made, from, now_);
    const Nanoseconds arrived = std::clamp(came.arrived, made, now_);
    report_of(rank).bubble += {made - from};
    report_of(rank).exposed_pp += {arrived - made};
    from = arrived;
  }
  // Only what nothing else would have waited for.
  void wait_for_weights(int rank, Nanoseconds until) {
    Nanoseconds& from = rank_at(rank).idle_from;
    const Nanoseconds there = std::clamp(costs(rank).weights.ns, from, std::max(from, until));
    report_of(rank).exposed_dp += {there - from};
    from = there;
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
      count_activations(rank, 1);
      wait_for(rank, state.input[index]);
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
    const auto index = static_cast<std::size_t>(micro_batch);
    ++state.next;
    state.ran_again = false;
    if (!feeds_input()) {
      wait_for(rank, state.input[index]);
    }
    wait_for(rank, state.gradient[index]);
    const Nanoseconds end =
        work(rank, without_weights ? EventKind::BackwardInput : EventKind::Backward, micro_batch,
             without_weights ? costs(rank).backward_input : costs(rank).backward);
    if (stage > 0) {
      const Transfer sent{end, send(rank, kPipeline, end, costs(rank).send_gradient)};
      const int next = backward_rank(micro_batch, stage - 1);
      rank_at(next).gradient[index] = sent;
      push(sent.arrived, next, Event::Gradient, micro_batch);
    }
    if (without_weights) {
      const Transfer sent{end, send(rank, kAcross, end, costs(rank).weight_input)};
      const int dual = forward_rank(micro_batch, stage);
      rank_at(dual).weight_input[index] = sent;
      push(sent.arrived, dual, Event::WeightInput, micro_batch);
      push(sent.arrived, rank, Event::InputSent, micro_batch);
    }
    // The word that there is room goes behind the inputs that are on their way.
    push(without_weights ? end : send(rank, kAcross, end, {}), rank, Event::Released, micro_batch);
  }

  // Runs a task from now on; its end.
  Nanoseconds work(int rank, EventKind kind, int micro_batch, Instant duration) {
    Rank& state = rank_at(rank);
    MEGATWIN_ASSERT(duration.ns >= 0, duration.ns);
    report_of(rank).bubble += {now_ - state.idle_from};
    state.free = state.idle_from = now_ + duration.ns;
    report_of(rank).busy += duration;
    result_.orders[static_cast<std::size_t>(rank)].push_back(
        {static_cast<model::TaskKind>(kind), {micro_batch}, {0}});
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
        if (is_forward(rank)) {
          wait_for_weights(rank, costs(rank).weights.ns);  // Also one without micro-batches.
        }
        Nanoseconds there = state.idle_from;
        if (is_forward(rank) && !state.weight_tasks.empty()) {
          there = send(rank, kAcross, there, costs(rank).gradients);
          report_of(rank).exposed_dp += {there - state.idle_from};
        }
        if (!is_forward(rank) || !state.weight_tasks.empty()) {
          gradients = std::max(gradients, there);
        }
        report_of(rank).finish = {there};
      }
      for (int rank = spec_.forward_instances * num_stages_ + stage; rank < std::ssize(ranks_);
           rank += num_stages_) {
        DecoupledRank& report = report_of(rank);
        const Nanoseconds reduced = gradients + costs(rank).reduce.ns;
        report.exposed_dp += {reduced - rank_at(rank).idle_from};
        report.optimizer = costs(rank).optimizer;
        report.finish = {reduced + report.optimizer.ns};
      }
    }
    for (const DecoupledRank& rank : result_.ranks) {
      result_.makespan = std::max(result_.makespan, rank.finish);
    }
    for (DecoupledRank& rank : result_.ranks) {
      rank.bubble += result_.makespan - rank.finish;
    }
  }

  // Micro-batches of a rank.
  int share_of(int rank) const {
    const int instances = is_forward(rank) ? spec_.forward_instances : spec_.backward_instances;
    return (spec_.micro_batches - instance_of(rank) + instances - 1) / instances;
  }

  const DecoupledSpec& spec_;
  int num_stages_;
  model::LeftWeights left_;
  Nanoseconds now_ = 0;
  std::vector<Rank> ranks_;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
  DecoupledResult result_;
};

}  // namespace

DecoupledResult simulate_instances(const DecoupledSpec& spec) { return Simulation(spec).run(); }

}  // namespace megatwin::sim
