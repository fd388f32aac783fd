// One process a rank, or an equal share of the ranks in each: the same bits as threads alone, in
// losses, weights, states and memory; and faults that end all of them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "exec/model_state.h"
#include "exec/process_carrier.h"
#include "tests/exec/train_tiny.h"
#include "tests/sim/pipeline_specs.h"
#include "tests/thread_processes.h"

namespace megatwin::exec {
namespace {

using model::Plan;
using model::ScheduleKind;
using tests::describe;
using tests::pipeline;
using tests::TinyJob;

// Runs in `size` processes that are threads; the results by process.
std::vector<HostResult> run_in_processes(int size,
                                         const std::function<HostResult(model::Processes&)>& run) {
  std::vector<HostResult> results(static_cast<std::size_t>(size));
  tests::ThreadProcesses::run(size, [&](model::Processes& processes) {
    results[static_cast<std::size_t>(processes.rank())] = run(processes);
  });
  return results;
}

// One that stops to send and to take anything when it is told to.
class Freezing : public model::Processes {
 public:
  explicit Freezing(model::Processes& behind) : behind_(behind) {}
  void freeze() { frozen_.store(true); }

  int rank() const override { return behind_.rank(); }
  int size() const override { return behind_.size(); }
  void send(int to, int tag, std::span<const std::byte> bytes) override {
    if (!frozen_.load()) behind_.send(to, tag, bytes);
  }
  bool all_taken() override { return true; }
  std::optional<Message> try_receive(int from, int tag) override {
    return frozen_.load() ? std::nullopt : behind_.try_receive(from, tag);
  }
  [[noreturn]] void abort(int code) override {
    behind_.abort(code);
    std::abort();
  }

 private:
  model::Processes& behind_;
  std::atomic<bool> frozen_{false};
};

// Links that take a time of its own for every message, up to a limit, those of one sender one after
// the other. Called by the one thread that receives.
class Jittery : public model::Processes {
 public:
  Jittery(model::Processes& behind, std::uint64_t seed, std::chrono::microseconds longest)
      : behind_(behind), random_(seed), longest_(longest) {}

  int rank() const override { return behind_.rank(); }
  int size() const override { return behind_.size(); }
  void send(int to, int tag, std::span<const std::byte> bytes) override {
    behind_.send(to, tag, bytes);
  }
  bool all_taken() override { return behind_.all_taken(); }
  std::optional<Message> try_receive(int from, int tag) override {
    const auto now = std::chrono::steady_clock::now();
    while (auto message = behind_.try_receive(from, tag)) {
      const std::chrono::microseconds takes(random_.in(0, longest_.count()));
      auto& line = lines_[message->from];
      const auto start = line.empty() ? now : std::max(now, line.back().due);
      line.push_back({std::move(*message), start + takes});
    }
    for (auto& [sender, line] : lines_) {
      if (line.empty() || line.front().due > now) continue;
      Message message = std::move(line.front().message);
      line.pop_front();
      return message;
    }
    return std::nullopt;
  }
  [[noreturn]] void abort(int code) override {
    behind_.abort(code);
    std::abort();
  }

