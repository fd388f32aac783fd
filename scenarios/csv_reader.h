// Comma-separated values after RFC 4180: quoted fields may hold commas, quotes ("") and line
// breaks.
#ifndef MEGATWIN_SCENARIOS_CSV_READER_H_
#define MEGATWIN_SCENARIOS_CSV_READER_H_

#include <string>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

struct CsvRow {
  int line = 0;  // Where the row starts, from 1.
  std::vector<std::string> fields;
};

// Rows in file order, blank lines left out. Errors: an unclosed quote, a NUL byte.
model::Result<std::vector<CsvRow>> parse_csv(const std::string& text, const std::string& file);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_CSV_READER_H_
