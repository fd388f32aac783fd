// Whole reports of single plans of a search, asked for many at once: of the finalists as closely as
// they can be looked at, of plans that decide while the step runs, and of those on the front. Done
// by any thread of any process, with the same answers.
#ifndef MEGATWIN_SIM_SEARCH_PLAN_REPORTS_H_
#define MEGATWIN_SIM_SEARCH_PLAN_REPORTS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"
#include "sim/search/byte_stream.h"
#include "sim/search/candidates.h"
#include "sim/search/search.h"

namespace megatwin::sim {

struct ReportQuestion {
  enum class Kind : int {
    Plain,     // By the dataflow engine, without sensitivities.
    Finalist,  // A fixed order as the search checks it. `plain_time` is known.
    Decided,   // No fixed order: nothing when it does not fit, disturbed as it may be.
  };
  Kind kind = Kind::Plain;
  model::Plan plan;
  model::Seconds plain_time;  // Of a finalist: without contention, on a sound cluster.
};

// Thread-safe.
class PlanReports {
 public:
  // `job` is plain; finalists are simulated as `checked` has it. Both must outlive this.
  PlanReports(const model::Job& job, const model::Job& checked, model::Bytes memory_limit);

  // Of a finalist that was simulated as `checked` has it.
  const std::string& depth() const { return depth_; }
  bool is_plain() const { return depth_ == "events"; }

  std::optional<FoundPlan> answer(const ReportQuestion& question) const;
  // A finalist that may go without sensitivities. Nothing when it holds more than in the search.
  std::optional<FoundPlan> finalist(const model::Plan& plan, model::Seconds plain_time,
                                    bool sensitivities) const;

  // Answers in the order of the questions, worked out by all threads and processes of `candidates`.
  // `done` is told how many there are, from several threads.
  std::vector<std::optional<FoundPlan>> ask(Candidates& candidates,
                                            const std::vector<ReportQuestion>& questions,
                                            const std::function<void(std::size_t)>& done) const;
  // What another process does for ask().
  void answer(ByteReader& request, ByteWriter& result) const;

 private:
  std::optional<FoundPlan> decided(const model::Plan& plan) const;

  const model::Job& job_;
  const model::Job& checked_;
  model::Bytes memory_limit_;
  std::string depth_;
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_PLAN_REPORTS_H_
