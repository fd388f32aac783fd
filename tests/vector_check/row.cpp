#include "tests/vector_check/row.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <rapidjson/document.h>

namespace megatwin::vector_check {
namespace {

using Record = std::vector<std::string>;

// RFC 4180: quoted fields may hold commas, line ends and doubled quotes.
std::vector<Record> read_csv(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Record> records;
  Record record(1);
  bool quoted = false;
  char c = 0;
  const auto finish = [&] {
    if (record.size() > 1 || !record[0].empty()) records.push_back(record);
    record.assign(1, "");
  };
  while (file.get(c)) {
    if (quoted) {
      if (c != '"') {
        record.back() += c;
      } else if (file.peek() == '"') {
        file.get(c);
        record.back() += c;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      record.emplace_back();
    } else if (c == '\n') {
      finish();
    } else if (c != '\r') {
      record.back() += c;
    }
  }
  finish();
  return records;
}

std::optional<double> number_from(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

Value value_from(const rapidjson::Value& json) {
  Value value;
  if (json.IsNumber()) value.number = json.GetDouble();
  if (json.IsBool()) value.number = json.GetBool() ? 1 : 0;
  if (json.IsString()) value.text = json.GetString();
  if (json.IsArray()) {
    for (const rapidjson::Value& item : json.GetArray()) {
      if (item.IsNumber()) value.list.push_back(item.GetDouble());
    }
  }
  return value;
}

Inputs inputs_from(const std::string& text, const std::string& id) {
  Inputs inputs;
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.c_str());
  if (document.HasParseError() || !document.IsObject()) {
    throw std::runtime_error("row " + id + ": inputs are no JSON object");
  }
  for (const auto& member : document.GetObject()) {
    inputs.values[member.name.GetString()] = value_from(member.value);
  }
  return inputs;
}

struct UnitFactor {
  std::string_view name;
  double factor;
};
constexpr UnitFactor kTimes[] = {{"s", 1},       {"ms", 1e-3},    {"us", 1e-6},    {"ns", 1e-9},
                                 {"min", 60},    {"h", 3600},     {"hours", 3600}, {"hour", 3600},
                                 {"day", 86400}, {"days", 86400}, {"d", 86400},    {"t", 1}};
constexpr UnitFactor kBytes[] = {
    {"B", 1},      {"kB", 1e3},      {"MB", 1e6},         {"GB", 1e9},    {"TB", 1e12},
    {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"B/param", 1}, {"bytes", 1}};
constexpr UnitFactor kRates[] = {{"B/s", 1}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
constexpr UnitFactor kFlop[] = {{"FLOP", 1},     {"GFLOP", 1e9},       {"TFLOP", 1e12},
                                {"PFLOP", 1e15}, {"GFLOP/token", 1e9}, {"TFLOP/token", 1e12}};
constexpr UnitFactor kFlopRates[] = {
    {"FLOP/s", 1}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"TFLOP/s/GPU", 1e12}, {"PFLOP/s", 1e15}};

template <std::size_t N>
double converted(double value, const UnitFactor (&units)[N], const std::string& unit) {
  for (const UnitFactor& known : units) {
    if (known.name == unit) return value / known.factor;
  }
  return value;
}

}  // namespace

bool Inputs::has(Names names) const {
  for (const std::string_view name : names) {
    if (values.find(name) != values.end()) return true;
  }
  return false;
}

std::optional<double> Inputs::find(Names names) const {
  for (const std::string_view name : names) {
    const auto found = values.find(name);
    if (found != values.end() && found->second.number) return found->second.number;
  }
  return std::nullopt;
}

double Inputs::need(Names names) const {
  if (const auto value = find(names)) return *value;
  throw MissingInput(std::string(*names.begin()));
}

double Inputs::get(Names names, double otherwise) const { return find(names).value_or(otherwise); }

int Inputs::need_int(Names names) const { return static_cast<int>(std::lround(need(names))); }

std::vector<double> Inputs::need_list(Names names) const {
  for (const std::string_view name : names) {
    const auto found = values.find(name);
    if (found != values.end() && !found->second.list.empty()) return found->second.list;
  }
  throw MissingInput(std::string(*names.begin()));
}

std::string Inputs::text(std::string_view name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::string() : found->second.text;
}

std::optional<model::Seconds> Inputs::find_time(std::string_view stem, double otherwise) const {
  if (const auto bare = find({stem})) return model::Seconds{*bare * otherwise};
  for (const UnitFactor& unit : kTimes) {
    const std::string name = std::string(stem) + "_" + std::string(unit.name);
    if (const auto value = find({name})) return model::Seconds{*value * unit.factor};
  }
  return std::nullopt;
}

model::Seconds Inputs::need_time(Names stems, double otherwise) const {
  for (const std::string_view stem : stems) {
    if (const auto time = find_time(stem, otherwise)) return *time;
  }
  throw MissingInput(std::string(*stems.begin()));
}

double Row::in_unit(model::Seconds time) const { return converted(time.value, kTimes, unit); }
double Row::in_unit(model::Bytes bytes) const { return converted(bytes.value, kBytes, unit); }
double Row::in_unit(model::BytesPerSecond rate) const {
  return converted(rate.value, kRates, unit);
}
double Row::in_unit(model::Flop flop) const { return converted(flop.value, kFlop, unit); }
double Row::in_unit(model::FlopPerSecond rate) const {
  return converted(rate.value, kFlopRates, unit);
}

std::vector<Row> read_rows(const std::string& path) {
  const std::vector<Record> records = read_csv(path);
  if (records.empty()) throw std::runtime_error(path + " is empty");
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; i < records[0].size(); ++i) columns[records[0][i]] = i;
  for (const char* column : {"id", "quantity", "inputs", "expected"}) {
    if (columns.count(column) == 0) throw std::runtime_error(path + " lacks column " + column);
  }
  std::vector<Row> rows;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto field = [&](const char* name) {
      const auto column = columns.find(name);
      const bool there = column != columns.end() && column->second < records[i].size();
      return there ? records[i][column->second] : std::string();
    };
    Row row{.id = field("id"), .quantity = field("quantity"), .unit = field("unit")};
    row.inputs = inputs_from(field("inputs"), row.id);
    row.expected_text = field("expected");
    const auto expected = number_from(row.expected_text);
    if (!expected) throw std::runtime_error("row " + row.id + ": expected is no number");
    row.expected = *expected;
    row.tolerance = number_from(field("rel_tol")).value_or(1e-9);
    row.published = number_from(field("published"));
    row.published_tolerance = number_from(field("published_rel_tol"));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace megatwin::vector_check
