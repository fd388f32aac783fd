#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include "exec/host_job.h"
#include "exec/host_rank.h"
#include "exec/process_carrier.h"
#include "exec/running_clock.h"
#include "model/assert.h"
#include "model/flops.h"
#include "policies/policy_choice.h"

namespace megatwin::exec {
namespace {

using model::RankId;
using Activity = HostWorld::Activity;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::seconds kGrace{1};
// Signs of life are due ten times a second; a process may well be a few of them late.
constexpr std::chrono::milliseconds kSilence{1000};
// Processor time inside of a task's arithmetic that counts as something done: far less than a
// watchdog of a second, far more than a thread needs to wait.
constexpr std::chrono::milliseconds kComputed{5};
// A task that takes so many times as long as the longest of a step before never ends: they are of a
// few kinds, and of processor time alone.
constexpr int kLonger = 20;
// A quarter of what the kernels do where they are slow (attention with heads of four columns: 2
// GFLOP/s, December 2026), against all of a micro-batch, of which a task is a sixth or less. The
// thread sanitizer takes a fifteenth of it.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr model::FlopPerSecond kSlowest{5e7};
#else
constexpr model::FlopPerSecond kSlowest{5e8};
#endif

// Nothing when the thread has ended.
std::optional<std::chrono::nanoseconds> processor_time(std::thread& thread) {
  clockid_t clock{};
  timespec time{};
  if (pthread_getcpuclockid(thread.native_handle(), &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

LocalRanks local_ranks(const HostJob& job, const ProcessCarrier* carrier) {
  return carrier != nullptr ? carrier->local() : LocalRanks{0, HostLayout(job.plan).num_ranks()};
}

std::string in_gib(model::Bytes bytes) {
  const long long tenths = std::llround(10 * ratio(bytes / model::Bytes{1ULL << 30}));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

model::Bytes memory_of_machine() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
         model::Bytes{static_cast<double>(sysconf(_SC_PAGESIZE))};
}

// What the local ranks set aside for orders that nobody knows beforehand.
model::Bytes slots_of(const RunShared& shared) {
  const LocalRanks& local = shared.world.local();
  model::Bytes sum{0};
  for (std::int32_t rank = local.first; rank < local.first + local.count; ++rank) {
    sum += shared.slot_pool_of({rank}).total();
  }
  return sum;
}

// "policy.live_activations 64: 2 ranks set aside 96.0 GiB for activations before the first step".
std::string text_of_slots(const RunShared& shared) {
  const int most = shared.job.plan.live_activations;
  const std::int32_t ranks = shared.world.local().count;
  return (most > 0 ? "policy.live_activations " + std::to_string(most)
                   : "no policy.live_activations, so all " +
                         std::to_string(shared.job.plan.num_micro_batches()) + " micro-batches") +
         ": " + (ranks > 1 ? std::to_string(ranks) + " ranks set" : "the rank sets") + " aside " +
         in_gib(slots_of(shared)) + " for activations before the first step";
}

// The threads of the ranks of this process, kept alive by each of them.
struct HostRun : std::enable_shared_from_this<HostRun> {
  // The carrier is null when no other process takes part.
  HostRun(const HostJob& job, std::unique_ptr<ProcessCarrier> process_carrier)
      : carrier(std::move(process_carrier)),
        own_clock(carrier ? nullptr : std::make_unique<RunningClock>()),
        shared(job, local_ranks(job, carrier.get()), carrier.get()) {
    const LocalRanks& local = shared.world.local();
    if (job.policy && slots_of(shared) > memory_of_machine()) {
      fail_to_start({local.first},
                    text_of_slots(shared) + "; this machine has " + in_gib(memory_of_machine()));
      return;
    }
    for (std::int32_t rank = local.first; rank < local.first + local.count; ++rank) {
      ranks.push_back(std::make_unique<HostRank>(shared, RankId{rank}));
      const auto state = ranks.back()->model().state({rank});
      shared.state.insert(shared.state.end(), state.begin(), state.end());
    }
    if (job.on_start) {
      job.on_start(shared.state);
    }
  }

  void start() {
    for (const auto& rank : ranks) {
      threads.emplace_back([self = shared_from_this(), &rank = *rank] {
        rank.run();
        const std::lock_guard lock(self->mutex);
        ++self->num_ended;
        self->ended.notify_one();
      });
    }
    arithmetic_.resize(threads.size());
  }

  // Ends the run when nothing gets done or a process is gone. Whether all threads have ended: one
  // that hangs is left to itself a second after the fault.
  bool wait_for_all() {
    RunningClock::Duration moved = clock().now();
    std::uint64_t progress = progress_made();
    while (!all_ended()) {
      look();
      const bool spins = count_arithmetic();
      const RunningClock::Duration now = clock().now();
      if (spins) moved = now - shared.job.watchdog;  // It has had its time.
      if (shared.world.failed()) {
        tell_others();
        if (now - moved > kGrace + shared.job.watchdog) break;
        continue;
      }
      find_lost();
      const bool between =
          shared.world.activity({0}).task == Activity::BetweenSteps && !shared.world.waits({0});
      const bool starts = carrier && !carrier->all_heard();
      if (between || starts || progress != progress_made()) {
        progress = progress_made();
        moved = now;
      } else if (now - moved > shared.job.watchdog && judges()) {
        shared.world.fail(stand_still());
      }
    }
    const bool all = all_ended();
    for (std::thread& thread : threads) {
      all ? thread.join() : thread.detach();
    }
    return all;
  }

  // Waits for the ends of all processes, so that nothing is under way to one that is gone.
  void leave() {
    if (!carrier) {
      return;
    }
    tell_others();
    carrier->say_farewell();
    while (!shared.world.failed() && !carrier->all_left()) {
      look();
      find_lost();
    }
    tell_others();
  }

  bool tells() const { return !carrier || carrier->is_first_alive(); }

  std::unique_ptr<ProcessCarrier> carrier;
  std::unique_ptr<RunningClock> own_clock;  // Null where the carrier has one.
  RunShared shared;
  std::vector<std::unique_ptr<HostRank>> ranks;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable ended;
  std::atomic<std::ptrdiff_t> num_ended = 0;

 private:
  // Without ranks: nothing starts, and other processes are told.
  void fail_to_start(RankId rank, const std::string& what) {
    shared.world.fail({.rank = rank, .step = shared.job.first_step, .task = "start", .what = what});
  }
  bool all_ended() const { return num_ended == std::ssize(ranks); }

  // For a while, or until all local ranks have ended.
  void look() {
    if (!carrier) {
      std::unique_lock lock(mutex);
      ended.wait_for(lock, kLook, [&] { return all_ended(); });
      return;
    }
    constexpr std::chrono::microseconds kFirst{10}, kLongest{200};
    std::chrono::microseconds pause = kFirst;
    const bool had_ended = all_ended();
    const Clock::time_point start = Clock::now();
    while (Clock::now() - start < kLook && all_ended() == had_ended) {
      if (carrier->pump(shared.world)) {
        pause = kFirst;
        continue;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongest);
    }
  }

  const RunningClock& clock() const { return carrier ? carrier->clock() : *own_clock; }

  // A rank that spends processor time inside of a task is slow and not stuck, unless it spends more
  // of it than any task can take. Whether one was found that does; the world has failed then.
  bool count_arithmetic() {
    for (std::size_t i = 0; i < threads.size(); ++i) {
      const RankId rank = ranks[i]->rank();
      const auto number = shared.world.arithmetic(rank);
      const auto time = number ? processor_time(threads[i]) : std::nullopt;
      if (!time) continue;
      Arithmetic& own = arithmetic_[i];
      if (own.number != *number) {
        arithmetic_longest_ = std::max(arithmetic_longest_, own.used);
        own = {.number = *number, .start = *time, .counted = own.counted};
      }
      own.used = *time - own.start;
      if (*time - own.counted >= kComputed) {
        own.counted = *time;
        shared.world.progress();
      }
      const std::chrono::nanoseconds limit = arithmetic_max(rank);
      if (own.used <= limit || shared.world.failed()) continue;
      shared.world.fail(fault_of(rank, spinning_text(limit)));
      return true;
    }
    return false;
  }

  // In the first step nobody knows how long a task takes here: as long as the whole model would for
  // a micro-batch on the slowest of processors. From then on no task takes much longer than the
  // longest before.
  std::chrono::nanoseconds arithmetic_max(RankId rank) const {
    const bool is_first = shared.world.activity(rank).step <= shared.job.first_step;
    return std::max<std::chrono::nanoseconds>(
        shared.job.watchdog, is_first ? first_arithmetic_max_ : kLonger * arithmetic_longest_);
  }
  static std::chrono::nanoseconds slowest_arithmetic(const HostJob& job) {
    const model::Flop flop =
        2 * model::model_flop_per_step(job.transformer, model::FlopConvention::ModelFullAttention,
                                       job.plan.micro_batch);
    constexpr double kDay = 86400;
    const double seconds = std::min(kDay, ratio(flop / kSlowest / model::Seconds{1}));
    return std::chrono::nanoseconds(std::llround(1e9 * seconds));
  }
  std::string spinning_text(std::chrono::nanoseconds limit) const {
    const auto whole = std::chrono::ceil<std::chrono::milliseconds>(limit);
    return "has computed for " + text_of(whole) + " of processor time without an end" +
           (whole == shared.job.watchdog
                ? limit_text(whole)
                : ", far longer than a task can take here, and than training.watchdog");
  }

  std::uint64_t progress_made() const {
    return shared.world.progress_made() + (carrier ? carrier->progress_elsewhere() : 0);
  }
  // One process says that the run stands still: it alone knows exactly what rank 0 is at.
  bool judges() const { return shared.world.local().first == 0; }

  void tell_others() {
    if (carrier && shared.world.failed()) {
      carrier->tell(*shared.world.fault(), lost_);
    }
  }

  void find_lost() {
    if (!carrier) {
      return;
    }
    const std::chrono::milliseconds silence_max = std::max(shared.job.watchdog, kSilence);
    const auto found = carrier->find_lost(silence_max);
    const auto stopped_in_all = clock().stopped();
    const auto stopped = std::chrono::floor<std::chrono::milliseconds>(stopped_in_all - stopped_);
    if (!found) {
      stopped_ = stopped_in_all;  // All others are alive after it.
      return;
    }
    lost_ = found->process;
    const LocalRanks ranks_lost = carrier->ranks_of(found->process);
    std::string what = "process " + std::to_string(found->process) +
                       (found->is_silent ? " gave no sign of life for " + text_of(silence_max) +
                                               limit_text(silence_max)
                                         : " is gone");
    // The others may have given this one up meanwhile, and ended.
    if (!found->is_silent && stopped > silence_max / 2) {
      what += "; this process itself was stopped for " + text_of(stopped) + " before";
    }
    shared.world.fail(fault_of(busiest(ranks_lost), what));
  }

  // Who is inside of something while nothing gets done; else all wait for each other, and it is the
  // first.
  Fault stand_still() {
    return fault_of(busiest({0, shared.world.num_ranks()}), "no rank got anything done for " +
                                                                text_of(shared.job.watchdog) +
                                                                limit_text(shared.job.watchdog));
  }
  RankId busiest(const LocalRanks& among) const {
    for (std::int32_t rank = among.first; rank < among.first + among.count; ++rank) {
      if (!shared.world.waits({rank})) {
        return {rank};
      }
    }
    return {among.first};
  }
  Fault fault_of(RankId rank, const std::string& what) const {
    const Activity activity = shared.world.activity(rank);
    const std::string text = shared.text_of(rank, activity);
    return {.rank = rank,
            .step = activity.step,
            .task = shared.world.waits(rank) ? "waits in or after " + text : text,
            .what = what};
  }
  // Which setting it was, where it was one.
  std::string limit_text(std::chrono::milliseconds limit) const {
    if (limit != shared.job.watchdog) return "";
    return ", the limit of training.watchdog; for what is slow and not stuck raise it, as by --set "
           "training.watchdog='" +
           std::to_string(10 * limit.count()) + " ms'";
  }
  static std::string text_of(std::chrono::milliseconds time) {
    return std::to_string(time.count()) + " ms";
  }

  std::optional<int> lost_;
  RunningClock::Duration stopped_{};  // Of this process, when all others were last seen alive.
  // Of a local rank, in processor time of its thread.
  struct Arithmetic {
    std::uint64_t number = 0;                  // The piece that it was last seen in,
    std::chrono::nanoseconds start{}, used{};  // when that was first seen, and what it took so far.
    std::chrono::nanoseconds counted{};        // When it last counted as something done.
  };
  std::vector<Arithmetic> arithmetic_;
  std::chrono::nanoseconds arithmetic_longest_{};  // Of pieces that have ended.
  std::chrono::nanoseconds first_arithmetic_max_ = slowest_arithmetic(shared.job);
};

HostResult run(const HostJob& job, std::unique_ptr<ProcessCarrier> carrier) {
  MEGATWIN_ASSERT(host_job_problems(job).empty(), host_job_problems(job).front());
  const auto run = std::make_shared<HostRun>(job, std::move(carrier));
  run->start();
  HostResult result;
  result.abandoned = !run->wait_for_all();
  run->leave();
  result.fault = run->shared.world.fault();
  result.tells = run->tells();
  result.losses = run->shared.losses;
  if (result.abandoned) {
    if (run->carrier) run->carrier->cut();
    return result;
  }
  result.gradient_norms = run->shared.gradient_norms;
  result.weights_hash = run->shared.weights_hash;
  for (const auto& rank : run->ranks) {
    result.ranks.push_back(rank->take_report());
  }
  std::move(run->shared.reports_of_others.begin(), run->shared.reports_of_others.end(),
            std::back_inserter(result.ranks));
  return result;
}

HostJob decided(const HostJob& job) {
  HostJob decided = job;
  if (!job.policy && model::is_dynamic(job.plan.schedule)) {
    decided.policy = policies::policy_of(job.plan);
  }
  return decided;
}

}  // namespace

HostResult run_host(const HostJob& job) { return run(decided(job), nullptr); }

HostResult run_host(const HostJob& job, model::Processes& processes) {
  const int num_ranks = HostLayout(job.plan).num_ranks();
  return run(decided(job), std::make_unique<ProcessCarrier>(processes, num_ranks));
}

}  // namespace megatwin::exec
