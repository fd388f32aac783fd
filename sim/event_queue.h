// The agenda of the event engine: a heap with a total order, by time, then rank, then id, so that
// simultaneous events come out in one order on every machine.
#ifndef MEGATWIN_SIM_EVENT_QUEUE_H_
#define MEGATWIN_SIM_EVENT_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/assert.h"
#include "model/program/decision_record.h"
#include "sim/pipeline_costs.h"

namespace megatwin::sim {

// Sixteen bytes. The id is the kind of the event above 28 bits for the message's task, the chunk or
// the channel; tasks that are done count by position in the lane, so that two of no length end in
// the order in which they ran.
struct QueuedEvent {
  Nanoseconds time = 0;
  std::uint64_t rank_and_id = 0;

  static constexpr int kIndexBits = 28;
  static QueuedEvent make(Nanoseconds time, std::size_t rank, model::ExecutorEventKind kind,
                          std::int32_t index) {
    const auto id = (static_cast<std::uint32_t>(kind) << kIndexBits) |
                    static_cast<std::uint32_t>(index);
    return {time, (static_cast<std::uint64_t>(rank) << 32) | id};
  }
  std::size_t rank() const { return static_cast<std::size_t>(rank_and_id >> 32); }
  model::ExecutorEventKind kind() const {
    return static_cast<model::ExecutorEventKind>((rank_and_id & 0xffffffffu) >> kIndexBits);
  }
  std::int32_t index() const {
    return static_cast<std::int32_t>(rank_and_id & ((1u << kIndexBits) - 1));
  }
  friend bool operator<(const QueuedEvent& a, const QueuedEvent& b) {
    return a.time != b.time ? a.time < b.time : a.rank_and_id < b.rank_and_id;
  }
};
static_assert(sizeof(QueuedEvent) == 16);

// A heap with four children a node: half as deep as a binary one, and the children of a node share a
// cache line.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }

  void push(const QueuedEvent& event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 4;
      if (!(event < heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  // Requires: !empty().
  QueuedEvent pop() {
    const QueuedEvent first = heap_.front();
    const QueuedEvent last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  void sink(const QueuedEvent& event) {
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (;;) {
      const std::size_t child = 4 * hole + 1;
      if (child >= size) break;
      const std::size_t end = std::min(child + 4, size);
      std::size_t least = child;
      for (std::size_t other = child + 1; other < end; ++other) {
        if (heap_[other] < heap_[least]) least = other;
      }
      if (!(heap_[least] < event)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<QueuedEvent> heap_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_EVENT_QUEUE_H_
