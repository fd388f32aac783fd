// Host time of one collective where one process drives several GPUs, as nccl-tests does with
// `-g 8` or `-t 8`: its launches follow each other, and a small collective repeats no faster than
// they do. A process a GPU launches ahead of its device, and pays nothing here. The number of
// channels, each of which costs the host, grows with the message as in NCCL's enqueue code.
// Constants: docs/constants.md, "Collectives". Arithmetic only; callable from any thread.
// Source of the channel rule: NVIDIA/nccl v2.8, src/enqueue.cc and src/graph/tuning.cc.
#ifndef MEGATWIN_MODEL_NCCL_LAUNCH_H_
#define MEGATWIN_MODEL_NCCL_LAUNCH_H_

#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

struct NcclLaunch {
  int ranks = 1;
  int gpus_per_process = 1;
  int threads_per_process = 1;
  int channels = 24;  // That NCCL executes at most.
};

// Channels of a ring that carries `bytes`: one for every 512 threads of 8 · ranks bytes, at least
// one. Requires: ranks and channels >= 1.
int nccl_ring_channels(Bytes bytes, const NcclLaunch& launch);

// Least time from one call to the next; 0 with a GPU a process.
Seconds nccl_launch_time(CollectiveKind kind, Bytes bytes, const NcclLaunch& launch);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_NCCL_LAUNCH_H_
