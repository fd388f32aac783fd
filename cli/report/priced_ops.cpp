#include "cli/report/priced_ops.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "cli/report/format.h"

namespace megatwin::cli {
namespace {

std::string_view name_of(model::CollectiveKind kind) {
  switch (kind) {
    case model::CollectiveKind::AllReduce:
      return "all-reduce";
    case model::CollectiveKind::AllGather:
      return "all-gather";
    case model::CollectiveKind::ReduceScatter:
      return "reduce-scatter";
    case model::CollectiveKind::AllToAll:
      return "all-to-all";
    case model::CollectiveKind::Broadcast:
      return "broadcast";
    case model::CollectiveKind::SendReceive:
      return "send and receive";
  }
  return "collective";
}

std::string_view name_of(model::GroupKind kind) {
  switch (kind) {
    case model::GroupKind::Tensor:
      return "tensor";
    case model::GroupKind::Context:
      return "context";
    case model::GroupKind::Expert:
      return "expert";
    case model::GroupKind::ExpertTensor:
      return "expert-tensor";
    case model::GroupKind::Data:
      return "data";
    case model::GroupKind::ExpertData:
      return "expert-data";
    case model::GroupKind::Pipeline:
      return "pipeline";
  }
  return "";
}

std::string gemm_text(const model::GemmShape& shape) {
  std::string text = fmt::format("{} × {} × {} {}", format_count(shape.m), format_count(shape.n),
                                 format_count(shape.k), model::name_of(shape.type));
  if (shape.batch > 1) {
    text += fmt::format(", {} {}", format_count(shape.batch), shape.grouped ? "groups" : "batched");
  }
  return text;
}

std::string attention_text(const model::AttentionShape& shape) {
  return fmt::format("{}, {} ({} key-value) of {}, {} × {}{}",
                     format_counted(shape.batch, "sequence"), format_counted(shape.heads, "head"),
                     shape.key_value_heads, shape.qk_dim, format_count(shape.query_length),
                     format_counted(shape.key_length, "token"), shape.causal ? ", causal" : "");
}

bool is_alike(const sim::PricedOp& a, const sim::PricedOp& b) {
  const auto numbers = [](const sim::PricedOp& priced) {
    const model::MicroOp& op = priced.op;
    return std::tuple(priced.time, op.kind, op.count, op.flop, op.read, op.written, op.bytes);
  };
  return numbers(a) == numbers(b) && a.task == b.task && a.op.name == b.op.name &&
         shape_text(a.op) == shape_text(b.op);
}

}  // namespace

std::vector<sim::PricedOp> dearest_first(std::vector<sim::PricedOp> ops) {
  std::stable_sort(ops.begin(), ops.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  return ops;
}

std::vector<AlikeOps> dearest_alike(std::vector<sim::PricedOp> ops) {
  std::vector<AlikeOps> groups;
  for (sim::PricedOp& op : dearest_first(std::move(ops))) {
    // Operations of equal time stand beside each other, in groups that take turns.
    auto group = groups.rbegin();
    while (group != groups.rend() && group->first.time == op.time && !is_alike(group->first, op)) {
      ++group;
    }
    if (group != groups.rend() && group->first.time == op.time) {
      ++group->num_chunks;
    } else {
      groups.push_back({.first = std::move(op)});
    }
  }
  return groups;
}

std::string shape_text(const model::MicroOp& op) {
  switch (op.kind) {
    case model::MicroOpKind::Gemm:
      return gemm_text(op.gemm);
    case model::MicroOpKind::Attention:
      return attention_text(op.attention);
    case model::MicroOpKind::MemoryBound:
      return fmt::format("{} read, {} written", format_traffic(op.read),
                         format_traffic(op.written));
    case model::MicroOpKind::Collective:
      return fmt::format("{} of {} over the {} group", name_of(op.collective),
                         format_traffic(op.bytes), name_of(op.group));
  }
  return "";
}

std::string_view kind_text(model::MicroOpKind kind) {
  switch (kind) {
    case model::MicroOpKind::Gemm:
      return "GEMM";
    case model::MicroOpKind::Attention:
      return "attention";
    case model::MicroOpKind::MemoryBound:
      return "memory-bound";
    case model::MicroOpKind::Collective:
      return "collective";
  }
  return "";
}

}  // namespace megatwin::cli
