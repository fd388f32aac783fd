#include "sim/validate_operations.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "model/collective_cost.h"
#include "model/compute_cost.h"
#include "sim/product_row.h"
#include "sim/rank_correlation.h"

namespace megatwin::sim {
namespace {

using model::Seconds;
using scenarios::OperationRow;

// What a row asks for, or why it cannot be answered.
struct Prediction {
  std::string group;
  std::optional<Seconds> time;
  std::string reason;
  std::vector<std::string> assumptions;
};

Prediction refused(std::string group, std::string reason) {
  return {std::move(group), std::nullopt, std::move(reason), {}};
}

class Predictor {
 public:
  Predictor(const model::Gpu& gpu, const model::GpuProfile& profile, const HostPace& pace)
      : gpu_(gpu), profile_(profile), pace_(pace) {}

  Prediction product(const OperationRow& row) const {
    const std::optional<model::DataType> type = data_type_of(row.dtype);
    const std::string group = row.kind + " " + (type ? std::string(name_of(*type)) : row.dtype);
    const auto op = product_of(row);
    if (!op) return refused(group, op.error().front().message);
    const bool paced = op->gemm.type == model::DataType::Bf16 && !op->gemm.grouped;
    const double slowdown = paced ? pace_.slowdown(row.line) : 1;
    return {group, benchmark_time(*op, gpu_, profile_, slowdown), "", {}};
  }

  Prediction attention(const OperationRow& row, bool backward) const {
    const std::optional<model::DataType> type = data_type_of(row.dtype);
    std::string group = backward ? "attention backward " : "attention forward ";
    group += type ? std::string(name_of(*type)) : row.dtype;
    if (!type) return refused(group, "format '" + row.dtype + "' is not known");
    if (row.batch <= 0 || row.heads <= 0 || row.length <= 0 || row.head_dim <= 0) {
      return refused(group, "a size is missing");
    }
    model::MicroOp op{.kind = model::MicroOpKind::Attention, .name = "attention"};
    op.attention = {.batch = row.batch,
                    .heads = row.heads,
                    .key_value_heads = row.key_value_heads > 0 ? row.key_value_heads : row.heads,
                    .query_length = row.length,
                    .key_length = row.length,
                    .qk_dim = row.head_dim,
                    .v_dim = row.head_dim,
                    .causal = row.causal,
                    .backward = backward,
                    .kernel = model::AttentionKernel::Cudnn,
                    .type = *type};
    if (row.backend.find("FLASH") != std::string::npos ||
        row.backend.find("flash") != std::string::npos) {
      op.attention.kernel = model::AttentionKernel::FlashAttention2;
      group += " flash";
    }
    return {group, benchmark_time(op, gpu_, profile_), "", {}};
  }

  // Copies and sums print the bytes of one tensor: one read and one write of it.
  Prediction copy(const OperationRow& row) const {
    if (row.bytes.value <= 0) return refused(row.kind, "bytes missing");
    const Seconds device =
        2 * row.bytes / profile_.memory.stream + profile_.memory.ramp + profile_.kernel_gap;
    return {row.kind, std::max(device, profile_.eager.element_wise), "", {}};
  }

  // PyTorch's own kernels, at their share of the stream.
  Prediction eager_kernel(const OperationRow& row) const {
    if (row.rows <= 0 || row.width <= 0) return refused(row.kind, "T or H missing");
    const model::EagerFloor& eager = profile_.eager;
    const bool rms = row.kind == "rmsnorm_eager", gelu = row.kind == "gelu_eager";
    const double share = gelu  ? eager.gelu_share
                         : rms ? eager.rms_norm_share
                               : eager.layer_norm_share;
    // A wide row does not stay in registers between its statistics and its scaling.
    constexpr std::int64_t kRegisterRow = 4096;
    const double passes = rms && row.width > kRegisterRow ? 3 : 2;
    const double bytes =
        2.0 * passes * static_cast<double>(row.rows) * static_cast<double>(row.width);
    const Seconds ramp = gelu ? profile_.memory.ramp + profile_.kernel_gap : eager.norm_ramp;
    const Seconds device = model::Bytes{bytes} / (share * profile_.memory.stream) + ramp;
    return {row.kind, std::max(device, eager.element_wise), "", {"bf16"}};
  }

  // Host memory to device and back, pinned.
  Prediction host_copy(const OperationRow& row) const {
    constexpr double kPcieShare = 0.88;  // h200_micro.jsonl: 55.4 of 63 GB/s.
    if (row.bytes.value <= 0) return refused(row.kind, "bytes missing");
    if (gpu_.pcie_per_direction.value <= 0) return refused(row.kind, "PCIe rate not known");
    return {row.kind, row.bytes / (kPcieShare * gpu_.pcie_per_direction), "", {}};
  }

  Prediction collective(const OperationRow& row) const {
    const std::string group = "nccl " + row.op;
    if (row.bytes.value <= 0 || row.world < 2) return refused(group, "bytes or world missing");
    static const std::map<std::string, model::CollectiveKind> kinds{
        {"all_reduce", model::CollectiveKind::AllReduce},
        {"all_gather", model::CollectiveKind::AllGather},
        {"reduce_scatter", model::CollectiveKind::ReduceScatter},
        {"all_to_all", model::CollectiveKind::AllToAll},
        {"broadcast", model::CollectiveKind::Broadcast},
        {"sendrecv", model::CollectiveKind::SendReceive}};
    const model::GroupTopology topology = one_node(row.world);
    Prediction prediction{group, std::nullopt, "", {"GPUs of one node over NVLink"}};
    if (row.op == "p2p_oneway") {
      prediction.time = std::max(send_time(row.bytes, topology), profile_.eager.one_way_send);
      return prediction;
    }
    const auto kind = kinds.find(row.op);
    if (kind == kinds.end()) return refused(group, "collective '" + row.op + "' is not known");
    const Seconds device = collective_time(kind->second, row.bytes, topology).time;
    const auto floor = profile_.eager.collective.find(kind->second);
    prediction.time =
        floor == profile_.eager.collective.end() ? device : std::max(device, floor->second);
    return prediction;
  }

