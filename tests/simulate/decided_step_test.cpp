// Schedules that decide while the step runs, and decoupled ranks, beside disturbances and flows:
// what works together, and what is refused with the words that help.
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using sim::PlanRefusal;
using sim::SimulationReport;

// Sixteen H100: four stages, two replicas of two ranks a stage.
model::Job job_of(const std::string& policy, const std::string& more = "") {
  return job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 2}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 2, pipeline: 4, data: " +
      std::string(policy.find("fbd") == std::string::npos ? "2" : "1") +
      ", micro_batch: 1, global_batch: 16, recompute: full}\npolicy: " + policy + "\n" + more);
}

std::string reasons_of(const model::Job& job) {
  const auto answer = sim::simulate(job, {.sensitivities = false});
  const auto* refusal = std::get_if<PlanRefusal>(&answer);
  if (refusal == nullptr) return "";
  std::string all;
  for (const std::string& reason : refusal->reasons) all += reason + "\n";
  return all;
}

// Rank 12 is in stage 3 of replica 0, the longest for its head: its replica alone is ordered anew,
// and holds up the step. No task takes more than 1.5 times as long, so neither does the step.
TEST(DecidedStep, ASlowGpuIsDecidedAround) {
  for (const char* policy :
       {"{schedule: dpp}", "{schedule: dpp-depth}", "{schedule: dpp-breadth}"}) {
    const SimulationReport plain = report_of(job_of(policy), {.sensitivities = false});
    EXPECT_EQ(plain.ranks_simulated, 4);
    EXPECT_EQ(plain.engine, "events");
    const SimulationReport slow =
        report_of(job_of(policy, "disturbances: [{kind: slow-gpu, rank: 12, factor: 1.5}]\n"),
                  {.sensitivities = false});
    EXPECT_EQ(slow.ranks_simulated, 8) << policy;
    EXPECT_EQ(slow.engine, "events");
    EXPECT_GT(slow.step_time.value, 1.1 * plain.step_time.value) << policy;
    EXPECT_LT(slow.step_time.value, 1.5 * plain.step_time.value) << policy;
    ASSERT_TRUE(slow.disturbed.has_value());
    EXPECT_EQ(slow.disturbed->undisturbed_step_time.value, plain.step_time.value);
    EXPECT_GE(slow.memory_peak.value, plain.memory_peak.value);
  }
}

TEST(DecidedStep, FlowsNeedAnOrderBeforehand) {
  EXPECT_NE(reasons_of(job_of("{schedule: dpp}", "network: maxmin\n"))
                .find("policy.schedule dpp: decides while the step runs"),
            std::string::npos);
  EXPECT_EQ(reasons_of(job_of("{schedule: 1f1b}", "network: maxmin\n")), "");
}

// No limit and one that nothing reaches say the same, under an order and under a policy; with one
// slot messages wait for each other's tasks, in the forwards of gpipe at the latest.
TEST(DecidedStep, ReceiveSlotsHoldMessagesBack) {
  for (const std::string schedule : {"1f1b", "gpipe", "dpp", "dpp-depth", "dpp-breadth"}) {
    const auto step = [&](const std::string& slots) {
      const SimulationReport report =
          report_of(job_of("{schedule: " + schedule + slots + "}"), {.sensitivities = false});
      const bool dynamic = schedule.starts_with("dpp");
      EXPECT_EQ(report.engine, dynamic || report.plan.receive_slots > 0 ? "events" : "dataflow");
      return report.step_time;
    };
    const model::Seconds free = step("");
    EXPECT_EQ(step(", receive_slots: 0").value, free.value) << schedule;
    if (schedule != "dpp") {
      EXPECT_EQ(step(", receive_slots: 99").value, free.value) << schedule;
      EXPECT_GE(step(", receive_slots: 1"), free) << schedule;
    }
    if (schedule == "gpipe") {
      EXPECT_GT(step(", receive_slots: 1"), free);
    }
    EXPECT_LT(step(", receive_slots: 1"), 1.3 * free) << schedule;
  }
}

