// Makespans and bubbles of pipeline schedules over equal stages without transfer time, and bounds
// for unequal ones. Oracles for the simulator and the first bound of a search; they know nothing of
// networks or memory limits.
#ifndef MEGATWIN_MODEL_PIPELINE_CLOSED_FORMS_H_
#define MEGATWIN_MODEL_PIPELINE_CLOSED_FORMS_H_

#include <cstdint>
#include <span>

#include "model/plan.h"
#include "model/units.h"

namespace megatwin::model {

// Times of one micro-batch on one whole stage (all v chunks). The backward pass may be split into
// the gradient of the input (B of the zero-bubble paper) and of the weights (W).
struct StageTimes {
  Seconds forward;
  Seconds backward_input;
  Seconds backward_weight;
  Seconds backward() const { return backward_input + backward_weight; }
  Seconds total() const { return forward + backward(); }
};

struct PipelineShape {
  double stages = 1;         // p
  double micro_batches = 1;  // m
  double chunks = 1;         // v, model chunks a rank.
};

// Idle over total time of GPipe and 1F1B, (p−1)/(m+p−1), and idle over ideal time, (p−1)/(v·m).
// Source: Narayanan et al., SC21, arXiv:2104.04473, sections 2.2.1 and 2.2.2.
double bubble_fraction(const PipelineShape& shape);
double bubble_ratio(const PipelineShape& shape);

// (m + p − 1)(F + B) for GPipe and 1F1B; m(F + B) + (p−1)(F + B)/v when interleaved and p | m;
// m(F+B+W) + (p−1)(F+B−W) for ZB-H1 and without bubble term for ZB-V.
// An order file has no closed form: the bound m(F + B) is given.
Seconds pipeline_makespan(ScheduleKind schedule, const PipelineShape& shape,
                          const StageTimes& times);

// Bubbles of split-backward schedules: (p−1)(F+B−W), (p−1)(F+B−2W).
// Source: Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, table 2.
Seconds bubble_time_1f1b(const PipelineShape& shape, const StageTimes& times);
Seconds bubble_time_zero_bubble_h1(const PipelineShape& shape, const StageTimes& times);
Seconds bubble_time_zero_bubble_h2(const PipelineShape& shape, const StageTimes& times);

// (p/2 − 1)(F&B + B − 3W): `overlapped` is F&B, one forward and one backward run together;
// `backward` is the whole backward pass. Source: deepseek-ai/DualPipe, README, bubble table.
Seconds bubble_time_dualpipe(const PipelineShape& shape, Seconds overlapped, Seconds backward,
                             Seconds backward_weight);

// Rate of bubbles relative to 1F1B's at F = B = W, and memory relative to it.
// Source: sail-sg/zero-bubble README, comparison table.
enum class SplitSchedule { ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, VHalf, VMin };
double bubble_over_1f1b(SplitSchedule schedule);
double memory_over_1f1b(SplitSchedule schedule, const PipelineShape& shape);

// Micro-batches whose activations stage `stage` (from 0) holds at most, in whole-stage equivalents.
// Interleaved: Megatron's warm-up of 2(p−1−r) + (v−1)p + 1 chunks.
double in_flight_micro_batches(ScheduleKind schedule, const PipelineShape& shape, int stage);

// Forward only, unequal stages: Σt + (m−1)·max t, exact (a flow shop of equal jobs).
Seconds flow_shop_makespan(std::span<const Seconds> stage_times, double micro_batches);

// Lower bound of 1F1B over unequal stages, exact in most cases:
// max over j of m(f_j+b_j) + Σ_{i<j}(f_i+b_i) + max(0, Σ_{i>j}(f_i+b_i) − (p−1−j)·f_j).
Seconds uneven_1f1b_bound(std::span<const StageTimes> stages, double micro_batches);

// (b'/b + p − 1)(tf + tb): step time of a replica's b' = B/d sequences in micro-batches of b, which
// take tf and tb. Source: SC21, arXiv:2104.04473, eq. 1.
struct ReplicaBatch {
  double sequences = 1;    // b'
  double micro_batch = 1;  // b
};
Seconds step_time_of_replica(const ReplicaBatch& batch, double stages, const StageTimes& times);

// Bubble over ideal time when n GPUs are split into d replicas of n/d stages and a replica's share
// of B/b = b' micro-batches is b'/d: (n − d)/b'. Source: SC21, section 3.3.1 (tensor size 1).
double bubble_ratio_of_replicas(double num_gpus, double data, double micro_batches_total);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PIPELINE_CLOSED_FORMS_H_
