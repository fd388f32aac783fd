#include "scenarios/collective_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "scenarios/csv_reader.h"

namespace megatwin::scenarios {
namespace {

using model::CollectiveKind;

std::optional<double> number_of(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return words;
    line.remove_prefix(first);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// What one run of nccl-tests says before its rows.
struct Header {
  int ranks = 0;
  std::set<std::string, std::less<>> hosts;
  std::set<std::string> processes;  // Host and id.
  int threads = 1;
  std::string gpu, collective;
  bool has_redop = false, has_root = false;
};

// "Rank  0 Group  0 Pid 1942267 on node-000  device  0 [0x0f] NVIDIA H100 80GB HBM3"
void read_device(std::string_view line, Header& header) {
  const std::size_t bracket = line.find(']');
  const auto words = words_of(line);
  if (bracket == std::string_view::npos) return;
  ++header.ranks;
  std::string host, process;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "on") host = words[i + 1];
    if (words[i] == "Pid") process = words[i + 1];
  }
  if (!host.empty()) header.hosts.insert(host);
  header.processes.insert(host + " " + process);
  std::string_view name = line.substr(bracket + 1);
  while (name.starts_with(' ')) name.remove_prefix(1);
  while (name.ends_with(' ') || name.ends_with('\r')) name.remove_suffix(1);
  header.gpu = name;
}

// "# nThread 1 nGpus 8 minBytes 1 …" opens a run.
std::optional<int> threads_of(std::string_view line) {
  const auto words = words_of(line);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "nThread") continue;
    const auto threads = number_of(words[i + 1]);
    if (threads && *threads >= 1) return static_cast<int>(*threads);
  }
  return std::nullopt;
}

struct Measured {
  double bytes = 0, microseconds = 0, algbw = 0, busbw = 0;
  bool has_operator = false;
  int line = 0;
};

// size count type [redop] [root] time algbw busbw …; all-to-all leaves redop empty.
std::optional<Measured> read_row(const std::vector<std::string_view>& words, const Header& header,
                                 int line) {
  if (words.size() < 6) return std::nullopt;
  const auto bytes = number_of(words[0]);
  if (!bytes || !number_of(words[1]) || number_of(words[2])) return std::nullopt;
  std::size_t at = 3;
  Measured row{.bytes = *bytes, .line = line};
  if (!number_of(words[at])) {
    row.has_operator = words[at] != "none";
    ++at;
  }
  if (header.has_root) ++at;
  if (at + 2 >= words.size()) return std::nullopt;
  const auto time = number_of(words[at]), algbw = number_of(words[at + 1]),
             busbw = number_of(words[at + 2]);
  if (!time || !algbw || !busbw) return std::nullopt;
  row.microseconds = *time;
  row.algbw = *algbw;
  row.busbw = *busbw;
  return row;
}

struct Named {
  const char* name;
  CollectiveKind kind;
};

