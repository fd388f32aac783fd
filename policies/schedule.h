// Static schedules: for every stage the list of tasks in the order in which they run. Whether a
// schedule can run at all is answered with every reason at once.
#ifndef MEGATWIN_POLICIES_SCHEDULE_H_
#define MEGATWIN_POLICIES_SCHEDULE_H_

#include <string>
#include <vector>

#include "model/ids.h"
#include "model/program/pipeline_shape.h"
#include "model/program/program_spec.h"

namespace megatwin::policies {

using Order = std::vector<model::TaskId>;

// Why `spec` cannot run, in words for its author; empty when it can. Looks at the sizes, at what
// the schedule demands of p, v and m, and at the order file down to deadlocks between stages.
std::vector<std::string> schedule_problems(const model::ProgramSpec& spec);

// What is legal here, but refused or slow elsewhere.
std::vector<std::string> schedule_warnings(const model::ProgramSpec& spec);

// One order a stage.
// Requires: schedule_problems(spec) is empty, and the schedule is a static one.
std::vector<Order> schedule_orders(const model::ProgramSpec& spec);
// Those of several specs one behind the other.
std::vector<Order> schedule_orders(const std::vector<model::ProgramSpec>& specs);

// The single schedules. `shape` must be what pipeline_shape() gives for them.

// All forwards, then all backwards; with v > 1 chunk by chunk (breadth first).
// Source: Huang et al., arXiv:1811.06965; Lamy-Poirier, arXiv:2211.05953, for v > 1.
Order gpipe_order(const model::PipelineShape& shape, model::StageId stage);

// min(p−1−stage, m) forwards to warm up, then one forward and one backward in turn.
// Source: Narayanan et al., arXiv:2006.09503 (PipeDream-Flush).
Order one_forward_one_backward_order(const model::PipelineShape& shape, model::StageId stage);

// Megatron-LM's interleaved order: 2(p−1−stage) + (v−1)·group forwards to warm up, then one forward
// and one backward in turn; `group` micro-batches pass one chunk before the next takes over.
// Requires: m mod group is 0 or at least p, group in [p, m].
// Source: Narayanan et al., arXiv:2104.04473, section 2.2.
Order interleaved_order(const model::PipelineShape& shape, model::StageId stage, int group);

// One forward, one backward with the backward split: stage i runs the weight gradient of a
// micro-batch i backwards later, so that every stage holds p micro-batches at most.
// Source: Qi et al., arXiv:2401.10241, section 2 (ZB-H1).
Order zero_bubble_h1_order(const model::PipelineShape& shape, model::StageId stage);

// The V schedule: no bubble when F = B = W and m ≥ 2p, in the memory of 1F1B.
// Source: Qi et al., arXiv:2405.15362, the V-ZB schedule.
Order zero_bubble_v_order(const model::PipelineShape& shape, model::StageId stage);

// A side of a decoupled pipeline: all forwards, then weight gradients that are left to it; or in
// turn a recompute and its backward.
// Source: MegaFBD, the drawings of forward and backward instances.
Order decoupled_order(const model::PipelineShape& shape, model::StageId stage);

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_SCHEDULE_H_
