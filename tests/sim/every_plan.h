// Every small plan: each schedule with p ≤ 4 stages, m ≤ 4 micro-batches (8 where interleaving asks
// for whole groups), v ≤ 2 chunks, with and without transfers and each kind of overlap.
#ifndef MEGATWIN_TESTS_SIM_EVERY_PLAN_H_
#define MEGATWIN_TESTS_SIM_EVERY_PLAN_H_

#include <algorithm>
#include <string>
#include <vector>

#include "model/program/program_spec.h"
#include "policies/schedule.h"
#include "tests/sim/pipeline_specs.h"

namespace megatwin::tests {

inline model::ProgramSpec random_spec(Random& random, model::ScheduleKind schedule, int p, int v,
                                      int m) {
  model::ProgramSpec spec{
      .pipeline = p, .model_chunks = v, .micro_batches = m, .schedule = schedule};
  for (int stage = 0; stage < p; ++stage) {
    spec.stages.push_back(random_stage(random, v));
  }
  return spec;
}

// Boundaries that differ, the one that wraps around too.
inline std::vector<model::PipelineHop> random_hops(Random& random, int p) {
  std::vector<model::PipelineHop> hops;
  hops.reserve(static_cast<std::size_t>(p));
  for (int boundary = 0; boundary < p; ++boundary) {
    hops.push_back({{random.in(0, 40)}, {random.in(0, 40)}});
  }
  return hops;
}

inline std::string hops_text(const model::ProgramSpec& spec) {
  std::string text;
  for (const model::PipelineHop& hop : spec.hops) {
    text += " " + std::to_string(hop.activation.ns) + "/" + std::to_string(hop.gradient.ns);
  }
  return text.empty() ? text : " hops" + text;
}

inline std::string describe(const model::ProgramSpec& spec) {
  return "schedule " + std::to_string(static_cast<int>(spec.schedule)) +
         " p=" + std::to_string(spec.pipeline) + " v=" + std::to_string(spec.model_chunks) +
         " m=" + std::to_string(spec.micro_batches) +
         " group=" + std::to_string(spec.micro_batch_group) +
         " send=" + std::to_string(spec.send_activation.ns) + "/" +
         std::to_string(spec.send_gradient.ns) + " overlap p2p " +
         std::to_string(spec.overlap_p2p) + " reduce " + std::to_string(spec.overlap_grad_reduce) +
         " gather " + std::to_string(spec.overlap_param_gather) + hops_text(spec);
}

// The legal combinations of schedule, p, v and m, with uneven costs.
template <class Visit>
void visit_every_shape(Visit visit) {
  using model::ScheduleKind;
  Random random(20240612);
  for (const auto schedule :
       {ScheduleKind::GPipe, ScheduleKind::OneForwardOneBackward, ScheduleKind::Interleaved,
        ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleV}) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 2; ++v) {
        for (int m = 1; m <= (schedule == ScheduleKind::Interleaved ? 8 : 4); ++m) {
          const model::ProgramSpec spec = random_spec(random, schedule, p, v, m);
          if (policies::schedule_problems(spec).empty()) {
            visit(spec);
          }
        }
      }
    }
  }
}

// Each of those without transfers, with equal ones and with one of its own for every boundary, and
// with each kind of overlap.
template <class Visit>
void visit_every_plan(Visit visit) {
  Random random(20261129);
  visit_every_shape([&](model::ProgramSpec spec) {
    for (const std::int64_t send : {0, 17, -1}) {
      for (int overlap = 0; overlap < 8; ++overlap) {
        spec.send_activation = {std::max<std::int64_t>(send, 0)};
        spec.send_gradient = {2 * spec.send_activation.ns};
        spec.hops.clear();
        if (send < 0) spec.hops = random_hops(random, spec.pipeline);
        spec.overlap_p2p = (overlap & 1) != 0;
        spec.overlap_grad_reduce = (overlap & 2) != 0;
        spec.overlap_param_gather = (overlap & 4) != 0;
        visit(spec);
      }
    }
  });
}

// Any legal plan of up to 6 stages, 3 chunks and 14 micro-batches.
inline model::ProgramSpec random_plan(Random& random) {
  using model::ScheduleKind;
  constexpr ScheduleKind kSchedules[] = {ScheduleKind::GPipe, ScheduleKind::OneForwardOneBackward,
                                         ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleH1,
                                         ScheduleKind::ZeroBubbleV};
  for (;;) {
    model::ProgramSpec spec =
        random_spec(random, kSchedules[random.in(0, 4)], static_cast<int>(random.in(1, 6)),
                    static_cast<int>(random.in(1, 3)), static_cast<int>(random.in(1, 14)));
    if (spec.schedule == ScheduleKind::Interleaved) {
      spec.micro_batch_group = static_cast<int>(random.in(0, 8));
    }
    if (!policies::schedule_problems(spec).empty()) {
      continue;
    }
    spec.send_activation = {random.in(0, 30)};
    spec.send_gradient = {random.in(0, 30)};
    if (random.coin()) spec.hops = random_hops(random, spec.pipeline);
    spec.overlap_p2p = random.coin();
    spec.overlap_grad_reduce = random.coin();
    spec.overlap_param_gather = random.coin();
    spec.overlap_slowdown = random.coin() ? 0 : 0.25;
    return spec;
  }
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIM_EVERY_PLAN_H_
