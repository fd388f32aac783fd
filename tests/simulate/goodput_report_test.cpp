// `failures:` and `energy:` of a scenario, answered beside the step.
#include <algorithm>

#include <gtest/gtest.h>

#include "model/reliability.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::Seconds;
using sim::SimulationReport;

SimulationReport run(const std::string& more) {
  return report_of(job_from("model: {name: llama-3-8b, sequence_length: 4096}\n"
                            "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
                            "plan: {tensor: 4, data: auto, micro_batch: 1, global_batch: 64, "
                            "zero: 1}\n" +
                            more),
                   {.sensitivities = false});
}

// Llama 3's 54 days: 419 stops on 2,048 machines, 3.09 h apart; with 5 s a checkpoint and ten
// minutes an outage more than nine tenths of the time are effective in every one of 200 runs.
TEST(GoodputReport, OfLlamasFiftyFourDays) {
  const SimulationReport report = run(
      "failures: {parts: [{part: node, count: 2048, per_day: 0.0037887}], span: 54 d, detection: 2 "
      "min,\n  restart: 8 min, checkpoint: {blocks: 5 s}, seeds: 200}\n");
  ASSERT_TRUE(report.goodput);
  const sim::GoodputReport& goodput = *report.goodput;
  EXPECT_NEAR(goodput.mean_time_between_failures.value / 3600, 3.09, 0.0309);
  EXPECT_NEAR(goodput.spread.failures_mean, 419, 10);
  EXPECT_GT(goodput.spread.p05, 0.9);
  EXPECT_LE(goodput.spread.p05, goodput.expected);
  EXPECT_GE(goodput.spread.p95, goodput.expected);
  EXPECT_EQ(goodput.job.interval.value, goodput.daly.value);
  EXPECT_NEAR(ratio(goodput.best_simulated / goodput.daly), 1, 0.3);
}

// 8.03e9 parameters of 14 B over 2 GB/s are 56.2 s; asynchronously only the copy to the host
// blocks: a sixteenth over a PCIe of 64 GB/s or so. A slow storage shows.
TEST(GoodputReport, StorageSaysWhatACheckpointCosts) {
  const std::string head = "failures: {per_node_day: 0.1, span: 30 d, seeds: 50, checkpoint: ";
  const SimulationReport blocking = run(head + "{storage: 2 GB/s}}\n");
  const double bytes = 14.0 * static_cast<double>(blocking.parameters_total);
  EXPECT_DOUBLE_EQ(blocking.goodput->checkpoint.value, bytes);
  EXPECT_DOUBLE_EQ(blocking.goodput->job.checkpoint_blocks.value, bytes / 2e9);
  const SimulationReport async = run(head + "{storage: 2 GB/s, asynchronous: true}}\n");
  EXPECT_LT(async.goodput->job.checkpoint_blocks.value, 1);
  EXPECT_GT(async.goodput->job.checkpoint_durable.value, bytes / 2e9);
  EXPECT_GE(async.goodput->job.interval, async.goodput->job.checkpoint_durable);
  EXPECT_GT(async.goodput->spread.mean, blocking.goodput->spread.mean);
  const SimulationReport slow = run(head + "{storage: 2 GB/s}}\n" +
                                    "disturbances: [{kind: slow-storage, bandwidth: 0.5 GB/s}]\n");
  EXPECT_DOUBLE_EQ(slow.goodput->job.checkpoint_blocks.value, bytes / 0.5e9);
  EXPECT_LT(slow.goodput->spread.mean, blocking.goodput->spread.mean);
}

// A storage that is no slower than the job's changes nothing, and says so.
TEST(GoodputReport, SaysWhyASlowStorageChangesNothing) {
  const std::string head = "failures: {per_node_day: 0.1, span: 30 d, seeds: 5, checkpoint: ";
  const auto chain = [&](const std::string& checkpoint) {
    const SimulationReport report =
        run(head + checkpoint + "}\ndisturbances: [{kind: slow-storage, bandwidth: 2 GB/s}]\n");
    std::string lines;
    for (const std::string& line : report.disturbed->chain) lines += line + "\n";
    return lines;
  };
  EXPECT_NE(chain("{storage: 2 GB/s}").find("no faster"), std::string::npos);
  EXPECT_NE(chain("{storage: 2.1 GB/s}").find("changes checkpoints"), std::string::npos);
  EXPECT_NE(chain("{blocks: 5 s}").find("checkpoint.blocks says"), std::string::npos);
}

bool warns(const SimulationReport& report, const std::string& words) {
  return std::any_of(report.warnings.begin(), report.warnings.end(),
                     [&](const std::string& w) { return w.find(words) != std::string::npos; });
}

