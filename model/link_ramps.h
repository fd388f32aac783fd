// What NCCL reaches on the links of one GPU generation, as measured: bandwidth ramps of each kind
// of collective on one node. Constants only; collective_cost.h is their only reader.
#ifndef MEGATWIN_MODEL_LINK_RAMPS_H_
#define MEGATWIN_MODEL_LINK_RAMPS_H_

#include "model/gpu_profile.h"
#include "model/nccl_tuning.h"

namespace megatwin::model {

// Measured behaviour of one link generation: efficiencies over the link bandwidth of one direction.
struct GenerationRamps {
  BandwidthRamp ring, multicast, gather, all_to_all, send, exchange, broadcast;
  double latency_factor;           // Measured small-message latency over the tuner's tables.
  double ll_factor, ll128_factor;  // Measured bandwidth of these protocols over the tuner's.
  double pair_factor;              // Ring limit of two GPUs over that of more.
  bool gather_half_by_peers;       // The half size of `gather` is divided by the other ranks.
};

const GenerationRamps& generation_ramps(NcclGeneration generation);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_LINK_RAMPS_H_
