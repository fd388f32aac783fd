#include "cli/collective.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cli/diagnostics.h"
#include "cli/progress.h"
#include "cli/report/format.h"
#include "cli/report/json_writer.h"
#include "scenarios/quantity.h"
#include "scenarios/token_table.h"
#include "sim/lone_collective.h"

namespace megatwin::cli {
namespace {

using model::CollectiveKind;
using model::RankId;

constexpr std::pair<const char*, CollectiveKind> kKindsOfCommand[] = {
    {"all-reduce", CollectiveKind::AllReduce},
    {"all-gather", CollectiveKind::AllGather},
    {"reduce-scatter", CollectiveKind::ReduceScatter},
    {"all-to-all", CollectiveKind::AllToAll}};

model::Diagnostic bad_ranks(const std::string& text) {
  return {.file = "--ranks",
          .message = "'" + text + "' names no ranks",
          .allowed = "a number of ranks, or ranks: 64, 0-7, 0,8,16"};
}

// "64" are the first 64; "0-7,16" those.
model::Result<std::vector<RankId>> ranks_of(const std::string& text, int gpus) {
  std::vector<RankId> ranks;
  const auto number = [&](const std::string& word) {
    return scenarios::parse_integer(word, {.min = 0, .max = 10'000'000});
  };
  if (text.find_first_of(",-") == std::string::npos) {
    const auto count = text.empty() ? model::Result<std::int64_t>(gpus) : number(text);
    if (!count || *count < 1) return model::fail(bad_ranks(text));
    for (int r = 0; r < *count; ++r) ranks.push_back({r});
    return ranks;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    const std::size_t dash = word.find('-');
    const auto first = number(word.substr(0, dash));
    const auto last = dash == std::string::npos ? first : number(word.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first > 10'000'000) {
      return model::fail(bad_ranks(text));
    }
    for (std::int64_t r = *first; r <= *last; ++r) ranks.push_back({static_cast<std::int32_t>(r)});
    at = end + 1;
  }
  return ranks;
}

struct Ran {
  sim::LoneCollective wish;
  sim::LoneResult result;
};

// What each rank sends to each, of as many ranks as there are, and not only zeros.
model::Result<scenarios::TokenTable> table_for(const CollectiveArguments& arguments,
                                               const sim::LoneCollective& wish) {
  if (wish.kind != CollectiveKind::AllToAll) {
    return model::fail({.file = "--tokens",
                        .message = "a table of tokens says what each rank sends to each, and " +
                                   arguments.kind + " sends every rank's bytes to all",
                        .allowed = "with all-to-all"});
  }
  MEGATWIN_TRY(scenarios::TokenTable table, scenarios::load_token_table(arguments.tokens));
  const std::size_t rows = table.size(), columns = table.front().size();
  if (rows != wish.ranks.size() || columns != rows) {
    return model::fail(
        {.file = arguments.tokens,
         .message =
             fmt::format("holds {} × {} numbers for {} ranks", rows, columns, wish.ranks.size()),
         .allowed = fmt::format("{} rows of {}", wish.ranks.size(), wish.ranks.size())});
  }
  const bool sends = std::any_of(table.begin(), table.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](double tokens) { return tokens > 0; });
  });
  if (sends) return table;
  return model::fail({.file = arguments.tokens,
                      .message = "sends no tokens",
                      .allowed = "a number above 0 somewhere"});
}

model::Result<Ran> ran(const CollectiveArguments& arguments, const World& world, Console& console) {
  std::vector<std::string> settings = arguments.settings;
  settings.push_back("network=" + arguments.network);
  MEGATWIN_TRY(const auto jobs, world.load_jobs(arguments.file, {.set = settings}));
  Ran out;
  for (const auto& [name, kind] : kKindsOfCommand) {
    if (arguments.kind == name) out.wish.kind = kind;
  }
  const auto bytes = scenarios::parse_bytes(arguments.size);
  if (!bytes) {
    model::Diagnostic fault = bytes.error().front();
    fault.file = "--size";
    return model::fail(std::move(fault));
  }
  if (bytes->value < 1) {
    return model::fail({.file = "--size",
                        .message = "'" + arguments.size + "' is less than a byte",
                        .allowed = "1 B or more"});
  }
  out.wish.bytes = *bytes;
  out.wish.algorithm = arguments.algorithm;
  MEGATWIN_TRY(out.wish.ranks, ranks_of(arguments.ranks, jobs.front().cluster.num_gpus()));
  if (!arguments.tokens.empty()) {
    MEGATWIN_TRY(out.wish.tokens, table_for(arguments, out.wish));
  }
  const Progress progress(console, "flows", 1);  // Counts the seconds.
  MEGATWIN_TRY(out.result, sim::run_lone_collective(jobs.front(), out.wish));
  return out;
}

