#include "tests/simulate/job_fixture.h"

#include <variant>

#include <gtest/gtest.h>

#include "model/assert.h"
#include "scenarios/scenario.h"

namespace megatwin::tests {

model::Job job_from(const std::string& yaml) {
  auto scenario = scenarios::parse_scenario("test.yaml", yaml, {});
  if (!scenario) {
    ADD_FAILURE() << model::to_text(scenario.error());
    return {};
  }
  return scenario->jobs.front();
}

sim::SimulationReport report_of(const model::Job& job, const sim::SimulateOptions& options) {
  auto answer = sim::simulate(job, options);
  if (auto* report = std::get_if<sim::SimulationReport>(&answer)) return *report;
  const auto& refusal = std::get<sim::PlanRefusal>(answer);
  const std::string reason = refusal.reasons.empty() ? "" : refusal.reasons.front();
  MEGATWIN_ASSERT(refusal.report.has_value(), refusal.message, ": ", reason);
  return *refusal.report;
}

}  // namespace megatwin::tests
