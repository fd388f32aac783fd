// Seeds of property tests. A failure prints the line that runs just that case again.
#ifndef MEGATWIN_TESTS_SIM_SEEDS_H_
#define MEGATWIN_TESTS_SIM_SEEDS_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace megatwin::tests {

// 1 … count, or the one in MEGATWIN_SEED.
inline std::vector<std::uint64_t> seeds(int count) {
  if (const char* only = std::getenv("MEGATWIN_SEED")) {
    return {std::strtoull(only, nullptr, 10)};
  }
  std::vector<std::uint64_t> result;
  for (int seed = 1; seed <= count; ++seed) result.push_back(static_cast<std::uint64_t>(seed));
  return result;
}

inline std::string rerun_line(const char* program, std::uint64_t seed) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return "rerun: MEGATWIN_SEED=" + std::to_string(seed) + " " + program +
         " --gtest_filter=" + test->test_suite_name() + "." + test->name();
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIM_SEEDS_H_
