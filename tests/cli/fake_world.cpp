#include "tests/cli/fake_world.h"

#include <sstream>

#include "tests/cli/report_fixture.h"

namespace megatwin::tests {

model::Result<std::vector<cli::LoadedPoint>> FakeWorld::load_points(
    const std::string& file, const cli::LoadOptions& options) const {
  if (file == "bad.yaml") {
    return model::fail(
        model::Diagnostics{{.file = file, .line = 3, .key = "plan.tensr", .message = "unknown key"},
                           {.file = file, .line = 4, .key = "gpu", .message = "unknown GPU"}});
  }
  model::Job job;
  job.name = file;
  job.cluster.groups.emplace_back().count = 64;
  if (options.sweep.empty()) return std::vector<cli::LoadedPoint>{job};
  std::vector<cli::LoadedPoint> points;
  std::istringstream values(options.sweep.front().substr(std::string("gpus=").size()));
  for (std::string value; std::getline(values, value, ',');) {
    model::Job point = job;
    point.name += " gpus=" + value;
    point.cluster.groups[0].count = std::stoi(value) / 8;
    points.emplace_back(std::move(point));
  }
  return points;
}

cli::Answer FakeWorld::simulate(const model::Job& job, const cli::SimulateRequest& request) const {
  if (job.name == "big.yaml") return refusal_fixture();
  sim::SimulationReport report = scaled_report(job.cluster.num_gpus());
  if (!request.explain) report.priced_ops.clear();
  if (!request.timeline) report.timeline.clear();
  return report;
}

}  // namespace megatwin::tests
