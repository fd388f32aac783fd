#include "scenarios/measured_rows.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "model/parameters.h"
#include "scenarios/csv_reader.h"
#include "scenarios/document.h"
#include "scenarios/measured_row_parts.h"

namespace megatwin::scenarios {

using model::Diagnostics;
using model::Job;
using model::Plan;
using model::Result;
using model::Seconds;

const std::string& MeasuredRow::text(const std::string& column) const {
  static const std::string kEmpty;
  const auto found = cells.find(column);
  return found == cells.end() ? kEmpty : found->second;
}

std::string MeasuredRow::group() const {
  const std::string name = id();
  return name.substr(0, name.find('-'));
}

std::string MeasuredRow::framework_version() const {
  const std::string& stated = text("framework_version");
  if (!stated.empty()) return stated;
  // "… 26.06 NeMo Container".
  constexpr std::size_t kVersionLength = 5;
  const std::string& title = text("source");
  const std::size_t at = title.find(" NeMo Container");
  if (at == std::string::npos || at < kVersionLength) return {};
  return title.substr(at - kVersionLength, kVersionLength);
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

Result<std::vector<MeasuredRow>> parse_measured_rows(const std::string& text,
                                                     const std::string& file) {
  MEGATWIN_TRY(const std::vector<CsvRow> table, parse_csv(text, file));
  if (table.empty()) {
    return model::fail({.file = file, .message = "is empty", .allowed = "a header row with 'id'"});
  }
  const std::vector<std::string>& header = table.front().fields;
  if (std::find(header.begin(), header.end(), "id") == header.end()) {
    return model::fail({.file = file,
                        .line = 1,
                        .message = "has no column 'id'",
                        .allowed = "the columns of scenarios/measured/*.csv"});
  }
  std::vector<MeasuredRow> rows;
  Diagnostics problems;
  for (std::size_t i = 1; i < table.size(); ++i) {
    const CsvRow& line = table[i];
    if (line.fields.size() != header.size()) {
      problems.push_back({.file = file,
                          .line = line.line,
                          .message = "has " + std::to_string(line.fields.size()) +
                                     " fields where the header has " +
                                     std::to_string(header.size())});
      continue;
    }
    MeasuredRow row{.line = line.line};
    for (std::size_t c = 0; c < header.size(); ++c) {
      if (!line.fields[c].empty()) row.cells[header[c]] = line.fields[c];
    }
    rows.push_back(std::move(row));
  }
  if (!problems.empty()) return model::fail(problems);
  return rows;
}

Result<std::vector<MeasuredRow>> read_measured_rows(const std::string& path) {
  MEGATWIN_TRY(const std::string text, read_file(path));
  return parse_measured_rows(text, path);
}

Measurement measurement_of(const MeasuredRow& row) {
  Measurement measured;
  const auto positive = [&](const char* column) -> std::optional<double> {
    const auto value = number_of(row.text(column));
    return value && *value > 0 && *value < 1e9 ? value : std::nullopt;
  };
  const auto batch = positive("global_batch"), sequence = positive("seq_len");
  const auto gpus = positive("gpus");
  if (const auto time = positive("measured_iteration_s")) {
    measured.step_time = Seconds{*time};
    measured.step_time_source = "measured_iteration_s";
  } else if (const auto rate = positive("measured_tokens_per_s_per_gpu");
             rate && batch && sequence && gpus && *rate > 0) {
    measured.step_time = Seconds{*batch * *sequence / (*rate * *gpus)};
    measured.step_time_source = "tokens/s";
  } else if (const auto derived = positive("derived_iteration_s")) {
    measured.step_time = Seconds{*derived};
    measured.step_time_source = "derived";
  }
  if (const auto memory = positive("measured_mem_GB")) {
    // Where the unit is not stated: torchtitan prints GiB (its own tables say so), others GB.
    const std::string& unit = row.text("measured_mem_unit");
    const bool binary = unit.empty() ? row.text("framework") == "fsdp2" : unit == "GiB";
    measured.memory = model::Bytes{*memory * (binary ? 1024.0 * 1024 * 1024 : 1e9)};
  }
  return measured;
}

Result<Job> job_of(const MeasuredRow& row, const model::HardwareCatalogue& catalogue) {
  Job job;
  job.name = row.id();
  Diagnostics problems;
  fill_software(row, job, problems);
  fill_transformer(row, job, problems);
  fill_cluster(row, catalogue, job, problems);
  fill_plan(row, job, problems);
  if (!problems.empty()) return model::fail(problems);
  return job;
}

}  // namespace megatwin::scenarios
