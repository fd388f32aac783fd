#include "sim/search/helper.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "model/assert.h"
#include "sim/disturbed_job.h"
#include "sim/search/family_result.h"
#include "sim/search/plan_reports.h"

namespace megatwin::sim {

using model::Bytes;
using model::Instant;
using model::Job;
using model::Plan;

Job plain_job(const Job& job) {
  Job plain = on_sound_cluster(job);
  plain.network = model::NetworkKind::Analytic;
  return plain;
}

Job checked_job(const Job& job, const SearchOptions& options) {
  Job checked = job;
  checked.network = options.check.value_or(job.network);
  return checked;
}

Bytes search_memory_limit(const Job& job, const SearchOptions& options) {
  return (1 - options.memory_margin) * job.cluster.groups.front().gpu.memory_usable;
}

int search_threads(const SearchOptions& options) {
  if (options.num_threads > 0) return options.num_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

TimesWithout& LoserExplainer::times_of(const PlanCode& winner) {
  const std::lock_guard lock(mutex_);
  return winners_.try_emplace(winner, job_, plan_of(job_, space_, winner)).first->second;
}

Loser LoserExplainer::explain_slow(const Plan& plan, const PlanCode& winner) {
  return slow_loser(job_, plan, times_of(winner));
}

Loser LoserExplainer::explain(const LoserQuestion& question) {
  const Plan plan = plan_of(job_, space_, question.plan);
  if (!question.fits) return large_loser(job_, plan, memory_limit_);
  return explain_slow(plan, question.winner);
}

void write(const Loser& loser, ByteWriter& out) {
  out.put_text(loser.reason);
  out.put(loser.terms.size());
  for (const std::string& term : loser.terms) out.put_text(term);
  out.put(loser.too_slow);
  out.put(loser.too_large);
  out.put(loser.step_time);
}

Loser read_loser(const Plan& plan, ByteReader& in) {
  Loser loser{.plan = plan, .reason = in.text()};
  loser.terms.resize(in.get<std::size_t>());
  for (std::string& term : loser.terms) term = in.text();
  loser.too_slow = in.get<std::optional<model::Seconds>>();
  loser.too_large = in.get<std::optional<Bytes>>();
  loser.step_time = in.get<std::optional<model::Seconds>>();
  return loser;
}

void help_search(const Job& disturbed, const SearchSpace& space, const SearchOptions& options) {
  const Job job = plain_job(disturbed), checked = checked_job(disturbed, options);
  const Bytes limit = search_memory_limit(job, options);
  const int num_threads = search_threads(options);
  Candidates candidates(job, space, limit, num_threads);  // For its workers.
  const std::vector<PlanFamily> families = plan_families(job, space);
  const PlanReports reports(job, checked, limit);
  LoserExplainer losers(job, space, limit);
  help(*options.processes, num_threads,
       [&](WorkKind kind, std::size_t piece, int thread, ByteReader& request, ByteWriter& result) {
         SearchWorker& worker = candidates.worker(thread);
         switch (kind) {
           case WorkKind::Families:
             write(family_result(job, space, limit, families[piece], worker), result);
             return;
           case WorkKind::Times: {
             std::vector<Instant> times;
             for (const PlanCode& code : request.list<PlanCode>()) {
               times.push_back(worker.time(job, space, code));
             }
             result.put_list(times);
             return;
           }
           case WorkKind::Losers:
             write(losers.explain(request.get<LoserQuestion>()), result);
             return;
           case WorkKind::Reports:
             reports.answer(request, result);
             return;
           case WorkKind::End:
             break;
         }
         MEGATWIN_ASSERT(false, "unknown kind of work");
       });
}

}  // namespace megatwin::sim
