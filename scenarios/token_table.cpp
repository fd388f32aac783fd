#include "scenarios/token_table.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "model/counted.h"
#include "scenarios/model_reader.h"

namespace megatwin::scenarios {
namespace {

constexpr NumberRange kTokens{.min = 0, .max = 1e15};
constexpr double kRowsDiffer = 0.05;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

model::Result<TokenTable> parse_token_csv(const std::string& file, const std::string& text) {
  if (model::Diagnostics faults = check_text(file, text); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  TokenTable table;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::string_view rest = trimmed(line);
    if (rest.empty() || rest.starts_with('#')) continue;
    std::vector<double>& row = table.emplace_back();
    while (true) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view cell = trimmed(rest.substr(0, comma));
      const auto value = parse_number(cell, kTokens);
      if (!value) {
        return model::fail({.file = file,
                            .line = number,
                            .column = static_cast<int>(cell.data() - line.data()) + 1,
                            .message = quoted(cell) + " is no number of tokens",
                            .allowed = "numbers from 0 on, separated by commas",
                            .source_line = line});
      }
      row.push_back(*value);
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
    if (row.size() == table.front().size()) continue;
    return model::fail({.file = file,
                        .line = number,
                        .message = "has " + std::to_string(row.size()) +
                                   " numbers, the first row " +
                                   std::to_string(table.front().size()),
                        .allowed = "as many in every row",
                        .source_line = line});
  }
  if (table.empty()) {
    return model::fail({.file = file, .message = "holds no row", .allowed = "a row a rank"});
  }
  return table;
}

TokenTable read_rows(MapReader& entry, const TreeNode& list) {
  TokenTable table;
  for (const TreeNode& item : list.items) {
    std::vector<double>& row = table.emplace_back();
    for (const TreeNode& cell : item.items) {
      const auto value = parse_number(cell.text, kTokens);
      if (cell.kind != TreeKind::Scalar || !value) {
        entry.error_at(cell, "tokens", "is no number of tokens", "a number from 0 on");
        return {};
      }
      row.push_back(*value);
    }
    if (item.kind == TreeKind::Sequence && !row.empty() && row.size() == table.front().size()) {
      continue;
    }
    entry.error_at(item, "tokens", "is no row as long as the first", "[12, 0, 3, 1]");
    return {};
  }
  return table;
}

}  // namespace

model::Result<TokenTable> load_token_table(const std::string& path) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  return parse_token_csv(path, text);
}

TokenTable read_token_table(MapReader& entry, const std::string& folder) {
  const TreeNode* node = entry.find("tokens");
  if (node == nullptr) return {};
  if (node->kind == TreeKind::Sequence) return read_rows(entry, *node);
  if (!entry.is_scalar(*node, "tokens")) return {};
  model::Result<TokenTable> table = load_token_table(resolved_path(*node, folder));
  if (table) return *std::move(table);
  entry.error_at(*node, "tokens", quoted(node->text) + " cannot be read as a table of tokens",
                 "a CSV file with a row for each rank of the expert group, or the rows themselves");
  entry.context().append(table.error());
  return {};
}

void fit_token_table(MapReader& entry, const model::Plan& plan,
                     const model::MixtureOfExperts& experts, model::Disturbance& disturbance) {
  TokenTable& table = disturbance.tokens;
  const TreeNode* node = entry.find("tokens");
  if (table.empty() || node == nullptr) return;
  const auto ranks = static_cast<std::size_t>(plan.expert);
  const auto num_experts = static_cast<std::size_t>(experts.num_experts);
  const std::size_t columns = table.front().size();
  if (table.size() != ranks || (columns != ranks && columns != num_experts) ||
      columns % ranks != 0) {
    entry.error_at(*node, "tokens",
                   "is a table of " + std::to_string(table.size()) + " × " +
                       std::to_string(columns) + " for " + model::counted(plan.expert, "rank") +
                       " with " + model::counted(experts.num_experts, "expert"),
                   std::to_string(ranks) + " rows of " + std::to_string(ranks) + " ranks or " +
                       std::to_string(num_experts) + " experts");
    table.clear();
    return;
  }
  std::vector<double> received(ranks);
  double total = 0, row_least = 0, row_most = 0;
  for (auto& row : table) {
    std::vector<double> by_rank(ranks);
    double sum = 0;
    for (std::size_t j = 0; j < columns; ++j) {
      by_rank[j * ranks / columns] += row[j];
      received[j * ranks / columns] += row[j];
      sum += row[j];
    }
    row_least = &row == &table.front() ? sum : std::min(row_least, sum);
    row_most = std::max(row_most, sum);
    total += sum;
    row = std::move(by_rank);
  }
  const double mean = total / static_cast<double>(ranks);
  if (!(total > 0) || row_most - row_least > kRowsDiffer * mean) {
    entry.error_at(*node, "tokens",
                   total > 0 ? "rows send unlike numbers of tokens" : "sends no tokens",
                   "every rank routes as many tokens: sums of rows within 5 % of each other");
    table.clear();
    return;
  }
  disturbance.factor = *std::max_element(received.begin(), received.end()) / mean;
}

}  // namespace megatwin::scenarios
