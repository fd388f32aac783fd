// The only file of this format that touches RapidJSON. Its quirk: a repeated key is accepted and
// the first wins.
#include "scenarios/operation_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

namespace megatwin::scenarios {
namespace {

using model::Diagnostic;
using model::Diagnostics;
using Json = rapidjson::Value;

struct Place {
  const std::string& file;
  int line;
  std::string_view text;
};

Diagnostic complaint(const Place& place, std::size_t column, std::string key, std::string message,
                     std::string allowed) {
  return {.file = place.file,
          .line = place.line,
          .column = static_cast<int>(column) + 1,
          .key = std::move(key),
          .message = std::move(message),
          .allowed = std::move(allowed),
          .source_line = std::string(place.text)};
}

// Column of a key in its line, 0 if it cannot be found.
std::size_t column_of(const Place& place, const std::string& key) {
  const std::size_t found = place.text.find("\"" + key + "\"");
  return found == std::string_view::npos ? 0 : found;
}

class LineReader {
 public:
  LineReader(const Json& object, const Place& place, Diagnostics& diagnostics)
      : object_(object), place_(place), diagnostics_(diagnostics) {}

  void text(const char* key, std::string& value) {
    const Json* member = find(key);
    if (member == nullptr || member->IsNull()) return;
    if (!member->IsString()) return refuse(key, "a text");
    value = member->GetString();
  }

  void flag(const char* key, bool& value) {
    const Json* member = find(key);
    if (member == nullptr || member->IsNull()) return;
    if (!member->IsBool()) return refuse(key, "true or false");
    value = member->GetBool();
  }

  // A whole number of at least 1.
  template <class Integer>
  void size(const char* key, Integer& value) {
    double number = 0;
    if (!positive(key, number)) return;
    constexpr double kMost =
        std::min(1e15, static_cast<double>(std::numeric_limits<Integer>::max()));
    if (number != std::floor(number) || number > kMost) {
      return refuse(key, "a whole number that a machine could have");
    }
    value = static_cast<Integer>(number);
  }

  void bytes(const char* key, model::Bytes& value) {
    double number = 0;
    if (positive(key, number)) value = {number};
  }

  void time(const char* key, double unit, std::optional<model::Seconds>& value) {
    double number = 0;
    if (positive(key, number)) value = model::Seconds{number * unit};
  }

 private:
  const Json* find(const char* key) const {
    const auto member = object_.FindMember(key);
    return member == object_.MemberEnd() ? nullptr : &member->value;
  }

  bool positive(const char* key, double& number) {
    const Json* member = find(key);
    if (member == nullptr || member->IsNull()) return false;
    if (!member->IsNumber() || !(member->GetDouble() > 0) || !std::isfinite(member->GetDouble())) {
      refuse(key, "a number greater than 0");
      return false;
    }
    number = member->GetDouble();
    return true;
  }

  void refuse(const char* key, const char* allowed) {
    diagnostics_.push_back(
        complaint(place_, column_of(place_, key), key, "value is not usable", allowed));
  }

  const Json& object_;
  const Place& place_;
  Diagnostics& diagnostics_;
};

OperationRow read_row(const Json& object, const Place& place, Diagnostics& diagnostics) {
  OperationRow row;
  row.line = place.line;
  LineReader reader(object, place, diagnostics);
  reader.text("kind", row.kind);
  reader.text("dtype", row.dtype);
  reader.text("layout", row.layout);
  reader.text("backend", row.backend);
  reader.text("op", row.op);
  reader.flag("causal", row.causal);
  reader.size("M", row.m);
  reader.size("N", row.n);
  reader.size("K", row.k);
  reader.size("experts", row.experts);
  reader.size("tokens", row.tokens);
  reader.size("B", row.batch);
  reader.size("H", row.heads);
  reader.size("KV", row.key_value_heads);
  reader.size("S", row.length);
  reader.size("D", row.head_dim);
  reader.size("T", row.rows);
  row.width = row.heads;
  reader.size("world", row.world);
  reader.bytes("bytes", row.bytes);
  reader.time("us", 1e-6, row.time);
  reader.time("ms", 1e-3, row.time);
  reader.time("fwd_ms", 1e-3, row.forward);
  reader.time("bwd_ms", 1e-3, row.backward);
  if (row.kind.empty()) {
    diagnostics.push_back(complaint(place, 0, "kind", "missing", "gemm, attn, nccl, copy, …"));
  }
  return row;
}

}  // namespace

model::Result<std::vector<OperationRow>> parse_operation_rows(std::string_view text,
                                                              const std::string& file) {
  std::vector<OperationRow> rows;
  Diagnostics diagnostics;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const Place place{file, number, line};
    rapidjson::Document document;
    // Iterative: deep nesting in a hostile line must not exhaust the stack.
    document.Parse<rapidjson::kParseIterativeFlag>(line.data(), line.size());
    if (document.HasParseError()) {
      diagnostics.push_back(complaint(place, document.GetErrorOffset(), "",
                                      rapidjson::GetParseError_En(document.GetParseError()),
                                      "one JSON object a line"));
    } else if (!document.IsObject()) {
      diagnostics.push_back(complaint(place, 0, "", "not an object", "one JSON object a line"));
    } else {
      rows.push_back(read_row(document, place, diagnostics));
    }
  }
  if (!diagnostics.empty()) return model::fail(std::move(diagnostics));
  return rows;
}

}  // namespace megatwin::scenarios
