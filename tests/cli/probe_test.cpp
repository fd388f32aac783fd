#include "cli/probe.h"

#include <gtest/gtest.h>

namespace megatwin::cli {
namespace {

TEST(Probe, FindsVersionsInText) {
  EXPECT_EQ(version_in("g++ (Debian 12.2.0-14) 12.2.0"), "12.2.0");
  EXPECT_EQ(version_in("Cuda compilation tools, release 13.0, V13.0.48"), "13.0");
  EXPECT_EQ(version_in("0x010b0a"), "0x010b0a");
  EXPECT_EQ(version_in(""), "");
}

TEST(Probe, MissingProgramsAreNothing) {
  EXPECT_FALSE(first_line_of("megatwin-no-such-program", "--version"));
  EXPECT_FALSE(any_exists({"/nowhere.h"}));
}

}  // namespace
}  // namespace megatwin::cli