void print_collective_text(const CollectiveArguments& arguments, const Ran& ran, Console& console) {
  const sim::LoneResult& result = ran.result;
  console.out << fmt::format("{} of {} on {}, {}\n", arguments.kind, format_traffic(ran.wish.bytes),
                             format_counted(result.ranks, "rank"),
                             format_counted(result.machines, "machine"));
  const model::CollectiveTime& closed = result.closed_form;
  const bool sends = result.busbw.has_value();
  const std::string laid_out =
      result.by_machines ? ", all that a machine sends to a rank as one flow" : "";
  const std::string of_table = arguments.tokens.empty() ? "" : ", of the table's pairs";
  console.out << format_table(
      {{"algorithm", result.algorithm, "flows over the links, " + arguments.network + laid_out},
       {"time", format_time(result.time),
        sends ? "bandwidth and latency of the links alone" : "nothing leaves a rank"},
       {"bus bandwidth", sends ? format_bandwidth(*result.busbw) : "not defined",
        of_table.empty() ? "" : "by what leaves a rank in the mean"},
       {"closed form", format_time(closed.time),
        fmt::format("{}, {}, with what NCCL adds{}", name_of(closed.algorithm),
                    name_of(closed.protocol), of_table)}},
      {});
  for (const std::string& warning : result.warnings) console.out << "warning: " << warning << "\n";
  if (result.links.empty()) return;
  std::vector<std::vector<std::string>> rows = {{"busiest links", "carry", "of", "busy"}};
  for (const sim::LoneResult::Busy& link : result.links) {
    rows.push_back({link.link, format_traffic(link.carried), format_bandwidth(link.bandwidth),
                    format_percent(link.fraction)});
  }
  console.out << "\n" << format_table(rows, {});
}

// null where nothing leaves a rank.
void bus_bandwidth(JsonWriter& json, const std::optional<model::BytesPerSecond>& busbw) {
  json.key("busbw_bytes_per_s");
  busbw ? json.number(busbw->value) : json.null();
}

void print_collective_json(const CollectiveArguments& arguments, const Ran& ran, Console& console) {
  const sim::LoneResult& result = ran.result;
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("collective", arguments.kind);
  json.member("bytes", ran.wish.bytes.value);
  json.member("ranks", result.ranks);
  json.member("machines", result.machines);
  json.member("network", arguments.network);
  json.member("algorithm", result.algorithm);
  json.member("time_s", result.time.value);
  bus_bandwidth(json, result.busbw);
  json.member("flows", result.flows);
  json.member("by_machines", result.by_machines);
  json.key("closed_form");
  json.begin_object();
  json.member("algorithm", std::string(name_of(result.closed_form.algorithm)));
  json.member("protocol", std::string(name_of(result.closed_form.protocol)));
  json.member("time_s", result.closed_form.time.value);
  bus_bandwidth(json, result.closed_form_busbw);
  json.member("of_table", !arguments.tokens.empty());
  json.end_object();
  json.key("links");
  json.begin_array();
  for (const sim::LoneResult::Busy& link : result.links) {
    json.begin_object();
    json.member("link", link.link);
    json.member("carried_bytes", link.carried.value);
    json.member("bandwidth_bytes_per_s", link.bandwidth.value);
    json.member("busy_fraction", link.fraction);
    json.end_object();
  }
  json.end_array();
  json.member("warnings", result.warnings);
  json.end_object();
  console.out << json.finish();
}

}  // namespace

const std::vector<std::string>& collective_kind_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, kind] : kKindsOfCommand) names.emplace_back(name);
    return names;
  }();
  return kNames;
}

int collective_command(const CollectiveArguments& arguments, const World& world, Console& console) {
  const auto answer = ran(arguments, world, console);
  if (!answer) {
    print_diagnostics(answer.error(), arguments.json_diagnostics, console);
    return kExitBadInput;
  }
  arguments.json ? print_collective_json(arguments, *answer, console)
                 : print_collective_text(arguments, *answer, console);
  return kExitAnswer;
}

}  // namespace megatwin::cli