// Sixty days to the first checkpoint of 54: the linear ratio was -23,209 %, and nothing was said.
TEST(GoodputReport, WarnsWhenNoCheckpointIsWritten) {
  const std::string head = "failures: {mean_time_between_failures: 3 h, span: 54 d, seeds: 5, ";
  const SimulationReport never = run(head + "checkpoint: {blocks: 5 s, interval: 60 d}}\n");
  EXPECT_EQ(never.goodput->expected_ratio, 0);
  EXPECT_TRUE(warns(never, "no checkpoint is ever written: the first is due after 60 d"));
  const SimulationReport hourly = run(head + "checkpoint: {blocks: 5 s, interval: 1 h}}\n");
  EXPECT_GT(hourly.goodput->expected_ratio, 0);
  EXPECT_FALSE(warns(hourly, "no checkpoint"));
}

// Blocking writes of 4 h at a failure every 3 h: Daly's interval is 2.60 h, and nothing holds it at
// the time of a write, since a blocking checkpoint is durable when it ends.
TEST(GoodputReport, BlockingCheckpointsLeaveDalysInterval) {
  const SimulationReport report =
      run("failures: {mean_time_between_failures: 3 h, span: 54 d, seeds: 100, "
          "checkpoint: {blocks: 4 h}}\n");
  EXPECT_EQ(report.goodput->job.interval.value, report.goodput->daly.value);
  EXPECT_NEAR(report.goodput->daly.value / 3600, 2.60, 0.01);
  EXPECT_LT(report.goodput->best_simulated.value / 3600, 3.5);
  EXPECT_FALSE(warns(report, "checkpoints come faster"));
}

// Writes of 3.12 h in the background, one due every five minutes: they wait for each other, which
// the closed form knows as time that a checkpoint costs, and the report says so.
TEST(GoodputReport, WarnsOfCheckpointsThatWaitForEachOther) {
  const std::string head =
      "failures: {mean_time_between_failures: 300 d, span: 54 d, seeds: 20, restart: 1 s, "
      "checkpoint: {storage: 0.01 GB/s, asynchronous: true, interval: ";
  const SimulationReport often = run(head + "5 min}}\n");
  const sim::GoodputReport& goodput = *often.goodput;
  EXPECT_NEAR(goodput.job.checkpoint_durable.value / 3600, 3.12, 0.01);
  EXPECT_TRUE(warns(often,
                    "checkpoints come faster than they are written: one is durable after "
                    "3.12 h"));
  const double share = 300 / goodput.job.checkpoint_durable.value;
  EXPECT_NEAR(goodput.expected, share, 0.02 * share);
  EXPECT_NEAR(goodput.spread.mean, share, 0.1 * share);
  EXPECT_FALSE(warns(run(head + "4 h}}\n"), "checkpoints come faster"));
  EXPECT_FALSE(warns(run(head + "auto}}\n"), "checkpoints come faster"));
}

// A failure every 3 h and repairs of 12 h: four nodes away on average. P(more than 9 away) is the
// first Poisson tail below 1 % (0.8 %), and with 9 spares hardly anything waits.
TEST(GoodputReport, SaysHowManySparesWouldDo) {
  const auto with = [](const std::string& spares) {
    return run(
        "failures: {mean_time_between_failures: 3 h, span: 54 d, seeds: 50, repair: 12 h, "
        "checkpoint: {blocks: 5 s}, spares: " +
        spares + "}\n");
  };
  const SimulationReport few = with("2");
  EXPECT_GT(few.goodput->spread.waiting, 0.2);
  EXPECT_TRUE(warns(few, "4 nodes are in repair on average, and with 9 spares instead of 2"));
  const SimulationReport enough = with("9");
  EXPECT_LT(enough.goodput->spread.waiting, 0.01);
  EXPECT_FALSE(warns(enough, "spares are short"));
}

// Two machines of which one is often away: without spares the job waits, or goes on without the
// replicas of one.
TEST(GoodputReport, ElasticReplicasBeatWaiting) {
  const std::string head =
      "failures: {per_node_day: 0.1, span: 60 d, repair: 1 d, spares: 0, seeds: 100, "
      "checkpoint: {blocks: 10 s}";
  const SimulationReport waits = run(head + "}\n"), shrinks = run(head + ", elastic: true}\n");
  EXPECT_GT(waits.goodput->spread.waiting, 0.05);
  EXPECT_LT(shrinks.goodput->spread.waiting, 0.001);
  EXPECT_GT(shrinks.goodput->spread.shrunk, 0);
  EXPECT_GT(shrinks.goodput->spread.mean, waits.goodput->spread.mean);
}

// 2 machines × power × time × PUE, and 0.414 kg for each of its kWh.
TEST(Energy, AddsTheBuildingAndItsCarbon) {
  const SimulationReport report =
      run("energy: {power_usage_effectiveness: 1.25, carbon: 414 g/kWh}\n");
  EXPECT_GT(report.power_per_node, 8 * report.power_per_gpu);
  const double joules = 2 * report.power_per_node.value * report.step_time.value * 1.25;
  EXPECT_NEAR(report.facility_energy_per_step.value / joules, 1, 1e-12);
  EXPECT_NEAR(report.carbon_kg_per_step, joules / 3.6e6 * 0.414, 1e-12);
}

}  // namespace
}  // namespace megatwin::tests
