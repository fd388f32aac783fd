// Takes things between the ranks of several processes, and knows which of these still live. Each
// process has an equal share of the ranks, in order. Everything that one process sends to another
// arrives in order.
//
// Ranks send from their own threads. What comes is handed out by pump(), which the thread that
// waits for the ranks calls again and again, so that a rank inside a task delays nobody's messages.
// A credit that comes takes along what waited for it, see exec/outbox.h.
#ifndef MEGATWIN_EXEC_PROCESS_CARRIER_H_
#define MEGATWIN_EXEC_PROCESS_CARRIER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "exec/host_world.h"
#include "exec/process_watch.h"
#include "exec/running_clock.h"
#include "model/processes.h"

namespace megatwin::exec {

// Of process `process` among `num_processes`. Requires: num_processes divides num_ranks.
LocalRanks ranks_of_process(int num_ranks, int num_processes, int process);

class ProcessCarrier : public Carrier {
 public:
  // The processes are borrowed. Requires: their number divides that of the ranks.
  ProcessCarrier(model::Processes& processes, int num_ranks);

  LocalRanks local() const { return ranks_of(processes_.rank()); }
  LocalRanks ranks_of(int process) const {
    return ranks_of_process(num_ranks_, processes_.size(), process);
  }

  // From any thread.
  void post(model::RankId to, const model::ExecutorEvent& event) override;
  void deliver(model::RankId to, model::TaskId consumer, std::vector<float> message) override;
  void send(const Address& address, ByteVector letter) override;

  // Nothing is sent after this, so that the processes may go while a rank that hangs stays.
  void cut();

  // From the one thread that pumps.

  // Hands what has come to the world, and tells the others when due what the local ranks are at.
  // Whether anything had come.
  bool pump(HostWorld& world);
  // Tells all others that this process will send nothing more; a fault, once.
  void say_farewell();
  void tell(const Fault& fault, std::optional<int> lost);

  bool all_heard() const;
  bool all_left() const;
  // What the ranks of the other processes got done, as HostWorld counts it.
  std::uint64_t progress_elsewhere() const;
  // A process that ended without a farewell, or was silent for `silence_max`: one that is stopped,
  // else the one that was silent longest. Found once.
  struct Lost {
    int process = 0;
    bool is_silent = false;
  };
  std::optional<Lost> find_lost(std::chrono::milliseconds silence_max);
  // What silence is measured by.
  const RunningClock& clock() const { return clock_; }
  // Whether this is the first of the processes that live.
  bool is_first_alive() const;

 private:
  Lost lose(int process, bool is_silent);

  using Clock = std::chrono::steady_clock;
  enum class Frame : std::uint8_t { Hello, Event, Message, Letter, Life, Fault, Farewell };
  struct Peer {
    bool heard = false, left = false, lost = false;
    RunningClock::Duration heard_at{0};
    std::uint64_t progress = 0;
    ProcessWatch watch;
  };
  int process_of(model::RankId rank) const;
  void send_to(int process, std::span<const std::byte> frame);
  void send_to_all(const ByteVector& frame);
  void take(const model::Processes::Message& frame, HostWorld& world);
  void take_life(ByteReader& reader, int from, HostWorld& world);
  void take_fault(ByteReader& reader, HostWorld& world);
  void show_life(const HostWorld& world);

  model::Processes& processes_;
  RunningClock clock_;
  std::mutex mutex_;  // Of what is sent.
  bool is_cut_ = false;
  int num_ranks_;
  std::vector<Peer> peers_;  // By process; of this one unused.
  Clock::time_point shown_;
  bool told_ = false;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_PROCESS_CARRIER_H_
