// How far apart checkpoints begin. Arithmetic only; callable from any thread.
#ifndef MEGATWIN_SIM_CHECKPOINT_PERIOD_H_
#define MEGATWIN_SIM_CHECKPOINT_PERIOD_H_

#include <algorithm>

#include "sim/goodput.h"

namespace megatwin::sim {

// From the begin of a checkpoint to the begin of the next: the time that the first one blocks and
// the work after it, or all of its write where that takes longer. Training then waits for the write
// before it begins the next. Source: PyTorch's recipe for asynchronous saving with
// torch.distributed.checkpoint, which waits for the future of the save before.
inline model::Seconds checkpoint_period(const GoodputJob& job) {
  return std::max(job.interval + job.checkpoint_blocks, job.checkpoint_durable);
}

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_CHECKPOINT_PERIOD_H_
