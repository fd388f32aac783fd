// Tables of the documentation that tests generate: between two marks of a page stands what the test
// computes, or the test says what it should be.
//   MEGATWIN_UPDATE_GOLDENS=1 build/release/tests/policies/policies_property_test
// writes it.
#ifndef MEGATWIN_TESTS_POLICIES_GENERATED_TABLE_H_
#define MEGATWIN_TESTS_POLICIES_GENERATED_TABLE_H_

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace megatwin::tests {

inline void expect_generated(const std::string& page, const std::string& name,
                             const std::string& text) {
  const std::string begin = "<!-- generated: " + name + " -->\n";
  const std::string end = "<!-- end: " + name + " -->\n";
  std::ostringstream read;
  read << std::ifstream(page).rdbuf();
  std::string whole = read.str();
  const std::size_t first = whole.find(begin);
  const std::size_t last = whole.find(end);
  ASSERT_TRUE(first != std::string::npos && last != std::string::npos)
      << page << " has no place for " << name;
  const std::size_t from = first + begin.size();
  if (std::getenv("MEGATWIN_UPDATE_GOLDENS") != nullptr) {
    whole.replace(from, last - from, text);
    std::ofstream(page) << whole;
    return;
  }
  EXPECT_EQ(whole.substr(from, last - from), text) << page << " is not what the simulator says";
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_POLICIES_GENERATED_TABLE_H_