 private:
  struct Held {
    Message message;
    std::chrono::steady_clock::time_point due;
  };
  model::Processes& behind_;
  tests::Random random_;
  std::chrono::microseconds longest_;
  std::map<int, std::deque<Held>> lines_;  // By sender.
};

// A run, and the state that its last step left behind.
struct Run {
  HostResult result;
  ModelState state;
};

Run train(const model::Transformer& transformer, const Plan& plan, model::Processes* processes) {
  TinyJob tiny(transformer, plan);
  tiny.job.gradient_norm_max = 0.5;
  tiny.job.log = tiny.job.plan.schedule == ScheduleKind::DynamicBreadthFirst;
  Run run;
  tiny.job.on_step = [&](const StepEnd& end) {
    if (end.step == 3) {
      run.state = gather_state(end.state(), StatePart::WeightsAndMoments);
    }
    return true;
  };
  run.result = processes == nullptr ? run_host(tiny.job) : run_host(tiny.job, *processes);
  return run;
}

void expect_same_bits(const model::Transformer& transformer, const Plan& plan, int size) {
  SCOPED_TRACE(describe(plan) + " in " + std::to_string(size) + " processes");
  const Run alone = train(transformer, plan, nullptr);
  ASSERT_FALSE(alone.result.fault) << to_text(*alone.result.fault);
  Run first;
  const auto results = run_in_processes(size, [&](model::Processes& processes) {
    Run run = train(transformer, plan, &processes);
    if (processes.rank() == 0) first = run;
    return run.result;
  });
  for (const HostResult& result : results) {
    ASSERT_FALSE(result.fault) << to_text(*result.fault);
    EXPECT_EQ(result.losses, alone.result.losses);
    EXPECT_EQ(result.gradient_norms, alone.result.gradient_norms);
  }
  EXPECT_EQ(results[0].weights_hash, alone.result.weights_hash);
  EXPECT_EQ(first.state.size(), alone.state.size());
  EXPECT_TRUE(first.state == alone.state);
  ASSERT_EQ(results[0].ranks.size(), alone.result.ranks.size());
  for (std::size_t rank = 0; rank < results[0].ranks.size(); ++rank) {
    const HostRankReport& ours = results[0].ranks[rank];
    const HostRankReport& other = alone.result.ranks[rank];
    EXPECT_EQ(ours.rank, other.rank);
    EXPECT_EQ(ours.state, other.state);
    EXPECT_EQ(ours.logs.size(), other.logs.size());
    if (!is_dynamic(plan.schedule)) {
      EXPECT_EQ(ours.executed, other.executed);
      EXPECT_EQ(ours.activations_max, other.activations_max);
      EXPECT_EQ(ours.activations_reserved, other.activations_reserved);
    }
  }
}

Plan product(int p, int t, int d, int zero) {
  Plan plan = pipeline(ScheduleKind::OneForwardOneBackward, p);
  plan.tensor = t;
  plan.data = d;
  plan.zero_stage = zero;
  plan.sequence_parallel = t > 1;
  return plan;
}

TEST(Processes, SingleKindsGiveTheSameBits) {
  for (const Plan& plan : {product(1, 1, 2, 0), product(2, 1, 1, 0), product(1, 2, 1, 0)}) {
    expect_same_bits(tests::tiny_llama(), plan, 2);
    expect_same_bits(tests::tiny_gpt(), plan, 2);
  }
}

TEST(Processes, ProductsGiveTheSameBitsOneRankOrMoreInEach) {
  for (const int zero : {0, 1, 2, 3}) {
    expect_same_bits(tests::tiny_llama(), product(2, 1, 2, zero), 4);
    expect_same_bits(tests::tiny_llama(), product(2, 1, 2, zero), 2);
  }
  expect_same_bits(tests::tiny_llama(), product(2, 2, 2, 1), 8);
}

TEST(Processes, ExpertsAndRingsGiveTheSameBits) {
  Plan experts;
  experts.expert = experts.data = 2;
  expect_same_bits(tests::tiny_experts(), experts, 2);
  Plan ring;
  ring.context = 2;
  expect_same_bits(tests::tiny_llama(), ring, 2);
}

TEST(Processes, TiedEndsAreSummedAcrossProcesses) {
  expect_same_bits(tests::tied(tests::tiny_gpt()), product(2, 1, 2, 1), 4);
  Plan v = pipeline(ScheduleKind::ZeroBubbleV, 2, 2);
  expect_same_bits(tests::tied(tests::tiny_gpt()), v, 2);
}

TEST(Processes, PoliciesAnnounceAcrossProcesses) {
  Plan plan = product(2, 2, 1, 0);
  plan.schedule = ScheduleKind::DynamicBreadthFirst;
  plan.model_chunks = 2;
  expect_same_bits(tests::tiny_llama(), plan, 4);
}

TEST(Processes, SidesOfADecoupledPipelineGiveTheSameBits) {
  for (const bool ship : {false, true}) {
    Plan plan = product(2, 1, 1, 0);
    plan.schedule = ScheduleKind::Decoupled;
    plan.decoupled.ship_activations = ship;
    expect_same_bits(tests::tiny_llama(), plan, 4);
    expect_same_bits(tests::tiny_llama(), plan, 2);
    plan.decoupled.forward.instances = 3;  // Eight ranks.
    expect_same_bits(tests::tiny_llama(), plan, 4);
    plan.decoupled.forward = {.tensor = 1, .instances = 2};
    plan.decoupled.backward.tensor = 2;  // Four ranks a side.
    expect_same_bits(tests::tiny_llama(), plan, 4);
  }
}

// Credits, one slot a channel, cross processes too.
TEST(Processes, SlotsAreCreditedAcrossProcesses) {
  TinyJob tiny(tests::tiny_llama(), pipeline(ScheduleKind::OneForwardOneBackward, 4));
  tiny.job.executor.receive_slots = 1;
  const HostResult alone = run_host(tiny.job);
  const auto results = run_in_processes(
      4, [&](model::Processes& processes) { return run_host(tiny.job, processes); });
  EXPECT_EQ(results[0].weights_hash, alone.weights_hash);
}

// The first rank has sent as many activations as there are slots and holds the next one when it
// begins the task after that. It stays in that task until the second rank, whose first task ends
// then, has begun the one that takes what was held.
class BusySender {
 public:
  explicit BusySender(int slots) : slots_(slots) {}

