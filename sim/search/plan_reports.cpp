#include "sim/search/plan_reports.h"

#include <atomic>
#include <utility>
#include <variant>

#include "model/assert.h"
#include "sim/search/loser_reasons.h"
#include "sim/search/report_bytes.h"
#include "sim/sensitivity.h"
#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using model::Bytes;
using model::Job;
using model::Plan;
using model::Seconds;
using Kind = ReportQuestion::Kind;

std::string depth_of(const Job& checked) {
  std::string depth = checked.network == model::NetworkKind::Analytic
                          ? "events"
                          : std::string(name_of(checked.network));
  if (!checked.disturbances.empty()) depth += " with disturbances";
  return depth;
}

void write(const FoundPlan& found, ByteWriter& out) {
  write(found.report, out);
  out.put_text(found.depth);
  out.put(found.plain_time);
}

FoundPlan read_found_plan(ByteReader& in) {
  FoundPlan found;
  found.report = read_report(in);
  found.depth = in.text();
  found.plain_time = in.get<Seconds>();
  return found;
}

}  // namespace

PlanReports::PlanReports(const Job& job, const Job& checked, Bytes memory_limit)
    : job_(job), checked_(checked), memory_limit_(memory_limit), depth_(depth_of(checked)) {}

std::optional<FoundPlan> PlanReports::finalist(const Plan& plan, Seconds plain_time,
                                               bool sensitivities) const {
  Job job = checked_;
  job.plan = plan;
  auto answer = simulate(job, {.engine = EngineChoice::Events, .sensitivities = sensitivities});
  if (auto* report = std::get_if<SimulationReport>(&answer)) {
    MEGATWIN_ASSERT(!is_plain() || report->step_time == plain_time,
                    "two times for a plan: ", report->step_time.value, " and ", plain_time.value);
    if (report->memory_peak > memory_limit_) return std::nullopt;
    return FoundPlan{std::move(*report), depth_, plain_time};
  }
  // Orders that are decided while the step runs may hold more where something is slow.
  const auto& refusal = std::get<PlanRefusal>(answer);
  if (refusal.report) return std::nullopt;
  // The plan is legal and fits: it is the network that cannot be simulated.
  const auto& reasons = refusal.reasons;
  FoundPlan found{
      report_of_plan(job_, plan, {.engine = EngineChoice::Events, .sensitivities = sensitivities}),
      "events", plain_time};
  found.report.warnings.push_back("not simulated as " + depth_ +
                                  (reasons.empty() ? "" : ": " + reasons.front()));
  return found;
}

std::optional<FoundPlan> PlanReports::decided(const Plan& plan) const {
  Job job = job_;
  job.plan = plan;
  PipelineCache cache;
  const SimulateOptions options{
      .engine = EngineChoice::Events, .cache = &cache, .sensitivities = false};
  auto answer = simulate(job, options);
  auto* plain = std::get_if<SimulationReport>(&answer);
  if (plain == nullptr || plain->memory_peak > memory_limit_) return std::nullopt;
  const Seconds plain_time = plain->step_time;
  if (!is_plain()) return finalist(plan, plain_time, true);
  fill_sensitivities(job, options, *plain);
  return FoundPlan{std::move(*plain), depth_, plain_time};
}

std::optional<FoundPlan> PlanReports::answer(const ReportQuestion& question) const {
  switch (question.kind) {
    case Kind::Plain: {
      FoundPlan found{
          report_of_plan(job_, question.plan, {.sensitivities = false}), "dataflow", {}};
      found.plain_time = found.report.step_time;
      return found;
    }
    case Kind::Finalist:
      return finalist(question.plan, question.plain_time, true);
    case Kind::Decided:
      return decided(question.plan);
  }
  MEGATWIN_ASSERT(false, "unknown kind of question");
}

std::vector<std::optional<FoundPlan>> PlanReports::ask(
    Candidates& candidates, const std::vector<ReportQuestion>& questions,
    const std::function<void(std::size_t)>& done) const {
  std::vector<std::optional<FoundPlan>> found(questions.size());
  std::atomic<std::size_t> count = 0;
  const auto add = [&](std::size_t i, std::optional<FoundPlan> plan) {
    found[i] = std::move(plan);
    if (done) done(++count);
  };
  candidates.run({.kind = WorkKind::Reports,
                  .count = questions.size(),
                  .here = [&](std::size_t i, int /*thread*/) { add(i, answer(questions[i])); },
                  .request =
                      [&](std::size_t i, ByteWriter& out) {
                        out.put(questions[i].kind);
                        out.put(questions[i].plain_time);
                        write(questions[i].plan, out);
                      },
                  .take =
                      [&](std::size_t i, ByteReader& in) {
                        add(i, in.get<bool>() ? std::optional(read_found_plan(in)) : std::nullopt);
                      }});
  return found;
}

void PlanReports::answer(ByteReader& request, ByteWriter& result) const {
  ReportQuestion question{.kind = request.get<Kind>()};
  question.plain_time = request.get<Seconds>();
  question.plan = read_plan(request);
  const std::optional<FoundPlan> found = answer(question);
  result.put(found.has_value());
  if (found) write(*found, result);
}

}  // namespace megatwin::sim
