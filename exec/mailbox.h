// What others leave for one rank: events for its Executor, the numbers of messages by the task that
// waits for them, and letters, by which ranks do everything that they do together. The rank's own
// thread takes them, and parks here when nothing is left to do: the one place where it waits.
#ifndef MEGATWIN_EXEC_MAILBOX_H_
#define MEGATWIN_EXEC_MAILBOX_H_

#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/byte_stream.h"
#include "model/ids.h"
#include "model/program/decision_record.h"

namespace megatwin::exec {

using model::ByteReader;
using model::bytes_of;
using model::ByteVector;
using model::ByteWriter;
using model::values_of;

// What a letter is about. Letters from one rank on one channel are taken in the order in which they
// were sent.
enum class Topic : std::int32_t {
  Group,          // Of a group's collectives; the number is its kind.
  LocalTokens,    // Gradients inside a tensor-parallel group; the number is the chunk.
  Replicas,       // Gradients among replicas; chunk.
  Experts,        // Gradients among replicas of experts; chunk.
  Weights,        // What a replica stepped; chunk.
  ExpertWeights,  // Of experts; chunk.
  TiedEnds,       // Gradients of tied embeddings; 0 from the embedding, 1 from the head.
  Norm,           // Parts of the gradients' norm.
  Meeting,        // The ends of a step.
  StateWanted,    // Rank 0 asks for weights and moments.
  State,          // The answer.
  WeightsHash,    // Handed from rank to rank at the end.
  Report,         // Of a rank of another process, at the end.
  SideWeights,    // What the backward side stepped, for the forward side; chunk.
  SideGradients,  // What the forward side summed, for the backward side; chunk.
  Crossing,       // Between the sides while a step runs: a task of the receiver, and numbers.
};
struct Channel {
  Topic topic = Topic::Group;
  std::int32_t number = 0;
  friend constexpr auto operator<=>(const Channel&, const Channel&) = default;
};

class Mailbox {
 public:
  // From any thread.
  void post(const model::ExecutorEvent& event);
  void deliver(model::TaskId consumer, std::vector<float> message);  // With its MessageArrived.
  void put(model::TaskId consumer, std::vector<float> message);      // Without.
  void put_letter(model::RankId from, const Channel& channel, ByteVector letter);
  void wake();

  // From the rank's thread.

  // Appends what has come, in the order in which it came. Whether anything had.
  bool take_events(std::vector<model::ExecutorEvent>& events);
  // Requires: the message is there.
  std::vector<float> take_message(model::TaskId consumer);
  // Nothing when there is none.
  std::optional<ByteVector> take_letter(model::RankId from, const Channel& channel);
  bool has_letters(std::span<const model::RankId> from, const Channel& channel);
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
  std::map<std::pair<Channel, model::RankId>, std::deque<ByteVector>> letters_;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_MAILBOX_H_
