// vector_check FILE.csv: holds the functions of model/ against a file of known values (columns as
// in tests/data/test_vectors.csv). Prints "ID pass|fail|unknown got expected" for each row and
// nothing else. A row with a published value must meet that too, within its own tolerance.
// Exit: 0 all pass, 1 some do not, 2 the file cannot be read.
#include <cmath>
#include <cstdio>
#include <exception>

#include "tests/vector_check/rules.h"

namespace {

using megatwin::vector_check::Row;

bool is_near(double got, double wanted, double tolerance) {
  return std::abs(got - wanted) <= tolerance * std::abs(wanted);
}

bool passes(const Row& row, double got) {
  if (!is_near(got, row.expected, row.tolerance)) return false;
  return !row.published || !row.published_tolerance ||
         is_near(got, *row.published, *row.published_tolerance);
}

bool report(const Row& row) {
  const auto got = megatwin::vector_check::answer(row);
  if (!got) {
    std::printf("%s unknown - %s\n", row.id.c_str(), row.expected_text.c_str());
    return false;
  }
  const bool pass = passes(row, *got);
  std::printf("%s %s %.17g %s\n", row.id.c_str(), pass ? "pass" : "fail", *got,
              row.expected_text.c_str());
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: vector_check FILE.csv\n");
    return 2;
  }
  try {
    bool all_pass = true;
    for (const Row& row : megatwin::vector_check::read_rows(argv[1])) {
      all_pass = report(row) && all_pass;
    }
    return all_pass ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vector_check: %s\n", error.what());
    return 2;
  }
}