// Bus over algorithm bandwidth, of a row where both have three digits.
std::optional<Named> collective_of(const std::vector<Measured>& rows, const Header& header) {
  const double n = header.ranks;
  for (const Measured& row : rows) {
    if (row.algbw < 1 || n < 2) continue;
    const double factor = row.busbw / row.algbw;
    const auto is = [&](double wanted) { return std::abs(factor / wanted - 1) < 0.01; };
    if (is(2 * (n - 1) / n) && n > 2) return Named{"all_reduce", CollectiveKind::AllReduce};
    if (is((n - 1) / n)) {
      if (!header.has_redop) return Named{"all_gather", CollectiveKind::AllGather};
      if (row.has_operator) return Named{"reduce_scatter", CollectiveKind::ReduceScatter};
      return Named{"alltoall", CollectiveKind::AllToAll};
    }
    if (is(1)) {
      if (n == 2 && header.has_redop) return Named{"all_reduce", CollectiveKind::AllReduce};
      return Named{"broadcast", CollectiveKind::Broadcast};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

void append_run(const Header& header, const std::vector<Measured>& rows,
                const std::optional<Named>& collective, std::vector<CollectiveRow>& all) {
  for (const Measured& measured : rows) {
    if (measured.bytes <= 0) continue;
    CollectiveRow row{
        .id = "line " + std::to_string(measured.line),
        .machine = header.gpu,
        .operation = collective ? collective->name : "unknown",
        .ranks = header.ranks,
        .hosts = static_cast<int>(header.hosts.size()),
        .gpus_per_process = header.ranks / std::max(static_cast<int>(header.processes.size()), 1),
        .threads_per_process = header.threads,
        .bytes = {measured.bytes},
        .time = model::Seconds{measured.microseconds * 1e-6}};
    if (collective) row.kind = collective->kind;
    if (header.ranks == 0) {
      row.reason = "the log does not list its devices";
    } else if (!collective) {
      row.reason = "bus over algorithm bandwidth is that of no collective";
    }
    all.push_back(std::move(row));
  }
}

}  // namespace

model::Result<std::vector<CollectiveRow>> parse_nccl_log(const std::string& file,
                                                         std::string_view text) {
  std::vector<CollectiveRow> all;
  Header header;
  std::vector<std::pair<Header, std::vector<Measured>>> runs;
  int line_number = 0;
  bool in_rows = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    // mpirun's tag of the rank: "[1,0]<stdout>:".
    if (const std::size_t tag = line.find("<stdout>:"); line.starts_with('[') && tag < 32) {
      line.remove_prefix(tag + std::string_view("<stdout>:").size());
    }
    if (const auto threads = line.starts_with('#') ? threads_of(line) : std::nullopt) {
      header = Header{.threads = *threads};
      in_rows = false;
      continue;
    }
    const bool device = line.find("Rank") != std::string_view::npos &&
                        line.find("device") != std::string_view::npos;
    if (device) {
      if (in_rows) header = Header{};
      in_rows = false;
      read_device(line, header);
      continue;
    }
    if (line.find("busbw") != std::string_view::npos &&
        line.find("size") != std::string_view::npos) {
      header.has_redop = line.find("redop") != std::string_view::npos;
      header.has_root = line.find("root") != std::string_view::npos;
      runs.emplace_back(header, std::vector<Measured>{});
      in_rows = true;
      continue;
    }
    if (!in_rows || line.starts_with('#')) continue;
    const auto words = words_of(line);
    if (const auto row = read_row(words, header, line_number)) runs.back().second.push_back(*row);
  }
  if (runs.empty()) {
    return model::fail({.file = file,
                        .message = "holds no table of nccl-tests",
                        .allowed = "its output with the line of size, time, algbw and busbw"});
  }
  // One run may hold one small size only: any run of the same devices tells the collective.
  std::map<std::string, Named> known;
  const auto key_of = [](const Header& h) {
    return h.gpu + "/" + std::to_string(h.ranks) + (h.has_redop ? "/redop" : "");
  };
  for (const auto& [run, rows] : runs) {
    if (const auto collective = collective_of(rows, run)) known.emplace(key_of(run), *collective);
  }
  for (const auto& [run, rows] : runs) {
    auto collective = collective_of(rows, run);
    const auto other = known.find(key_of(run));
    const bool small =
        std::none_of(rows.begin(), rows.end(), [](const Measured& row) { return row.algbw >= 1; });
    if (!collective && small && other != known.end()) collective = other->second;
    append_run(run, rows, collective, all);
  }
  return all;
}

bool is_collective_csv(std::string_view text) {
  return text.starts_with("category,gpu,op,n_gpus,");
}

model::Result<std::vector<CollectiveRow>> parse_collective_csv(const std::string& file,
                                                               std::string_view text) {
  MEGATWIN_TRY(const std::vector<CsvRow> rows, parse_csv(std::string(text), file));
  std::vector<CollectiveRow> all;
  std::map<std::string, std::size_t> column;
  for (const CsvRow& cells : rows) {
    if (column.empty()) {
      for (std::size_t i = 0; i < cells.fields.size(); ++i) column[cells.fields[i]] = i;
      for (const char* name : {"category", "gpu", "op", "n_gpus", "shape_or_size", "time_us"}) {
        if (column.contains(name)) continue;
        return model::fail({.file = file,
                            .line = 1,
                            .message = std::string("has no column ") + name,
                            .allowed = "category, gpu, op, n_gpus, shape_or_size, time_us"});
      }
      continue;
    }
    const auto cell = [&](const char* name) -> std::string {
      const std::size_t at = column.at(name);
      return at < cells.fields.size() ? cells.fields[at] : "";
    };
    if (cell("category") != "nccl") continue;
    CollectiveRow row{.id = "line " + std::to_string(cells.line),
                      .machine = cell("gpu"),
                      .operation = cell("op")};
    const std::string size = cell("shape_or_size");
    const auto bytes = number_of(size.substr(0, size.find(' ')));
    const auto time = number_of(cell("time_us"));
    row.ranks = static_cast<int>(number_of(cell("n_gpus")).value_or(0));
    if (row.operation != "all_reduce") {
      row.reason = "timed from Python, not by nccl-tests";
    } else if (!bytes || !size.ends_with(" B")) {
      row.reason = "no size in bytes";
    } else if (!time || *time <= 0) {
      row.reason = "no time, only a bandwidth";
    } else {
      row.bytes = {*bytes};
      row.time = model::Seconds{*time * 1e-6};
    }
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace megatwin::scenarios
