// One row of a file of test vectors and its inputs by name. A row asks for a quantity; rules.h
// finds the function of model/ that answers it.
#ifndef MEGATWIN_TESTS_VECTOR_CHECK_ROW_H_
#define MEGATWIN_TESTS_VECTOR_CHECK_ROW_H_

#include <initializer_list>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "model/units.h"

namespace megatwin::vector_check {

// A row whose inputs do not hold what its quantity needs; it counts as unknown.
class MissingInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Value {
  std::optional<double> number;  // Booleans are 0 and 1.
  std::string text;
  std::vector<double> list;
};

using Names = std::initializer_list<std::string_view>;

class Inputs {
 public:
  std::map<std::string, Value, std::less<>> values;

  bool has(Names names) const;
  // The first of the names that is there.
  std::optional<double> find(Names names) const;
  double need(Names names) const;
  double get(Names names, double otherwise) const;
  int need_int(Names names) const;
  std::vector<double> need_list(Names names) const;
  std::string text(std::string_view name) const;
  // A time named `stem` with a unit behind it (_s, _min, _h, _day, …); bare: in `otherwise`.
  std::optional<model::Seconds> find_time(std::string_view stem, double otherwise) const;
  model::Seconds need_time(Names stems, double otherwise = 1) const;
};

struct Row {
  std::string id, quantity, unit;
  Inputs inputs;
  double expected = 0, tolerance = 0;
  std::string expected_text;
  std::optional<double> published, published_tolerance;

  bool says(std::string_view word) const { return quantity.find(word) != std::string::npos; }

  // Numbers in the row's unit.
  double in_unit(model::Seconds time) const;
  double in_unit(model::Bytes bytes) const;
  double in_unit(model::BytesPerSecond rate) const;
  double in_unit(model::Flop flop) const;
  double in_unit(model::FlopPerSecond rate) const;
  double in_unit(double plain) const { return unit == "%" ? 100 * plain : plain; }
};

// Errors: the file cannot be read, or a record is not as its header says (std::runtime_error).
std::vector<Row> read_rows(const std::string& path);

}  // namespace megatwin::vector_check

#endif  // MEGATWIN_TESTS_VECTOR_CHECK_ROW_H_
