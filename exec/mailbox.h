// What other threads leave for one rank: events for its Executor, and the numbers of messages by
// the task that waits for them. The rank's own thread takes them, and parks here when nothing is
// left to do: the one place where it waits.
#ifndef MEGATWIN_EXEC_MAILBOX_H_
#define MEGATWIN_EXEC_MAILBOX_H_

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "model/ids.h"
#include "model/program/decision_record.h"

namespace megatwin::exec {

class Mailbox {
 public:
  // From any thread.
  void post(const model::ExecutorEvent& event);
  void deliver(model::TaskId consumer, std::vector<float> message);  // With its MessageArrived.
  void put(model::TaskId consumer, std::vector<float> message);      // Without.
  void wake();

  // From the rank's thread.

  // Appends what has come, in the order in which it came. Whether anything had.
  bool take_events(std::vector<model::ExecutorEvent>& events);
  // Requires: the message is there.
  std::vector<float> take_message(model::TaskId consumer);
  // Returns when something has come or somebody called wake() since the last call, at the latest
  // after `limit`. Whether it was not the limit.
  bool park(std::chrono::milliseconds limit);
  // Drops events of a step that is over.
  void clear_events();

 private:
  void signal();

  std::mutex mutex_;
  std::condition_variable arrived_;
  bool signalled_ = false;
  std::vector<model::ExecutorEvent> events_;
  std::map<model::TaskId, std::vector<float>> messages_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MAILBOX_H_
