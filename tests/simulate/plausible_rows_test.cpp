// Laws that every prediction obeys whatever the constants are, over random rows of many models,
// GPUs, stacks and plans that no measurement of ours covers.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/gpu_profile_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "sim/simulate.h"
#include "tests/sim/seeds.h"

namespace megatwin::sim {
namespace {

using scenarios::MeasuredRow;
using Cells = std::map<std::string, std::string>;

const std::array<Cells, 6> kModels{{
    {{"model_name", "gpt-1b"},
     {"layers", "24"},
     {"hidden", "2048"},
     {"heads", "16"},
     {"vocab", "51200"}},
    {{"model_name", "gpt3-175b"},
     {"layers", "96"},
     {"hidden", "12288"},
     {"heads", "96"},
     {"vocab", "51200"}},
    {{"model_name", "llama3-8b"},
     {"layers", "32"},
     {"hidden", "4096"},
     {"ffn_hidden", "14336"},
     {"heads", "32"},
     {"kv_heads", "8"},
     {"vocab", "128256"}},
    {{"model_name", "llama3-70b"},
     {"layers", "80"},
     {"hidden", "8192"},
     {"ffn_hidden", "28672"},
     {"heads", "64"},
     {"kv_heads", "8"},
     {"vocab", "128256"}},
    {{"model_name", "mixtral-8x7b"},
     {"layers", "32"},
     {"hidden", "4096"},
     {"ffn_hidden", "14336"},
     {"heads", "32"},
     {"kv_heads", "8"},
     {"vocab", "32000"},
     {"moe", "8 experts top2"}},
    {{"model_name", "qwen3-30b"},
     {"layers", "48"},
     {"hidden", "2048"},
     {"ffn_hidden", "6144"},
     {"heads", "32"},
     {"kv_heads", "4"},
     {"vocab", "151936"},
     {"moe", "128 experts top8, moe_ffn 768"}},
}};

template <std::size_t Size>
const char* one_of(const std::array<const char*, Size>& words, std::mt19937_64& random) {
  return words[random() % Size];
}

MeasuredRow random_row(std::mt19937_64& random) {
  MeasuredRow row;
  row.cells = kModels[random() % kModels.size()];
  const auto set = [&](const char* column, std::int64_t value) {
    row.cells[column] = std::to_string(value);
  };
  row.cells["id"] = "R-1";
  row.cells["framework"] = one_of<6>(
      {"megatron-core", "megatwin", "fsdp2", "fsdp1", "megatron-2021", "megatron-deepspeed"},
      random);
  row.cells["gpu"] = one_of<5>(
      {"A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB", "GB200"}, random);
  const bool sharded = row.cells["framework"].starts_with("fsdp");
  const std::int64_t tensor = sharded ? 1 : std::int64_t{1} << (random() % 4);
  const std::int64_t pipeline = sharded ? 1 : std::int64_t{1} << (random() % 4);
  const std::int64_t data = std::int64_t{1} << (random() % 7);
  const std::int64_t micro_batch = std::int64_t{1} << (random() % 3);
  set("tp", tensor);
  set("pp", pipeline);
  set("dp", data);
  set("gpus", tensor * pipeline * data);
  set("micro_batch", micro_batch);
  set("global_batch", micro_batch * data * (std::int64_t{2} << (random() % 4)));
  set("seq_len", std::int64_t{1024} << (random() % 6));
  set("zero_stage", sharded ? 3 : 0);
  row.cells["precision"] = "bf16";
  row.cells["recompute"] = "none";
  return row;
}

MeasuredRow with(const MeasuredRow& row, const char* column, const std::string& value) {
  MeasuredRow changed = row;
  changed.cells[column] = value;
  return changed;
}

MeasuredRow doubled(const MeasuredRow& row, const std::vector<const char*>& columns) {
  MeasuredRow changed = row;
  for (const char* column : columns) {
    changed.cells[column] = std::to_string(2 * std::stoll(row.text(column)));
  }
  return changed;
}

// Nothing for a plan that is illegal.
std::optional<SimulationReport> report_of(const MeasuredRow& row) {
  auto job = scenarios::job_of(row, scenarios::shipped_hardware());
  EXPECT_TRUE(job) << model::to_text(job.error());
  if (!job) return std::nullopt;
  job->profile = scenarios::gpu_profile(job->cluster.groups.front().gpu).value();
  auto answer = simulate(*job, {.sensitivities = false});
  if (auto* report = std::get_if<SimulationReport>(&answer)) return std::move(*report);
  return std::get<PlanRefusal>(answer).report;
}

class PlausibleRows : public testing::Test {
 protected:
  // Calls check(row, report) for legal random rows.
  template <class Check>
  void for_each_row(int count, const Check& check) {
    int legal = 0;
    for (const std::uint64_t seed : tests::seeds(count)) {
      std::mt19937_64 random(seed);
      const MeasuredRow row = random_row(random);
      const auto report = report_of(row);
      if (!report) continue;
      ++legal;
      std::string cells;
      for (const auto& [column, value] : row.cells) cells += column + "=" + value + " ";
      SCOPED_TRACE(cells + tests::rerun_line("simulate_unit_test", seed));
      check(row, *report);
    }
    EXPECT_GT(legal, count / 2);
  }
};

TEST_F(PlausibleRows, NoGpuBeatsItsBestProducts) {
  for_each_row(200, [](const MeasuredRow&, const SimulationReport& report) {
    EXPECT_GT(report.step_time.value, 0);
    EXPECT_GT(report.mfu, 0);
    EXPECT_LT(report.mfu, 0.75);  // The best product of any part here reaches 0.87 of the peak.
    EXPECT_GE(report.hfu, report.mfu * (1 - 1e-9));
  });
}

TEST_F(PlausibleRows, MoreReplicasNeverPayMoreThanTheirNumber) {
  for_each_row(100, [](const MeasuredRow& row, const SimulationReport& report) {
    // Twice the replicas at twice the batch: the same work a GPU, more to exchange.
    const auto weak = report_of(doubled(row, {"gpus", "dp", "global_batch"}));
    ASSERT_TRUE(weak);
    // (Sharded optimizers get less each; the exchange itself may be faster over eight GPUs, where
    // NCCL has multicast, than over four.)
    if (row.text("zero_stage") != "0") return;
    const auto without_exchange = [](const SimulationReport& answer) {
      return (answer.step_time - answer.breakdown.exposed_dp).value;
    };
    EXPECT_GE(without_exchange(*weak), without_exchange(report) * (1 - 1e-6));
    // At the same batch: half the work a GPU at best.
    const auto strong = report_of(doubled(row, {"gpus", "dp"}));
    if (!strong) return;
    EXPECT_GE(without_exchange(*strong), without_exchange(report) / 2 * (1 - 1e-6));
  });
}

TEST_F(PlausibleRows, MoreTokensTakeLongerButNoLongerThanTheirShare) {
  for_each_row(100, [](const MeasuredRow& row, const SimulationReport& report) {
    const auto batch = report_of(doubled(row, {"global_batch"}));
    ASSERT_TRUE(batch);
    EXPECT_GT(batch->step_time.value, report.step_time.value);
    EXPECT_LE(batch->step_time.value, 2 * report.step_time.value * (1 + 1e-6));
    // A longer sequence at the same batch: more of everything, at most squared.
    const auto sequence = report_of(doubled(row, {"seq_len"}));
    ASSERT_TRUE(sequence);
    EXPECT_GE(sequence->step_time.value, report.step_time.value);
    EXPECT_LE(sequence->step_time.value, 4.2 * report.step_time.value);
    EXPECT_GE(sequence->memory_peak, report.memory_peak);
  });
}

TEST_F(PlausibleRows, RecomputationTradesTimeForMemory) {
  for_each_row(100, [](const MeasuredRow& row, const SimulationReport& report) {
    const auto full = report_of(with(row, "recompute", "full"));
    ASSERT_TRUE(full);
    EXPECT_GT(full->step_time.value, report.step_time.value);
    EXPECT_LE(full->step_time.value, 1.45 * report.step_time.value);
    EXPECT_LE(full->memory_peak, report.memory_peak);
  });
}

TEST_F(PlausibleRows, ANewerPartIsNotSlower) {
  for_each_row(60, [](const MeasuredRow& row, const SimulationReport&) {
    double before = 1e30;
    for (const char* gpu :
         {"V100-SXM2-32GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM-141GB"}) {
      const bool volta = gpu[0] == 'V';
      const auto report =
          report_of(with(with(row, "gpu", gpu), "precision", volta ? "fp16" : "bf16"));
      ASSERT_TRUE(report) << gpu;
      EXPECT_LE(report->step_time.value, before * 1.01) << gpu;
      before = report->step_time.value;
    }
  });
}

}  // namespace
}  // namespace megatwin::sim