  void attach(HostJob& job) {
    job.steps = 1;
    job.executor.receive_slots = slots_;
    job.hooks.before_task = [this](const TaskMoment& moment) {
      const std::string task = to_text(moment.task);
      if (moment.rank.value == 0 && task == forward(slots_ + 1)) {
        sender_is_busy_.set_value();
        left_in_time_ =
            taken_future_.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
      } else if (moment.rank.value == 1 && task == forward(0)) {
        busy_future_.wait();
      } else if (moment.rank.value == 1 && task == forward(slots_)) {
        taken_.set_value();
      }
    };
  }
  bool left_in_time() const { return left_in_time_; }

 private:
  static std::string forward(int n) { return "F" + std::to_string(n) + ".0"; }

  int slots_;
  std::promise<void> sender_is_busy_, taken_;
  std::future<void> busy_future_ = sender_is_busy_.get_future();
  std::future<void> taken_future_ = taken_.get_future();
  bool left_in_time_ = false;
};

TEST(Processes, AHeldMessageLeavesWhileItsSenderIsBusy) {
  for (const int slots : {1, 2, 3}) {
    for (const int size : {1, 2}) {
      BusySender sender(slots);
      TinyJob tiny(tests::tiny_llama(), pipeline(ScheduleKind::GPipe, 2));
      sender.attach(tiny.job);
      const auto results = run_in_processes(
          size, [&](model::Processes& processes) { return run_host(tiny.job, processes); });
      ASSERT_FALSE(results[0].fault) << to_text(*results[0].fault);
      EXPECT_TRUE(sender.left_in_time()) << slots << " slots, " << size << " processes";
    }
  }
}

// The orders in which the ranks ran, over three runs whose links are late by other times.
std::set<policies::Order> expect_same_sums_under_jitter(const Plan& plan, int slots) {
  const auto run_one = [&](model::Processes* processes) {
    TinyJob tiny(tests::tiny_llama(), plan);
    tiny.job.plan.global_batch = 16;
    tiny.job.steps = 2;
    tiny.job.gradient_norm_max = 0.5;
    tiny.job.executor.receive_slots = slots;
    return processes == nullptr ? run_host(tiny.job) : run_host(tiny.job, *processes);
  };
  const HostResult alone = run_one(nullptr);
  std::set<policies::Order> orders;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(describe(plan) + " slots " + std::to_string(slots) + " seed " +
                 std::to_string(seed));
    const auto results = run_in_processes(plan.gpus(), [&](model::Processes& processes) {
      Jittery jittery(processes, 8 * seed + static_cast<std::uint64_t>(processes.rank()),
                      std::chrono::microseconds(1500));
      return run_one(&jittery);
    });
    EXPECT_FALSE(results[0].fault) << to_text(*results[0].fault);
    EXPECT_EQ(results[0].losses, alone.losses);
    EXPECT_EQ(results[0].gradient_norms, alone.gradient_norms);
    EXPECT_EQ(results[0].weights_hash, alone.weights_hash);
    for (const HostRankReport& rank : results[0].ranks) orders.insert(rank.executed);
  }
  return orders;
}

// Eight micro-batches a replica add up while messages between the ranks come late, each by a time
// of its own: chunks that are done reduce early, others go on, and no sum changes. Where a policy
// is free to decide the delays do move what it decides: stages in the middle have two neighbours.
TEST(Processes, GradientsAddUpAlikeUnderJitterOfTheLinks) {
  for (Plan plan :
       {pipeline(ScheduleKind::Interleaved, 2, 2), pipeline(ScheduleKind::ZeroBubbleV, 2, 2),
        pipeline(ScheduleKind::DynamicAdaptive, 4),
        pipeline(ScheduleKind::DynamicBreadthFirst, 4)}) {
    plan.data = 2;
    plan.zero_stage = 1;
    plan.overlap_grad_reduce = true;
    for (const int slots : {0, 1}) {
      const auto orders = expect_same_sums_under_jitter(plan, slots);
      const auto stages = static_cast<std::size_t>(plan.pipeline);
      if (!is_dynamic(plan.schedule)) {
        EXPECT_LE(orders.size(), stages);
      } else if (slots == 0) {
        EXPECT_GT(orders.size(), stages);
      }
    }
  }
}

// Four processes; the third has rank 2.
std::vector<HostResult> run_with(const std::function<void(HostJob&)>& change) {
  return run_in_processes(4, [&](model::Processes& processes) {
    TinyJob tiny(tests::tiny_llama(), product(2, 1, 2, 0));
    tiny.job.watchdog = std::chrono::milliseconds(1000);
    change(tiny.job);
    return run_host(tiny.job, processes);
  });
}

bool is_second_step_of_rank_2(const TaskMoment& moment) {
  return moment.rank.value == 2 && moment.step == 1 && to_text(moment.task) == "B1.0";
}

void expect_fault_everywhere(const std::vector<HostResult>& results, const std::string& text) {
  for (std::size_t process = 0; process < results.size(); ++process) {
    ASSERT_TRUE(results[process].fault.has_value()) << "process " << process;
    EXPECT_EQ(to_text(*results[process].fault), text);
    EXPECT_EQ(results[process].tells, process == 0);
  }
}

TEST(ProcessFault, OfARankThatThrows) {
  expect_fault_everywhere(run_with([](HostJob& job) {
                            job.hooks.before_task = [](const TaskMoment& moment) {
                              if (is_second_step_of_rank_2(moment)) {
                                throw std::runtime_error("the disk is full");
                              }
                            };
                          }),
                          "rank 2, step 1, B1.0: the disk is full");
}

TEST(ProcessFault, OfARankThatSendsNoNumber) {
  expect_fault_everywhere(run_with([](HostJob& job) {
                            job.hooks.after_task = [](const TaskMoment& moment,
                                                      std::span<float> message) {
                              if (is_second_step_of_rank_2(moment) && !message.empty()) {
                                message[3] = std::numeric_limits<float>::quiet_NaN();
                              }
                            };
                          }),
                          "rank 2, step 1, B1.0: the output is not finite");
}

TEST(ProcessFault, OfARankThatHangs) {
  const auto start = std::chrono::steady_clock::now();
  const auto results = run_with([](HostJob& job) {
    job.hooks.before_task = [](const TaskMoment& moment) {
      if (is_second_step_of_rank_2(moment)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        throw std::runtime_error("at last");  // What it would read is gone.
      }
    };
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  expect_fault_everywhere(
      results,
      "rank 2, step 1, B1.0: no rank got anything done for 1000 ms, the limit of "
      "training.watchdog; for what is slow and not stuck raise it, as by --set "
      "training.watchdog='10000 ms'");
}

// A process that does not even say that it lives.
TEST(ProcessFault, OfAProcessThatFallsSilent) {
  const auto results = run_in_processes(2, [&](model::Processes& processes) {
    Freezing freezing(processes);
    TinyJob tiny(tests::tiny_llama(), product(2, 1, 1, 0));
    tiny.job.watchdog = std::chrono::milliseconds(1500);
    tiny.job.hooks.before_task = [&](const TaskMoment& moment) {
      if (moment.rank.value != 1 || moment.step != 1) {
        return;
      }
      if (to_text(moment.task) == "F2.0") {  // Long enough for it to tell where it is.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
      } else if (to_text(moment.task) == "F3.0") {
        freezing.freeze();
      }
    };
    return run_host(tiny.job, freezing);
  });
  ASSERT_TRUE(results[0].fault.has_value());
  EXPECT_EQ(results[0].fault->rank.value, 1);
  EXPECT_EQ(results[0].fault->step, 1);
  EXPECT_TRUE(results[0].fault->what.starts_with(
      "process 1 gave no sign of life for 1500 ms, the limit of training.watchdog; "))
      << results[0].fault->what;
  EXPECT_TRUE(results[0].tells);
}

TEST(ProcessFault, RanksAreSharedInOrder) {
  EXPECT_EQ(ranks_of_process(8, 4, 3).first, 6);
  EXPECT_EQ(ranks_of_process(8, 4, 3).count, 2);
}

}  // namespace
}  // namespace megatwin::exec
