// Writes one JSON document, in the order of the calls. Doubles are written so that reading them
// gives the same double back. The only file of the program that touches RapidJSON's writer.
#ifndef MEGATWIN_CLI_REPORT_JSON_WRITER_H_
#define MEGATWIN_CLI_REPORT_JSON_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace megatwin::cli {

class JsonWriter {
 public:
  enum class Layout { Compact, Indented };

  explicit JsonWriter(Layout layout);
  ~JsonWriter();
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);

  void text(std::string_view value);
  void integer(std::int64_t value);
  void boolean(bool value);
  void null();
  // Requires: finite. JSON has no other numbers, and neither has a report.
  void number(double value);
  // An instant in microseconds with its three decimals of nanoseconds, exactly.
  void microseconds(model::Instant instant);

  // key() and the value in one call.
  void member(std::string_view name, std::string_view value);
  void member(std::string_view name, const char* value);
  void member(std::string_view name, const std::string& value);
  void member(std::string_view name, double value);
  void member(std::string_view name, std::int64_t value);
  void member(std::string_view name, int value);
  void member(std::string_view name, bool value);
  void member(std::string_view name, const std::vector<std::string>& values);

  // The document. Requires: every object and array is closed.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_JSON_WRITER_H_
