// One job on machines of two kinds: for pairs of the kinds on offer and a few counts, the best of a
// small set of plans whose stages or replicas stand on kinds, with layers or micro-batches dealt by
// cost. Deterministic for any number of threads.
//
// Looked at: tensor sizes up to a machine; up to 16 stages in 1F1B with layers dealt by cost, or up
// to 8 with whole replicas on each kind and micro-batches dealt by cost; 1 or 2 sequences a
// micro-batch; no or full recomputation; the job's other settings. All of both offers, or half.
#ifndef MEGATWIN_SIM_PURCHASE_MACHINE_MIXES_H_
#define MEGATWIN_SIM_PURCHASE_MACHINE_MIXES_H_

#include <vector>

#include "model/job.h"
#include "model/training_wish.h"
#include "sim/purchase/purchase_option.h"
#include "sim/search/candidates.h"
#include "sim/search/search_space.h"

namespace megatwin::sim {

struct MachineMix {
  struct Part {
    int offer = 0;  // Into TrainingWish::offers.
    int machines = 1;
  };
  std::vector<Part> parts;  // Two.
  PurchaseOption option;    // Of both together; `offer` is that of the first.
};

struct MixRequest {
  // What the scenario's search allows; of its dimensions those that mixes try are looked at. Null:
  // anything.
  const SearchSpace* space = nullptr;
  int num_threads = 1;
  double memory_margin = 0;
  ProgressCallback progress;
};

// The job on so many machines of each part, which have equal numbers of GPUs.
model::Job job_on(const model::Job& job, const model::TrainingWish& wish,
                  const std::vector<MachineMix::Part>& parts);

// Combinations on which some plan is legal and fits, in the order of the offers. A machine's price,
// rating and power limit are the means of both kinds.
std::vector<MachineMix> machine_mixes(const model::Job& job, const model::TrainingWish& wish,
                                      const MixRequest& request);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PURCHASE_MACHINE_MIXES_H_
