// What a job's disturbances are to the job: which of them strike parts of its cluster while a step
// runs, and which is a property of its tokens, that every plan and every cluster has to carry.
#ifndef MEGATWIN_SIM_DISTURBED_JOB_H_
#define MEGATWIN_SIM_DISTURBED_JOB_H_

#include <string>

#include "model/job.h"

namespace megatwin::sim {

// The job as it would be without its disturbances.
model::Job undisturbed(model::Job job);

// The job on its cluster as it should be: uneven experts stay, since they go with the tokens; the
// other disturbances, of parts of the cluster and of the clock, are gone. Whether a plan fits is
// the same as with all of them where its order is fixed.
model::Job on_sound_cluster(model::Job job);
bool has_sound_cluster(const model::Job& job);

// Of the busiest expert-parallel rank over the mean: the plan's times that of the disturbances.
double expert_imbalance(const model::Job& job);
// The job with that in its plan. The disturbances stay, for what a table of tokens says of links.
model::Job with_imbalance(model::Job job);
// Whether tables of tokens are of as many ranks as the plan's expert groups: what a scenario that
// is simulated has to keep.
bool fits_token_tables(const model::Job& job);

// "slow-gpu n3/gpu2 × 1.3, jitter 2 %": what on_sound_cluster() leaves out; empty: nothing.
std::string struck_text(const model::Job& job);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_DISTURBED_JOB_H_
