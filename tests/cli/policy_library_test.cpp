// Libraries as a scenario names them: the example, and what is refused with which words.
#include "cli/policy_library.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "cli/real_world.h"

namespace megatwin::cli {
namespace {

std::string fault_of(const std::string& path) {
  const auto policy = load_policy(path);
  return policy.has_value() ? "" : to_text(policy.error());
}

TEST(PolicyLibrary, LoadsTheExample) { EXPECT_EQ(fault_of(MEGATWIN_EXAMPLE_POLICY), ""); }

TEST(PolicyLibrary, SaysWhatIsWrong) {
  EXPECT_NE(fault_of("tests/no_such_policy.so").find("the policy cannot be loaded"),
            std::string::npos);
  EXPECT_NE(fault_of("README.md").find("the policy cannot be loaded"), std::string::npos);
  EXPECT_NE(fault_of(MEGATWIN_EMPTY_POLICY).find("has no function megatwin_policy_v1"),
            std::string::npos);
}

struct Outcome {
  int code = 0;
  std::string out, err;
};
Outcome simulate(const std::string& policy) {
  const RealWorld world;
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const int code = run_command_line(
      {"simulate", "scenarios/llama-3.1-70b-h100.yaml", "--set", "policy=" + policy, "--json"},
      world, console);
  return {code, out.str(), err.str()};
}

TEST(PolicyLibrary, RunsInSimulate) {
  const Outcome ran = simulate(MEGATWIN_EXAMPLE_POLICY);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("\"user\""), std::string::npos) << ran.out.substr(0, 2000);
  const Outcome missing = simulate("./no_such_policy.so");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("no_such_policy.so"), std::string::npos);
}

}  // namespace
}  // namespace megatwin::cli
