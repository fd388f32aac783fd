// What the first process of a search and those that help it must do alike.
#ifndef MEGATWIN_SIM_SEARCH_HELPER_H_
#define MEGATWIN_SIM_SEARCH_HELPER_H_

#include "model/job.h"
#include "sim/search/byte_stream.h"
#include "sim/search/plan_list.h"
#include "sim/search/search.h"

namespace megatwin::sim {

// The job without contention for links and without disturbances: what plans are ranked by.
model::Job plain_job(const model::Job& job);

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
Loser explain_loser(const model::Job& job, const SearchSpace& space, model::Bytes memory_limit,
                    const LoserQuestion& question);

// All of it but the plan, which who asked knows.
void write(const Loser& loser, ByteWriter& out);
Loser read_loser(const model::Plan& plan, ByteReader& in);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_HELPER_H_
