// Prints how far predictions are from published microbenchmarks of every GPU:
//
//     public_accuracy MICROBENCH.csv
//
// Columns as in microbench_public.csv: category, gpu, op, n_gpus, shape_or_size, dtype, time_us,
// value, unit, source, notes.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/assert.h"
#include "model/collective_cost.h"
#include "model/compute_cost.h"
#include "scenarios/gpu_profile_reader.h"
#include "sim/validate_operations.h"
#include "tests/costs/gpus.h"

namespace megatwin {
namespace {

using Cells = std::map<std::string, std::string>;

// One CSV record, quotes as RFC 4180 has them; the file has no line breaks inside quotes.
std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

// "b=1, m=4096" as a map.
Cells pairs_of(const std::string& text) {
  Cells cells;
  std::string key, value;
  bool in_value = false;
  for (const char c : text + ",") {
    if (c == ',') {
      if (in_value) cells[key] = value;
      key.clear();
      value.clear();
      in_value = false;
    } else if (c == '=') {
      in_value = true;
    } else if (c != ' ') {
      (in_value ? value : key) += c;
    }
  }
  return cells;
}

std::int64_t whole(const Cells& cells, const char* key) {
  const auto found = cells.find(key);
  return found == cells.end() ? 0 : std::llround(std::atof(found->second.c_str()));
}

model::Gpu gpu_of(const std::string& name) {
  if (name.starts_with("A100 PCIe")) return tests::a100_pcie();
  if (name.starts_with("A100")) return tests::a100();
  if (name.starts_with("V100")) return tests::v100();
  if (name.starts_with("GH200")) return tests::gh200();
  if (name.starts_with("H100") || name.starts_with("H800")) {
    model::Gpu gpu = tests::h200();
    gpu.name = "H100-SXM5-80GB";
    gpu.memory_bandwidth = {3.35e12};
    return gpu;
  }
  model::Gpu gpu = tests::b200();
  if (name.starts_with("GB200")) {
    gpu.name = "GB200-per-GPU";
    gpu.power_max = {1200};
    gpu.peak.bf16 = gpu.peak.fp16 = {2500e12};
    gpu.peak.fp8 = {5000e12};
  }
  return gpu;
}

struct Judged {
  model::MicroOp op;
  model::Seconds measured;
};

// A row of SimuMax: rate in TFLOP/s of the shape.
std::optional<Judged> simumax(const Cells& row, const Cells& shape) {
  Judged judged;
  const double rate = std::atof(row.at("value").c_str()) * 1e12;
  if (row.at("category") == "gemm") {
    judged.op.kind = model::MicroOpKind::Gemm;
    judged.op.gemm = {.m = whole(shape, "m"), .n = whole(shape, "n"), .k = whole(shape, "k")};
    judged.op.gemm.accumulate_fp32 = shape.at("accumulate") == "True";
    if (shape.at("layout") == "NN") judged.op.gemm.layout = model::GemmLayout::DataGradient;
    if (shape.at("layout") == "NT") judged.op.gemm.layout = model::GemmLayout::WeightGradient;
    judged.measured = {gemm_flop(judged.op.gemm).value / rate};
    return judged;
  }
  if (row.at("category") == "grouped_gemm") {
    const std::string& stage = shape.at("stage");
    judged.op.kind = model::MicroOpKind::Gemm;
    model::GemmShape& gemm = judged.op.gemm;
    gemm = {.m = whole(shape, "M"),
            .n = whole(shape, "N"),
            .k = whole(shape, "K"),
            .batch = whole(shape, "ng"),
            .grouped = true};
    if (stage == "bwd_grad_act") std::swap(gemm.n, gemm.k);
    if (stage == "bwd_grad_w") {
      std::swap(gemm.m, gemm.k);  // (M tokens, K) → (K, N) with depth M.
      gemm.accumulate_fp32 = true;
      gemm.layout = model::GemmLayout::WeightGradient;
    }
    judged.measured = {gemm_flop(gemm).value / rate};
    return judged;
  }
  judged.op.kind = model::MicroOpKind::Attention;
  model::AttentionShape& attention = judged.op.attention;
  attention = {.batch = whole(shape, "batch"),
               .heads = whole(shape, "head_num"),
               .key_value_heads = whole(shape, "kv_head_num"),
               .query_length = whole(shape, "seq_len"),
               .key_length = whole(shape, "seq_len"),
               .qk_dim = whole(shape, "qk_head_dim"),
               .v_dim = whole(shape, "v_head_dim")};
  attention.backward = row.at("op") == "sdp_bwd";
  model::AttentionShape full = attention;  // Their rates count the masked half too.
  full.causal = false;
  judged.measured = {attention_flop(full).value / rate};
  return judged;
}

// A linear layer or FlashAttention-2 call of the Perlmutter and Vista tables.
std::optional<Judged> perlmutter(const Cells& row, const Cells& shape) {
  Judged judged;
  judged.measured = {std::atof(row.at("time_us").c_str()) * 1e-6};
  const std::int64_t mp = whole(shape, "mp"), dim = whole(shape, "dim");
  MEGATWIN_ASSERT(mp > 0, mp);
  if (row.at("category") == "gemm") {
    judged.op.kind = model::MicroOpKind::Gemm;
    model::GemmShape& gemm = judged.op.gemm;
    gemm = {.m = whole(shape, "b") * whole(shape, "l"),
            .n = dim,
            .k = dim,
            .type = model::DataType::Fp16};
    switch (row.at("op")[6]) {
      case '1':
        gemm.n = 3 * dim / mp;
        break;
      case '2':
        gemm.k = dim / mp;
        break;
      case '3':
        gemm.n = 4 * dim / mp;
        break;
      case '4':
        gemm.k = 4 * dim / mp;
        break;
    }
    return judged;
  }
  judged.op.kind = model::MicroOpKind::Attention;
  const std::int64_t heads = whole(shape, "heads") / mp;
  judged.op.attention = {.batch = whole(shape, "b"),
                         .heads = heads,
                         .key_value_heads = heads,
                         .query_length = whole(shape, "l"),
                         .key_length = whole(shape, "l"),
                         .qk_dim = whole(shape, "headdim"),
                         .v_dim = whole(shape, "headdim"),
                         .causal = false,
                         .kernel = model::AttentionKernel::FlashAttention2,
                         .type = model::DataType::Fp16};
  return judged;
}

// DeepGEMM on H800: "M=64,N=2112,K=7168" or "groups=4,M/group=8192,…".
std::optional<Judged> deepgemm(const Cells& row, const Cells& shape) {
  Judged judged;
  judged.op.kind = model::MicroOpKind::Gemm;
  model::GemmShape& gemm = judged.op.gemm;
  gemm = {.m = whole(shape, "M"),
          .n = whole(shape, "N"),
          .k = whole(shape, "K"),
          .type = model::DataType::Fp8};
  if (row.at("category") == "grouped_gemm") {
    gemm.m = whole(shape, "M/group");
    gemm.batch = whole(shape, "groups");
    gemm.grouped = true;
  }
  if (gemm.m <= 0 || gemm.n <= 0 || gemm.k <= 0) return std::nullopt;
  judged.measured = {gemm_flop(gemm).value / (std::atof(row.at("value").c_str()) * 1e12)};
  return judged;
}

std::optional<Judged> compute_row(const Cells& row, const Cells& shape) {
  if (row.at("op").find("MAMF") != std::string::npos) return std::nullopt;
  if (row.at("gpu").starts_with("H800")) return deepgemm(row, shape);
  if (shape.contains("mp")) return perlmutter(row, shape);
  if (shape.contains("m") || shape.contains("ng") || shape.contains("seq_len")) {
    return simumax(row, shape);
  }
  return std::nullopt;
}

// Links of the machine that an all-reduce row names.
model::GroupTopology topology_of(const std::string& gpu, int ranks) {
  model::Node node{.num_gpus = 8, .num_nics = 8, .nic_per_direction = {50e9}, .nic_type = "NDR IB"};
  model::Fabric fabric;
  if (gpu.starts_with("V100")) node.nvlink_topology = model::NvlinkTopology::HybridCubeMesh;
  if (gpu.starts_with("GB200")) {
    node.num_gpus = 72;
    node.num_nics = 72;
  }
  if (gpu.find("p4de") != std::string::npos) {
    node.num_nics = 4;
    node.nic_per_direction = {12.5e9};
    node.nic_type = "EFA v1";
    node.nic_latency = {70e-6};
  }
  if (gpu.find("p5") != std::string::npos) {
    node.num_nics = 32;
    node.nic_per_direction = {12.5e9};
    node.nic_type = "EFA v2";
    node.nic_latency = {25e-6};
  }
  fabric.sharp = gpu.find("SHARP") != std::string::npos;
  const int per_node = std::min(ranks, node.num_gpus);
  return group_topology({ranks, per_node, 1}, node, gpu_of(gpu), fabric, {});
}

void print(const sim::OperationValidation& validation) {
  std::printf("%-62s %5s %8s %8s %8s %8s\n", "group", "rows", "bias", "median", "p90", "worst");
  for (const sim::OperationGroup& group : validation.groups) {
    std::printf("%-62s %5d %+7.1f%% %7.1f%% %7.1f%% %+7.1f%%\n", group.group.c_str(), group.scored,
                100 * group.bias, 100 * group.median_abs_error, 100 * group.p90_abs_error,
                100 * group.worst);
  }
}

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: public_accuracy MICROBENCH.csv\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = split_csv(line);
  std::vector<sim::OperationCheck> checks;
  std::map<std::string, model::GpuProfile> profiles;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split_csv(line);
    if (cells.size() != names.size()) continue;
    Cells row;
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
    sim::OperationCheck check;
    check.scored = true;
    if (row["category"] == "nccl") {
      const double bytes = std::atof(row["shape_or_size"].c_str());
      if (row["time_us"].empty() || row["op"] != "all_reduce") continue;
      const int ranks = std::atoi(row["n_gpus"].c_str());
      check.measured = {std::atof(row["time_us"].c_str()) * 1e-6};
      check.predicted =
          collective_time(model::CollectiveKind::AllReduce, {bytes}, topology_of(row["gpu"], ranks))
              .time;
      const char* size = bytes < 16e6 ? ", below 16 MB" : ", 16 MB and more";
      check.group = "nccl " + row["gpu"] + " x" + row["n_gpus"] + size;
    } else {
      const Cells shape = pairs_of(row["shape_or_size"]);
      const std::optional<Judged> judged = compute_row(row, shape);
      if (!judged) continue;
      const model::Gpu gpu = gpu_of(row["gpu"]);
      if (!profiles.contains(gpu.name)) {
        profiles[gpu.name] = scenarios::gpu_profile(gpu).value();
      }
      check.measured = judged->measured;
      check.predicted = compute_time(judged->op, gpu, profiles[gpu.name]);
      check.group = row["category"] + " " + row["gpu"] + " " + row["op"];
    }
    check.error = ratio(check.predicted / check.measured) - 1;
    checks.push_back(check);
  }
  print(sim::summarise_operations(std::move(checks)));
  return 0;
}

}  // namespace
}  // namespace megatwin

int main(int argc, char** argv) { return megatwin::run(argc, argv); }
