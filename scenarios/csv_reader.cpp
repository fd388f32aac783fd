#include "scenarios/csv_reader.h"

#include <utility>

namespace megatwin::scenarios {

model::Result<std::vector<CsvRow>> parse_csv(const std::string& text, const std::string& file) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string field;
  int line = 1, quote_line = 0;
  bool quoted = false, any = false;
  row.line = 1;
  const auto end_row = [&] {
    row.fields.push_back(std::move(field));
    field.clear();
    if (any) rows.push_back(std::move(row));
    row = {};
    row.line = line;
    any = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\0') {
      return model::fail({.file = file,
                          .line = line,
                          .message = "holds a NUL byte: this is no CSV",
                          .allowed = "comma-separated text with a header row"});
    }
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
      quote_line = line;
      any = true;
    } else if (c == ',') {
      row.fields.push_back(std::move(field));
      field.clear();
      any = true;
    } else if (c == '\n') {
      end_row();
    } else if (c != '\r') {
      field += c;
      any = true;
    }
  }
  if (quoted) {
    return model::fail({.file = file,
                        .line = quote_line,
                        .message = "a quoted field that starts here is never closed",
                        .allowed = "a closing \" ; a quote inside a field is written \"\""});
  }
  if (any) end_row();
  return rows;
}

}  // namespace megatwin::scenarios
