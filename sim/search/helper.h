// What the first process of a search and those that help it must do alike.
#ifndef MEGATWIN_SIM_SEARCH_HELPER_H_
#define MEGATWIN_SIM_SEARCH_HELPER_H_

#include <map>
#include <mutex>

#include "model/job.h"
#include "sim/search/byte_stream.h"
#include "sim/search/loser_reasons.h"
#include "sim/search/plan_list.h"
#include "sim/search/search.h"

namespace megatwin::sim {

// The job without contention for links and without disturbances of its cluster: what plans are
// ranked by.
model::Job plain_job(const model::Job& job);

// The job as its finalists are simulated.
model::Job checked_job(const model::Job& job, const SearchOptions& options);

// What a plan may need at most.
model::Bytes search_memory_limit(const model::Job& job, const SearchOptions& options);

// The threads of this process.
int search_threads(const SearchOptions& options);

// Why a plan lost: it is slower than the winner, or does not fit.
struct LoserQuestion {
  PlanCode plan;
  bool fits = true;
  PlanCode winner;
};

// Thread-safe. `job` and `space` must outlive it.
class LoserExplainer {
 public:
  LoserExplainer(const model::Job& job, const SearchSpace& space, model::Bytes memory_limit)
      : job_(job), space_(space), memory_limit_(memory_limit) {}

  Loser explain(const LoserQuestion& question);
  // Of a plan outside the space, against the winner at this code.
  Loser explain_slow(const model::Plan& plan, const PlanCode& winner);

 private:
  TimesWithout& times_of(const PlanCode& winner);

  const model::Job& job_;
  const SearchSpace& space_;
  model::Bytes memory_limit_;
  std::mutex mutex_;
  std::map<PlanCode, TimesWithout> winners_;
};

// All of it but the plan, which who asked knows.
void write(const Loser& loser, ByteWriter& out);
Loser read_loser(const model::Plan& plan, ByteReader& in);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_HELPER_H_
