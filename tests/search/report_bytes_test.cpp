// Reports that cross processes say what they said, whatever parts they have.
#include "sim/search/report_bytes.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/report/json_report.h"
#include "sim/search/loser_reasons.h"
#include "tests/search/search_jobs.h"

namespace megatwin::tests {
namespace {

std::string json_of(const sim::SimulationReport& report) {
  const std::vector<cli::NamedAnswer> answers = {{.name = "report", .answer = report}};
  return cli::json_answers(answers);
}

std::string yaml(const std::string& plan, const std::string& more) {
  return "model: {name: llama-3-8b, sequence_length: 4096}\n"
         "cluster: {nodes: [{type: dgx-h100, count: 2, price_per_hour: 80 USD/h}]}\n"
         "software: {framework: megatron-core}\n"
         "plan: {tensor: 2, pipeline: 4, micro_batch: 1, global_batch: 16, recompute: full, " +
         plan + "}\n" + more;
}

TEST(ReportBytes, AReportComesBackAsItWas) {
  const std::vector<std::string> jobs = {
      yaml("data: 2", ""),
      yaml("data: 2", "network: maxmin\n"),
      yaml("data: 2", "disturbances: [{kind: slow-gpu, rank: 12, factor: 1.5}]\n"),
      yaml("data: 2",
           "failures: {per_node_day: 0.1, span: 30 d, seeds: 5, checkpoint: {blocks: 30 s}}\n"),
      yaml("data: 2", "policy: {schedule: dpp}\n"),
      yaml("data: 1", "policy: {schedule: fbd}\n"),
      "model: {name: gpt-18b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 4}, {type: dgx-1v-32g, count: 4}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 8, pipeline: 4, data: auto, micro_batch: 1, global_batch: 64, zero: 1,\n"
      "       recompute: full, precision: fp16, layers_per_stage: auto}\n"};
  for (const std::string& text : jobs) {
    SCOPED_TRACE(text);
    const model::Job job = job_from(text);
    const auto report = sim::report_of_plan(job, job.plan, {});
    sim::ByteWriter out;
    write(report, out);
    sim::ByteReader in(out.bytes());
    const sim::SimulationReport back = sim::read_report(in);
    EXPECT_TRUE(in.at_end());
    EXPECT_EQ(json_of(back), json_of(report));
  }
}

}  // namespace
}  // namespace megatwin::tests
