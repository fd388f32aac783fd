#include "sim/product_row.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace megatwin::sim {
namespace {

model::Result<model::MicroOp> lacking(std::string what) {
  return model::fail(model::Diagnostic{.message = std::move(what)});
}

}  // namespace

std::optional<model::DataType> data_type_of(const std::string& text) {
  if (text.empty() || text == "bf16") return model::DataType::Bf16;
  if (text == "fp16") return model::DataType::Fp16;
  if (text == "fp32") return model::DataType::Fp32;
  if (text == "tf32") return model::DataType::Tf32;
  if (text.starts_with("fp8") || text.starts_with("mxfp8")) return model::DataType::Fp8;
  if (text.starts_with("fp4") || text.starts_with("nvfp4")) return model::DataType::Fp4;
  return std::nullopt;
}

model::Result<model::MicroOp> product_of(const scenarios::OperationRow& row) {
  const std::optional<model::DataType> type = data_type_of(row.dtype);
  if (!type) return lacking("format '" + row.dtype + "' is not known");
  model::MicroOp op{.kind = model::MicroOpKind::Gemm, .name = "gemm"};
  op.gemm.type = *type;
  op.gemm.n = row.n;
  op.gemm.k = row.k;
  if (row.kind == "grouped_gemm") {
    if (row.experts <= 0 || row.tokens <= 0) return lacking("experts or tokens missing");
    op.gemm.grouped = true;
    op.gemm.batch = row.experts;
    op.gemm.m = std::max<std::int64_t>(row.tokens / row.experts, 1);
  } else {
    op.gemm.m = row.m;
  }
  if (op.gemm.m <= 0 || op.gemm.n <= 0 || op.gemm.k <= 0) return lacking("a size is missing");
  if (row.layout.starts_with("NN")) op.gemm.layout = model::GemmLayout::DataGradient;
  if (row.layout.starts_with("NT")) op.gemm.layout = model::GemmLayout::WeightGradient;
  return op;
}

}  // namespace megatwin::sim