// Fewer live activations take less memory and more time; a bound that nothing reaches changes
// nothing. The fewest that can run are those of one micro-batch.
TEST(DecidedStep, LiveActivationsBoundTheMemory) {
  for (const std::string schedule : {"dpp", "dpp-depth", "dpp-breadth"}) {
    const auto report = [&](const std::string& bound) {
      return report_of(job_of("{schedule: " + schedule + bound + "}"), {.sensitivities = false});
    };
    const SimulationReport free = report("");
    const SimulationReport loose = report(", live_activations: 8");
    const SimulationReport tight = report(", live_activations: 2");
    const SimulationReport one = report(", live_activations: 1");
    EXPECT_EQ(loose.step_time.value, free.step_time.value) << schedule;
    EXPECT_EQ(loose.memory_peak.value, free.memory_peak.value) << schedule;
    EXPECT_LT(tight.memory[0].activations, free.memory[0].activations) << schedule;
    EXPECT_GT(tight.step_time, free.step_time) << schedule;
    // One stage at a time: 8 micro-batches through 4 stages and back.
    EXPECT_GT(one.step_time, 1.5 * tight.step_time) << schedule;
    EXPECT_EQ(2 * one.memory[0].activations.value, tight.memory[0].activations.value) << schedule;
  }
  model::Job chunked = job_of("{schedule: dpp, live_activations: 1}");
  chunked.plan.model_chunks = 2;
  EXPECT_NE(reasons_of(chunked).find("policy.live_activations is 1, but one micro-batch alone "
                                     "holds 2 activations on a rank"),
            std::string::npos)
      << reasons_of(chunked);
  const auto answer = sim::simulate(chunked);
  const PlanRefusal& refusal = std::get<PlanRefusal>(answer);
  ASSERT_EQ(refusal.nearest.size(), 1u);
  EXPECT_EQ(refusal.nearest.front().change, "policy.live_activations 1 → 2");
}

// Each rank could let in as many micro-batches as its own memory holds: they would fill slots that
// another keeps waiting for.
TEST(DecidedStep, UnlikeRanksAgreeOnWhatEnters) {
  for (const char* policy : {"dpp", "dpp-depth", "dpp-breadth"}) {
    for (const int slots : {1, 2}) {
      model::Job job = job_from(
          "model: {name: llama-3-8b, sequence_length: 8192}\n"
          "cluster: {nodes: [{type: dgx-a100-40g, count: 1}]}\n"
          "software: {framework: megatron-core}\n"
          "plan: {tensor: 2, pipeline: 4, model_chunks: 4, data: 1, micro_batch: 1,"
          " global_batch: 16, recompute: none, overlap_p2p: true}\n"
          "policy: {schedule: " +
          std::string(policy) + ", receive_slots: " + std::to_string(slots) + "}\n");
      const SimulationReport report = report_of(job, {.sensitivities = false});
      EXPECT_TRUE(report.fits) << policy;
    }
  }
}

// The second rank takes the second message first: the first one keeps the only slot.
TEST(DecidedStep, AnOrderThatTakesMessagesCrosswiseNeedsTwoSlots) {
  model::Job job = job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 1}]}\n"
      "software: {framework: megatron-core}\n"
      "plan: {tensor: 4, pipeline: 2, data: 1, micro_batch: 1, global_batch: 2, recompute: "
      "full}\n");
  job.plan.schedule = model::ScheduleKind::OrderFile;
  job.plan.order_file = "crosswise.txt";
  job.plan.orders = {{"F0.0", "F1.0", "B1.0", "B0.0"}, {"F1.0", "B1.0", "F0.0", "B0.0"}};
  for (const int slots : {0, 2}) {
    job.plan.receive_slots = slots;
    EXPECT_EQ(reasons_of(job), "") << slots;
  }
  job.plan.receive_slots = 1;
  EXPECT_EQ(reasons_of(job),
            "policy.receive_slots 1: the ranks wait for each other, rank 0, stage 0, ran 2 of 4 "
            "tasks; then "
            "nothing it may run came any more (allowed: more slots, or 0 for no limit)\n");
}

TEST(DecidedStep, ReceiveSlotsNeedTransfersBesideTasks) {
  const auto holding = [](const std::string& policy) {
    model::Job job = job_of(policy);
    job.plan.overlap_p2p = false;
    return reasons_of(job);
  };
  EXPECT_EQ(holding("{schedule: 1f1b}"), "");
  EXPECT_EQ(holding("{schedule: 1f1b, receive_slots: 1}"),
            "policy.receive_slots 1: a send that holds the compute lane cannot wait for a slot "
            "(allowed: 0, or plan.overlap_p2p true)\n");
  EXPECT_NE(reasons_of(job_of("{schedule: fbd, receive_slots: 2}")).find("receive_slots 2"),
            std::string::npos);
  EXPECT_NE(reasons_of(job_of("{schedule: 1f1b, receive_slots: 2}", "network: maxmin\n"))
                .find("flows over the network do not wait for slots"),
            std::string::npos);
}

TEST(DecidedStep, DecoupledRanksTakeClosedFormsOnly) {
  EXPECT_EQ(reasons_of(job_of("{schedule: fbd}")), "");
  EXPECT_NE(reasons_of(job_of("{schedule: fbd}", "network: maxmin\n")).find("network maxmin"),
            std::string::npos);
  EXPECT_NE(reasons_of(job_of("{schedule: fbd}",
                              "disturbances: [{kind: slow-gpu, rank: 0, factor: 1.5}]\n"))
                .find("disturbances are not simulated"),
            std::string::npos);
}

}  // namespace
}  // namespace megatwin::tests
