// What one rank has made for others and may not send yet. Under a limit of receive slots a message
// waits here, behind those of its channel that were made before it, until the receiver frees a
// slot. Whoever brings the credit takes the message along, so that it leaves at once, also while
// the rank that made it is inside of a task, as in the simulator. The Executor counts the same
// credits for what its policy may see; both give them out in the order of the tasks.
#ifndef MEGATWIN_EXEC_OUTBOX_H_
#define MEGATWIN_EXEC_OUTBOX_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "model/ids.h"
#include "model/program/program.h"

namespace megatwin::exec {

class Outbox {
 public:
  using Clock = std::chrono::steady_clock;

  struct Outgoing {
    model::TaskId producer;
    model::RankId to;
    model::TaskId consumer;
    std::vector<float> message;
    Clock::time_point made;
  };
  struct Sent {
    model::TaskId producer;
    Clock::time_point made, left;
  };

  // From the rank's own thread.

  // As many messages of each channel may be under way or untaken; 0 for no limit.
  // Requires: is_empty(), and no credit of an earlier step is still to come.
  void start_step(int receive_slots);
  // Gives the message back when it may leave now, which is then up to the caller; else keeps it.
  std::optional<Outgoing> put(std::int32_t channel, Outgoing outgoing);
  bool is_empty() const;
  // What has left since the last call, in that order.
  std::vector<Sent> take_sent();

  // From any thread: a slot of the channel is free again. What may leave now, up to the caller.
  std::optional<Outgoing> add_credit(std::int32_t channel);

 private:
  struct Line {
    std::int64_t credits = 0;
    std::deque<Outgoing> waiting;
  };
  Line& line(std::int32_t channel) { return lines_[static_cast<std::size_t>(channel)]; }

  mutable std::mutex mutex_;
  bool limited_ = false;
  std::array<Line, model::kNumChannels> lines_;
  std::vector<Sent> sent_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_OUTBOX_H_
