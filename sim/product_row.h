// The product that a line of a benchmark file timed.
#ifndef MEGATWIN_SIM_PRODUCT_ROW_H_
#define MEGATWIN_SIM_PRODUCT_ROW_H_

#include <optional>
#include <string>

#include "model/data_type.h"
#include "model/micro_op.h"
#include "model/result.h"
#include "scenarios/operation_rows.h"

namespace megatwin::sim {

// "bf16" (also when empty), "fp8_e4m3", "mxfp8", "nvfp4", …; nothing for a word not known.
std::optional<model::DataType> data_type_of(const std::string& text);

// A row of kind gemm or grouped_gemm as an operation; an error says what the row lacks.
model::Result<model::MicroOp> product_of(const scenarios::OperationRow& row);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PRODUCT_ROW_H_
