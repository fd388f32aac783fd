// What happened when: one span of one rank's lane, in a simulated or a real run. The same record is
// drawn, exported to Perfetto and compared across worlds.
#ifndef MEGATWIN_MODEL_PROGRAM_EVENT_RECORD_H_
#define MEGATWIN_MODEL_PROGRAM_EVENT_RECORD_H_

#include <cstdint>

#include "model/ids.h"
#include "model/units.h"

namespace megatwin::model {

enum class Lane { Compute, SendForward, SendBackward, DataParallel };

enum class EventKind {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Recompute,
  SendActivation,
  SendGradient,
  ParameterGather,
  GradientReduce,
  Optimizer,
};

struct EventRecord {
  RankId rank;  // Simulated rank (a folded one stands for its multiplicity).
  Lane lane = Lane::Compute;
  EventKind kind = EventKind::Forward;
  MicroBatchId micro_batch;  // −1 where none applies.
  ChunkId chunk;
  Instant start, end;
  friend constexpr bool operator==(const EventRecord&, const EventRecord&) = default;
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_EVENT_RECORD_H_
