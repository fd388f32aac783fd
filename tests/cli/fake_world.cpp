#include "tests/cli/fake_world.h"

#include "tests/cli/report_fixture.h"

namespace megatwin::tests {

model::Result<model::Job> FakeWorld::load_job(const std::string& file,
                                              const std::vector<cli::Setting>& settings) const {
  if (file == "bad.yaml") {
    return model::fail(
        model::Diagnostics{{.file = file, .line = 3, .key = "plan.tensr", .message = "unknown key"},
                           {.file = file, .line = 4, .key = "gpu", .message = "unknown GPU"}});
  }
  model::Job job;
  job.name = file;
  job.cluster.groups.emplace_back().count = 64;
  for (const cli::Setting& setting : settings) {
    if (setting.key == "gpus") job.cluster.groups[0].count = std::stoi(setting.value) / 8;
  }
  return job;
}

cli::Answer FakeWorld::simulate(const model::Job& job, const cli::SimulateRequest& request) const {
  if (job.name == "big.yaml") return refusal_fixture();
  sim::SimulationReport report = scaled_report(job.cluster.num_gpus());
  if (!request.explain) report.priced_ops.clear();
  if (!request.timeline) report.timeline.clear();
  return report;
}

}  // namespace megatwin::tests
