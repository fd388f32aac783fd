#include "scenarios/order_file_reader.h"

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "model/counted.h"
#include "model/program/task.h"
#include "scenarios/document.h"

namespace megatwin::scenarios {

using Orders = std::vector<std::vector<std::string>>;

namespace {

constexpr std::string_view kSpaces = " \t\r\v\f";

// "0", or "0 to 7".
std::string from_zero(std::int64_t count) {
  return count > 1 ? "0 to " + std::to_string(count - 1) : "0";
}

// Without its place; nothing when the token is a task.
std::optional<model::Diagnostic> token_fault(const std::string& token,
                                             const std::optional<OrderSizes>& sizes) {
  const auto task = model::task_from_text(token);
  if (!task) {
    return model::Diagnostic{.message = quoted(token) + " is no task",
                             .allowed =
                                 "a letter of F B I W, the micro-batch, a full stop and the "
                                 "chunk, such as F0.1"};
  }
  if (!sizes ||
      (task->micro_batch.value < sizes->micro_batches && task->chunk.value < sizes->chunks)) {
    return std::nullopt;
  }
  return model::Diagnostic{.message = quoted(token) + " is out of range: the plan has " +
                                      model::counted(sizes->micro_batches, "micro-batch") +
                                      " and " + model::counted(sizes->chunks, "chunk") + " a rank",
                           .allowed = "micro-batch " + from_zero(sizes->micro_batches) +
                                      ", chunk " + from_zero(sizes->chunks)};
}

}  // namespace

model::Result<Orders> parse_order_file(const std::string& file, const std::string& text,
                                       const std::optional<OrderSizes>& sizes) {
  if (model::Diagnostics problems = check_text(file, text); !problems.empty()) {
    return model::fail(std::move(problems));
  }
  Orders orders;
  model::Diagnostics faults;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) {
      line.resize(comment);
    }
    if (line.find_first_not_of(kSpaces) == std::string::npos) continue;
    const std::size_t colon = line.find(':');
    std::istringstream head(line.substr(0, colon == std::string::npos ? 0 : colon));
    std::string rank, rest;
    head >> rank >> rest;
    if (rank != std::to_string(orders.size()) || !rest.empty()) {
      faults.push_back({.file = file,
                        .line = number,
                        .column = 1,
                        .message = "is not the order of rank " + std::to_string(orders.size()),
                        .allowed = "one line a rank, in rank order, such as \"" +
                                   std::to_string(orders.size()) + ": F0.0 F1.0 B0.0 B1.0\""});
      break;
    }
    std::vector<std::string> order;
    for (std::size_t at = line.find_first_not_of(kSpaces, colon + 1); at != std::string::npos;) {
      const std::size_t end = std::min(line.find_first_of(kSpaces, at), line.size());
      const std::string token = line.substr(at, end - at);
      if (auto fault = token_fault(token, sizes)) {
        fault->file = file;
        fault->line = number;
        fault->column = static_cast<int>(at) + 1;
        faults.push_back(*std::move(fault));
        break;
      }
      order.push_back(token);
      at = line.find_first_not_of(kSpaces, end);
    }
    orders.push_back(std::move(order));
  }
  if (!faults.empty()) return model::fail(std::move(faults));
  if (orders.empty()) {
    return model::fail({.file = file,
                        .message = "holds no order",
                        .allowed = "one line a rank, such as \"0: F0.0 B0.0\""});
  }
  return orders;
}

model::Result<Orders> read_order_file(const std::string& path,
                                      const std::optional<OrderSizes>& sizes) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  return parse_order_file(path, text, sizes);
}

}  // namespace megatwin::scenarios
