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

constexpr const char* kTokensAllowed = "numbers from 0 to 1e15";
constexpr const char* kRowsAllowed = "a row a rank: [[12, 0], [3, 1]]";
constexpr std::size_t kFaultsShown = 20;

std::string numbers_of(const std::vector<double>& row, const std::vector<double>& first) {
  return "has " + model::counted(std::ssize(row), "number") + ", the first row " +
         std::to_string(first.size());
}

// The cells of one line; faults are added.
std::vector<double> csv_row(std::string_view rest, const model::Diagnostic& place,
                            model::Diagnostics& faults) {
  std::vector<double> row;
  while (true) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view cell = trimmed(rest.substr(0, comma));
    const auto value = parse_number(cell, kTokens);
    if (!value) {
      model::Diagnostic& fault = faults.emplace_back(place);
      // An empty cell stands where the comma is.
      const char* at = cell.empty() ? rest.data() : cell.data();
      fault.column = static_cast<int>(at - place.source_line.data()) + 1;
      fault.message = quoted(cell) + " is no number of tokens";
      fault.allowed = std::string(kTokensAllowed) + ", separated by commas";
    }
    row.push_back(value.value_or(0));
    if (comma == rest.size()) return row;
    rest.remove_prefix(comma + 1);
  }
}

model::Result<TokenTable> parse_token_csv(const std::string& file, const std::string& text) {
  if (model::Diagnostics faults = check_text(file, text); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  TokenTable table;
  model::Diagnostics faults;
  std::istringstream lines(text);
  model::Diagnostic place{.file = file};
  for (int number = 1; std::getline(lines, place.source_line); ++number) {
    const std::string_view rest = trimmed(place.source_line);
    if (rest.empty() || rest.starts_with('#')) continue;
    place.line = number;
    table.push_back(csv_row(rest, place, faults));
    if (table.back().size() == table.front().size()) continue;
    model::Diagnostic& fault = faults.emplace_back(place);
    fault.message = numbers_of(table.back(), table.front());
    fault.allowed = "as many in every row";
  }
  if (table.empty())
    faults.push_back({.file = file, .message = "holds no row", .allowed = "a row a rank"});
  if (faults.size() > kFaultsShown) {
    const std::size_t more = faults.size() - kFaultsShown;
    faults.resize(kFaultsShown);
    faults.push_back({.file = file, .message = "has " + std::to_string(more) + " more faults"});
  }
  if (!faults.empty()) return model::fail(std::move(faults));
  return table;
}

// Empty when something was reported.
TokenTable read_rows(MapReader& entry, const TreeNode& list) {
  TokenTable table;
  const auto is_number = [](const TreeNode& item) { return item.kind == TreeKind::Scalar; };
  if (list.items.empty()) {
    entry.error_at(list, "tokens", "holds no row", kRowsAllowed);
    return {};
  }
  if (std::all_of(list.items.begin(), list.items.end(), is_number)) {
    entry.error_at(list, "tokens", "is a list of numbers, not of rows", kRowsAllowed);
    return {};
  }
  std::size_t faults = 0;
  const auto fault = [&](const TreeNode& at, std::size_t row, const std::string& message,
                         const char* allowed) {
    if (++faults > kFaultsShown) return;
    entry.error_at(at, "tokens[" + std::to_string(row) + "]", message, allowed);
  };
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const TreeNode& item = list.items[i];
    std::vector<double>& row = table.emplace_back();
    if (item.kind != TreeKind::Sequence) {
      fault(item, i, "is no row of numbers", kRowsAllowed);
      continue;
    }
    for (const TreeNode& cell : item.items) {
      const auto value = parse_number(cell.text, kTokens);
      const bool fits = is_number(cell) && value;
      if (!fits)
        fault(cell, i, "holds " + quoted(cell.text) + ", no number of tokens", kTokensAllowed);
      row.push_back(fits ? *value : 0);
    }
    if (row.empty()) fault(item, i, "is a row without numbers", kRowsAllowed);
    if (row.size() != table.front().size()) {
      fault(item, i, numbers_of(row, table.front()), "as many in every row");
    }
  }
  return faults == 0 ? table : TokenTable{};
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