 private:
  model::GroupTopology one_node(int world) const {
    model::Node node{.gpu_name = gpu_.name, .num_gpus = std::max(world, 8)};
    if (gpu_.nvlink_per_direction.value <= 0)
      node.nvlink_topology = model::NvlinkTopology::PcieOnly;
    return group_topology({.ranks = world, .ranks_per_node = world}, node, gpu_, {}, profile_);
  }

  const model::Gpu& gpu_;
  const model::GpuProfile& profile_;
  const HostPace& pace_;
};

Prediction predict_single(const OperationRow& row, const Predictor& predictor,
                          const model::GpuProfile& profile) {
  if (row.kind == "gemm" || row.kind == "grouped_gemm") return predictor.product(row);
  if (row.kind == "copy" || row.kind == "add") return predictor.copy(row);
  if (row.kind == "nccl") return predictor.collective(row);
  if (row.kind == "h2d" || row.kind == "d2h") return predictor.host_copy(row);
  if (row.kind == "launch_eager_us") return {row.kind, profile.host_launch, "", {}};
  if (row.kind == "launch_graph_us") return {row.kind, profile.kernel_gap, "", {}};
  if (row.kind == "rmsnorm_eager" || row.kind == "layernorm_eager" || row.kind == "gelu_eager") {
    return predictor.eager_kernel(row);
  }
  return refused(row.kind, "kind '" + row.kind + "' is not modelled");
}

OperationCheck check(const OperationRow& row, const char* suffix, Prediction prediction,
                     const std::optional<Seconds>& measured) {
  OperationCheck result;
  result.id = "line " + std::to_string(row.line) + suffix;
  result.group = std::move(prediction.group);
  result.reason = std::move(prediction.reason);
  result.assumptions = std::move(prediction.assumptions);
  if (measured) result.measured = *measured;
  if (!measured && prediction.time) result.reason = "no measured time";
  if (prediction.time) result.predicted = *prediction.time;
  result.scored = measured.has_value() && prediction.time.has_value();
  if (result.scored) result.error = ratio(result.predicted / result.measured) - 1;
  return result;
}

// Value at a fraction of a sorted list, interpolated.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(low);
  return sorted[low] + share * (sorted[high] - sorted[low]);
}

// Rank of every value; equal values share the mean of their ranks.
OperationGroup summarise(const std::string& name, const std::vector<const OperationCheck*>& rows) {
  OperationGroup group;
  group.group = name;
  group.rows = static_cast<int>(rows.size());
  std::vector<double> sizes, errors, predicted, measured;
  for (const OperationCheck* row : rows) {
    if (!row->scored) continue;
    errors.push_back(row->error);
    sizes.push_back(std::abs(row->error));
    predicted.push_back(row->predicted.value);
    measured.push_back(row->measured.value);
    if (std::abs(row->error) > std::abs(group.worst)) group.worst = row->error;
  }
  group.scored = static_cast<int>(errors.size());
  if (errors.empty()) return group;
  group.rank_correlation = rank_correlation(predicted, measured);
  std::sort(sizes.begin(), sizes.end());
  std::sort(errors.begin(), errors.end());
  group.median_abs_error = quantile(sizes, 0.5);
  group.p90_abs_error = quantile(sizes, 0.9);
  group.bias = quantile(errors, 0.5);
  return group;
}

}  // namespace

OperationValidation validate_operations(const std::vector<OperationRow>& rows,
                                        const model::Gpu& gpu, const model::GpuProfile& profile,
                                        const HostPace& pace) {
  OperationValidation result;
  const Predictor predictor(gpu, profile, pace);
  for (const OperationRow& row : rows) {
    if (row.kind == "attn") {
      result.rows.push_back(check(row, " forward", predictor.attention(row, false), row.forward));
      result.rows.push_back(check(row, " backward", predictor.attention(row, true), row.backward));
    } else {
      result.rows.push_back(check(row, "", predict_single(row, predictor, profile), row.time));
    }
  }
  return summarise_operations(std::move(result.rows));
}

OperationValidation summarise_operations(std::vector<OperationCheck> checks) {
  OperationValidation result;
  result.rows = std::move(checks);
  std::map<std::string, std::vector<const OperationCheck*>> groups;
  std::map<std::string, int> reasons;
  for (const OperationCheck& row : result.rows) {
    groups[row.group].push_back(&row);
    if (row.scored) {
      ++result.predicted;
    } else {
      ++reasons[row.reason];
    }
  }
  int scored_groups = 0;
  for (const auto& [name, members] : groups) {
    result.groups.push_back(summarise(name, members));
    if (result.groups.back().scored == 0) continue;
    ++scored_groups;
    result.mean_of_group_medians += result.groups.back().median_abs_error;
  }
  if (scored_groups > 0) result.mean_of_group_medians /= scored_groups;
  for (const auto& [reason, count] : reasons) {
    result.reasons.push_back(reason + " (" + std::to_string(count) + ")");
  }
  return result;
}

}  // namespace megatwin::sim
