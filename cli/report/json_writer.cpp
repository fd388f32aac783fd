// Quirks of RapidJSON 1.1, each held by json_writer_test: Double() refuses NaN and infinities by
// returning false, so we assert; a whole double is written with ".0"; invalid UTF-8 passes through,
// so text() replaces it first.
#include "cli/report/json_writer.h"

#include <array>
#include <cmath>
#include <cstdio>

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

#include "cli/report/utf8.h"
#include "model/assert.h"

namespace megatwin::cli {

struct JsonWriter::State {
  explicit State(Layout layout) : writer(buffer) {
    writer.SetIndent(' ', 2);
    if (layout == Layout::Indented) {
      writer.SetFormatOptions(rapidjson::kFormatSingleLineArray);
    }
    compact = layout == Layout::Compact;
  }
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer;
  rapidjson::Writer<rapidjson::StringBuffer> compact_writer{buffer};
  bool compact = false;

  template <class Call>
  void write(const Call& call) {
    const bool accepted = compact ? call(compact_writer) : call(writer);
    MEGATWIN_ASSERT(accepted, "JSON out of order");
  }
};

JsonWriter::JsonWriter(Layout layout) : state_(std::make_unique<State>(layout)) {}
JsonWriter::~JsonWriter() = default;

void JsonWriter::begin_object() {
  state_->write([](auto& w) { return w.StartObject(); });
}
void JsonWriter::end_object() {
  state_->write([](auto& w) { return w.EndObject(); });
}
void JsonWriter::begin_array() {
  state_->write([](auto& w) { return w.StartArray(); });
}
void JsonWriter::end_array() {
  state_->write([](auto& w) { return w.EndArray(); });
}

void JsonWriter::key(std::string_view name) {
  state_->write([&](auto& w) {
    return w.Key(name.data(), static_cast<rapidjson::SizeType>(name.size()), true);
  });
}

void JsonWriter::text(std::string_view value) {
  const std::string clean = valid_utf8(value);
  state_->write([&](auto& w) {
    return w.String(clean.data(), static_cast<rapidjson::SizeType>(clean.size()), true);
  });
}

void JsonWriter::integer(std::int64_t value) {
  state_->write([&](auto& w) { return w.Int64(value); });
}

void JsonWriter::boolean(bool value) {
  state_->write([&](auto& w) { return w.Bool(value); });
}

void JsonWriter::null() {
  state_->write([](auto& w) { return w.Null(); });
}

void JsonWriter::number(double value) {
  MEGATWIN_ASSERT(std::isfinite(value), "a report holds ", value);
  state_->write([&](auto& w) { return w.Double(value); });
}

void JsonWriter::microseconds(model::Instant instant) {
  const long long size = std::llabs(instant.ns);
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%s%lld.%03lld",
                                   instant.ns < 0 ? "-" : "", size / 1000, size % 1000);
  state_->write([&](auto& w) {
    return w.RawValue(text.data(), static_cast<std::size_t>(length), rapidjson::kNumberType);
  });
}

void JsonWriter::member(std::string_view name, std::string_view value) {
  key(name);
  text(value);
}
void JsonWriter::member(std::string_view name, const char* value) {
  member(name, std::string_view(value));
}
void JsonWriter::member(std::string_view name, const std::string& value) {
  member(name, std::string_view(value));
}
void JsonWriter::member(std::string_view name, double value) {
  key(name);
  number(value);
}
void JsonWriter::member(std::string_view name, std::int64_t value) {
  key(name);
  integer(value);
}
void JsonWriter::member(std::string_view name, int value) { member(name, std::int64_t{value}); }
void JsonWriter::member(std::string_view name, bool value) {
  key(name);
  boolean(value);
}
void JsonWriter::member(std::string_view name, const std::vector<std::string>& values) {
  key(name);
  begin_array();
  for (const std::string& value : values) text(value);
  end_array();
}

std::string JsonWriter::finish() {
  MEGATWIN_ASSERT(
      state_->compact ? state_->compact_writer.IsComplete() : state_->writer.IsComplete(),
      "JSON document is not closed");
  std::string document(state_->buffer.GetString(), state_->buffer.GetSize());
  document += '\n';
  return document;
}

}  // namespace megatwin::cli
