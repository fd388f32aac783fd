// What each framework keeps and when, by hand: docs/constants.md, "Memory of the frameworks".
#include <string>
#include <utility>
#include <variant>

#include <gtest/gtest.h>

#include "scenarios/gpu_profile_reader.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "sim/simulate.h"

namespace megatwin::sim {
namespace {

using scenarios::MeasuredRow;

// Llama of 16 layers, as tests/bench/torch_train.py trains it: embedding and head untied.
constexpr double kLayer = 2 * 2048.0 * 2048 + 2 * 2048.0 * 512 + 3 * 2048.0 * 8192 + 2 * 2048;
constexpr double kTable = 128256.0 * 2048;
constexpr double kLogits = 2 * 4096.0 * 128256 * 2;  // Bytes of a micro-batch of two, 16 bits.
constexpr double kWorkspace = 64 * 1024 * 1024;

MeasuredRow llama_row() {
  MeasuredRow row;
  row.cells = {{"id", "X-1"},
               {"framework", "pytorch-compile"},
               {"model_name", "llama-1b"},
               {"layers", "16"},
               {"hidden", "2048"},
               {"ffn_hidden", "8192"},
               {"heads", "32"},
               {"kv_heads", "8"},
               {"vocab", "128256"},
               {"seq_len", "4096"},
               {"gpu", "H200"},
               {"gpus", "2"},
               {"micro_batch", "2"},
               {"global_batch", "16"},
               {"precision", "bf16/PURE"},
               {"recompute", "none"},
               {"zero_stage", "0"}};
  return row;
}

MeasuredRow with(MeasuredRow row, const std::string& column, const std::string& value) {
  row.cells[column] = value;
  return row;
}

SimulationReport report_of(const MeasuredRow& row) {
  auto job = scenarios::job_of(row, scenarios::shipped_hardware());
  EXPECT_TRUE(job) << model::to_text(job.error());
  job->profile = scenarios::gpu_profile(job->cluster.groups.front().gpu).value();
  auto answer = simulate(*job, {.sensitivities = false});
  if (auto* report = std::get_if<SimulationReport>(&answer)) return std::move(*report);
  return *std::get<PlanRefusal>(answer).report;
}

// The last stage at the end of the step: 8 bytes of state a parameter, all outputs and their
// concatenation. Measured on two H200: 39.95 GB.
TEST(FrameworkMemory, TorchPipelineMergesItsOutputs) {
  const SimulationReport report = report_of(with(llama_row(), "pp", "2"));
  const double parameters = 8 * kLayer + kTable + 2048;
  EXPECT_NEAR(report.memory_allocated.value, 8 * parameters + 2 * 8 * kLogits + kWorkspace, 1);
  EXPECT_NEAR(report.memory_allocated.value, 39.95e9, 0.01 * 39.95e9);
}

// Under GPipe all micro-batches' activations are there before the first backward pass, and the
// outputs once. Measured: 67.50 GB.
TEST(FrameworkMemory, TorchPipelineHoldsLogitsOnce) {
  const SimulationReport report =
      report_of(with(with(llama_row(), "pp", "2"), "overlap", "pp-gpipe"));
  EXPECT_NEAR(report.memory_allocated.value, 67.50e9, 0.03 * 67.50e9);
}

// With one micro-batch gradients come into being during the backward pass, but DDP's buckets stay.
TEST(FrameworkMemory, DdpKeepsItsBuckets) {
  const MeasuredRow one = with(with(llama_row(), "global_batch", "2"), "gpus", "1");
  const MeasuredRow two = with(with(llama_row(), "global_batch", "4"), "dp", "2");
  const SimulationReport alone = report_of(one), replicas = report_of(two);
  EXPECT_EQ(alone.memory.front().gradients.value, 0);
  EXPECT_NEAR(replicas.memory.front().gradients.value, 2 * (16 * kLayer + 2 * kTable + 2048), 1);
}

// Transformer Engine keeps fp8 copies of operands; torchao keeps the 16-bit operands themselves.
TEST(FrameworkMemory, TorchaoSavesNoLessThanBf16) {
  const MeasuredRow titan =
      with(with(with(llama_row(), "framework", "fsdp2"), "zero_stage", "3"), "dp", "2");
  const auto activations = [](const MeasuredRow& row) {
    return report_of(row).memory.front().activations.value;
  };
  EXPECT_EQ(activations(with(titan, "precision", "fp8")),
            activations(with(titan, "precision", "bf16")));
  const MeasuredRow core = with(with(llama_row(), "framework", "megatron-core"), "dp", "2");
  EXPECT_LT(activations(with(core, "precision", "fp8")),
            activations(with(core, "precision", "bf16")));
}

// fp16: weight 2, gradient 2, its fp32 copy, master copy and two moments 16.
TEST(FrameworkMemory, Fp16StatesOfEarlyMegatronAreTwentyBytes) {
  for (const char* framework : {"megatron-2020", "megatron-2021", "megatron-deepspeed"}) {
    const MeasuredRow row =
        with(with(with(llama_row(), "framework", framework), "gpus", "1"), "precision", "fp16");
    const StageMemory memory = report_of(row).memory.front();
    const double states = (memory.parameters + memory.gradients + memory.optimizer).value;
    EXPECT_NEAR(states / (memory.parameters.value / 2), 20, 1e-9) << framework;
  }
}

}  // namespace
}  // namespace megatwin::sim
