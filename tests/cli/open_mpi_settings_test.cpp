// What users say in files of MCA parameters, read as Open MPI reads them.
#include "cli/mpi/open_mpi_settings.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace megatwin::cli {
namespace {

TEST(OpenMpiSettings, AreReadFromLines) {
  const auto value = [](const std::string& text) {
    std::istringstream file(text);
    return parameter_in(file, "btl").value_or("nothing");
  };
  EXPECT_EQ(value("btl = tcp,self\n"), "tcp,self");
  EXPECT_EQ(value("  btl=\"^ofi\"  # slow here"), "^ofi");
  EXPECT_EQ(value("# btl = tcp\nbtl_tcp_if_include = eth0\nxbtl = self\n"), "nothing");
  EXPECT_EQ(value("btl = tcp\nbtl = self\n"), "self");
  EXPECT_EQ(value(""), "nothing");
}

// What Debian writes into the system's file excludes what is not needed on one host.
TEST(OpenMpiSettings, AListOfOthersLeavesOurs) {
  EXPECT_TRUE(leaves("", {"self", "vader"}));
  EXPECT_TRUE(leaves("^uct,openib,ofi", {"self", "vader"}));
  EXPECT_FALSE(leaves("^openib, vader", {"self", "vader"}));
  EXPECT_FALSE(leaves("tcp,self", {"self", "vader"}));
  EXPECT_FALSE(leaves("ucx", {"ob1"}));
}

}  // namespace
}  // namespace megatwin::cli
