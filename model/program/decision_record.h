// The log of one Executor as plain data: every event that it consumed, in order, and every decision
// that it took. From the events alone the decisions come out again, byte for byte, so a log proves
// that two worlds ran the same policy.
#ifndef MEGATWIN_MODEL_PROGRAM_DECISION_RECORD_H_
#define MEGATWIN_MODEL_PROGRAM_DECISION_RECORD_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "model/ids.h"
#include "model/units.h"

namespace megatwin::model {

// A duration in sixty-fourths of an octave, linear inside the octave: 64 · floor(log2 ns) + the six
// bits after the leading one. Coarse enough that a policy cannot see noise, integer so that every
// machine agrees.
using QuantisedDuration = std::uint16_t;

constexpr QuantisedDuration quantise(Instant duration) {
  if (duration.ns < 1) return 0;
  const auto ns = static_cast<std::uint64_t>(duration.ns);
  const int octave = static_cast<int>(std::bit_width(ns)) - 1;
  const std::uint64_t fraction = octave >= 6 ? ns >> (octave - 6) : ns << (6 - octave);
  return static_cast<QuantisedDuration>(64 * octave + static_cast<int>(fraction & 63u));
}

// The smallest duration that quantises to `code`, except that durations under 64 ns round down.
constexpr Instant dequantise(QuantisedDuration code) {
  const int octave = code / 64;
  const std::int64_t mantissa = 64 + code % 64;
  return {octave >= 6 ? mantissa << (octave - 6) : mantissa >> (6 - octave)};
}

enum class ExecutorEventKind : std::uint8_t {
  StepStarted,
  TaskDone,         // `id` is the task.
  MessageArrived,   // `id` is the task that waits for it.
  GatherDone,       // `id` is the chunk.
  ReduceDone,       // `id` is the chunk.
  OptimizerDone,
  CreditReturned,   // `id` is the channel.
  OrderAnnounced,   // `id` is the task that the leader of the group chose.
};

struct ExecutorEvent {
  ExecutorEventKind kind = ExecutorEventKind::StepStarted;
  QuantisedDuration duration = 0;  // Of a task that is done; 0 otherwise.
  std::int32_t id = 0;
  friend constexpr bool operator==(const ExecutorEvent&, const ExecutorEvent&) = default;
};
static_assert(sizeof(ExecutorEvent) == 8);

struct DecisionRecord {
  static constexpr std::int32_t kWait = -1;
  std::int32_t task = kWait;        // Or kWait.
  std::uint32_t after_event = 0;    // How many events had been consumed.
  std::uint64_t state_hash = 0;     // Of the observation and of the policy's state line.
  friend constexpr bool operator==(const DecisionRecord&, const DecisionRecord&) = default;
};
static_assert(sizeof(DecisionRecord) == 16);

struct ExecutorLog {
  std::vector<ExecutorEvent> events;
  std::vector<DecisionRecord> decisions;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_DECISION_RECORD_H_
