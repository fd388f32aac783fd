// What a plan's tasks cost and what its stages hold, for thousands of plans of one job: the same
// durations and bytes as model::build_job_program(), to the bit, with everything that plans share
// priced once. Not thread-safe: one a thread. Results do not depend on what was asked before.
#ifndef MEGATWIN_SIM_SEARCH_PLAN_PRICER_H_
#define MEGATWIN_SIM_SEARCH_PLAN_PRICER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/job.h"
#include "model/program/program_spec.h"
#include "sim/search/chunk_layout.h"

namespace megatwin::sim {

// The costs of one plan, each kind of stage once.
struct PricedPlan {
  const ChunkLayout* layout = nullptr;   // Lives as long as the pricer.
  std::vector<model::StageCost> stages;  // By kind of stage.
  std::vector<model::PipelineHop> hops;  // Of the pipeline, by boundary; none without one.
  // By kind of stage: what the tasks of a micro-batch draw beyond an idle GPU (sim/power.h).
  std::vector<model::Seconds> draw;
  model::Seconds step_overhead;
  // Of one pricer: answers of one number have equal costs and sizes.
  std::uint64_t number = 0;

  const model::StageCost& stage(int index) const {
    return stages[static_cast<std::size_t>(layout->kind_of_stage[static_cast<std::size_t>(index)])];
  }
};

class PlanPricer {
 public:
  // Of the job's disturbances uneven experts count; the others do not.
  explicit PlanPricer(const model::Job& job);
  ~PlanPricer();
  PlanPricer(const PlanPricer&) = delete;
  PlanPricer& operator=(const PlanPricer&) = delete;

  // The answer is good until the next call.
  // Requires: the plan is legal, and its schedule is not an order file.
  const PricedPlan& price(const model::Plan& plan);

  // The job with the plan that was priced last.
  const model::Job& job() const { return job_; }

 private:
  struct TaskKey;
  struct LayoutKey;
  class TaskTable;

  const ChunkLayout& layout_of(const model::Plan& plan);
  TaskTable& table_of(const model::Plan& plan);

  model::Job job_;  // Without its remarks; the tables look at it.
  std::map<LayoutKey, ChunkLayout> layouts_;
  std::map<TaskKey, std::unique_ptr<TaskTable>> tables_;
  // Plans that follow each other share most: all of one data-parallel traffic, priced once a
  // layout.
  const void* traffic_ = nullptr;  // Which one.
  std::list<PricedPlan> priced_;
  std::uint64_t last_number_ = 0;
};

// The whole program of a priced plan, one entry a stage, as build_job_program() makes it.
model::ProgramSpec program_spec(const model::Plan& plan, const PricedPlan& priced);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_PLAN_PRICER_H_
