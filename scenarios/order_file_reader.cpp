#include "scenarios/order_file_reader.h"

#include <sstream>
#include <string_view>
#include <utility>

#include "model/program/task.h"
#include "scenarios/document.h"

namespace megatwin::scenarios {

using Orders = std::vector<std::vector<std::string>>;

model::Result<Orders> parse_order_file(const std::string& file, const std::string& text) {
  if (model::Diagnostics problems = check_text(file, text); !problems.empty()) {
    return model::fail(std::move(problems));
  }
  Orders orders;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::istringstream lines(
      text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0));
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) {
      line.resize(comment);
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::size_t colon = line.find(':');
    std::istringstream head(line.substr(0, colon == std::string::npos ? 0 : colon));
    std::string rank, rest;
    head >> rank >> rest;
    if (rank != std::to_string(orders.size()) || !rest.empty()) {
      return model::fail({.file = file,
                          .line = number,
                          .column = 1,
                          .message = "is not the order of rank " + std::to_string(orders.size()),
                          .allowed = "one line a rank, in rank order, such as \"" +
                                     std::to_string(orders.size()) + ": F0.0 F1.0 B0.0 B1.0\""});
    }
    std::istringstream tokens(line.substr(colon + 1));
    std::vector<std::string> order;
    for (std::string token; tokens >> token;) {
      if (!model::task_from_text(token)) {
        return model::fail({.file = file,
                            .line = number,
                            .column = static_cast<int>(line.find(token, colon + 1)) + 1,
                            .message = "'" + token + "' is no task",
                            .allowed = "a letter of F B I W, the micro-batch, a full stop and the "
                                       "chunk, such as F0.1"});
      }
      order.push_back(token);
    }
    orders.push_back(std::move(order));
  }
  if (orders.empty()) {
    return model::fail({.file = file,
                        .message = "holds no order",
                        .allowed = "one line a rank, such as \"0: F0.0 B0.0\""});
  }
  return orders;
}

model::Result<Orders> read_order_file(const std::string& path) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  return parse_order_file(path, text);
}

}  // namespace megatwin::scenarios
