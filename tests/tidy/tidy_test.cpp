// The whole tree against the style, then each check against small texts: the yes and the no.
#include <iostream>
#include <utility>

#include <gtest/gtest.h>

#include "tests/tidy/checks.h"
#include "tests/tidy/source_file.h"

namespace megatwin::tidy {
namespace {

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> kTree = read_tree(".");  // Tests run in the root.
  return kTree;
}

void expect_none(const Complaints& complaints) {
  for (const Complaint& complaint : complaints) std::cout << to_text(complaint, "error") << "\n";
  EXPECT_EQ(complaints.size(), 0U);
}

template <class Check>
void expect_none_in_tree(const Check& check) {
  Complaints all;
  for (const SourceFile& file : tree()) {
    for (Complaint& complaint : check(file)) all.push_back(std::move(complaint));
  }
  expect_none(all);
}

TEST(Tree, IncludesFollowTheTable) { expect_none(check_includes(tree())); }
TEST(Tree, LinesAreShort) { expect_none_in_tree(check_line_length); }
TEST(Tree, BannedWordsAreAbsent) { expect_none_in_tree(check_banned_words); }
TEST(Tree, HeadersHaveTheirGuards) { expect_none_in_tree(check_header_guard); }
TEST(Tree, PathsOfMachinesAreAbsent) { expect_none_in_tree(check_machine_paths); }
TEST(Tree, OpenEndsHaveIssues) { expect_none_in_tree(check_open_ends); }

TEST(Tree, LongFunctionsAndFilesAreCounted) {
  int count = 0;
  for (const SourceFile& file : tree()) {
    for (const Complaint& complaint : check_length(file)) {
      std::cout << to_text(complaint, "warning") << "\n";
      ++count;
    }
  }
  std::cout << count << " warnings\n";
  RecordProperty("length_warnings", count);
}

TEST(Tree, WasFound) { EXPECT_GT(tree().size(), 50U); }

std::size_t faults(const Complaints& complaints) { return complaints.size(); }

TEST(Includes, OneWayOnly) {
  const std::vector<SourceFile> files = {
      parse("model/a.h", "#include \"sim/b.h\"\n"),
      parse("sim/b.h", "#include \"model/a.h\"\n#include \"exec/c.h\"\n"),
      parse("exec/c.h", "#include \"model/gone.h\"\n"),
      parse("attic/d.h", "\n"),
  };
  const Complaints complaints = check_includes(files);
  ASSERT_EQ(complaints.size(), 4U);
  EXPECT_EQ(to_text(complaints[0], "error"),
            "model/a.h:1: error: model/ may not include sim/, only nothing; the type lives in the "
            "wrong folder");
  EXPECT_EQ(complaints[1].line, 2);
  EXPECT_EQ(complaints[2].message, "\"model/gone.h\" is no file of the tree");
  EXPECT_EQ(complaints[3].message, "'attic' is no folder of the design");
}

TEST(Includes, LibrariesStayInTheirFiles) {
  EXPECT_EQ(
      faults(check_includes({parse("scenarios/yaml_reader.cpp", "#include <yaml-cpp/yaml.h>")})),
      0U);
  EXPECT_EQ(faults(check_includes({parse("scenarios/zoo.cpp", "#include <yaml-cpp/yaml.h>")})), 1U);
  EXPECT_EQ(faults(check_includes({parse("policies/a.cpp", "#include <fmt/format.h>")})), 1U);
  EXPECT_EQ(faults(check_includes({parse("cli/a.cpp", "#include <strange/thing.h>")})), 1U);
  EXPECT_EQ(faults(check_includes({parse("model/a.cpp", "#include <vector>")})), 0U);
}

TEST(BannedWords, AreFoundInCodeOnly) {
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "using namespace std;"))), 1U);
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "// using namespace std;"))), 0U);
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "auto s = \"std::rand\";"))), 0U);
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "/* x\nstd::rand()\n*/ std::rand();"))),
            1U);
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "double peak_bytes = 0;"))), 1U);
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "double share = 0;"))), 0U);
}

TEST(BannedWords, ExceptionsHoldInTheirPlaceOnly) {
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "std::chrono::system_clock::now();"))),
            1U);
  EXPECT_EQ(faults(check_banned_words(parse("exec/a.cpp", "std::chrono::system_clock::now();"))),
            0U);
  EXPECT_EQ(faults(check_banned_words(parse("sim/a.cpp", "  std::exit(1);"))), 1U);
  EXPECT_EQ(faults(check_banned_words(parse("cli/a.cpp", "app.exit(1); on_exit(2);"))), 0U);
  EXPECT_EQ(faults(check_banned_words(parse("cli/a.cpp", "int main() {\n  exit(1);\n}"))), 0U);
}

TEST(LineLength, CountsCharactersNotBytes) {
  std::string line;
  for (int i = 0; i < 100; ++i) line += "é";
  EXPECT_EQ(faults(check_line_length(parse("sim/a.cpp", line))), 0U);
  EXPECT_EQ(faults(check_line_length(parse("sim/a.cpp", line + "é"))), 1U);
}

TEST(HeaderGuard, FollowsThePath) {
  EXPECT_EQ(faults(check_header_guard(parse("a/b_c.h",
                                            "#ifndef MEGATWIN_A_B_C_H_\n"
                                            "#define MEGATWIN_A_B_C_H_\n"))),
            0U);
  EXPECT_EQ(faults(check_header_guard(parse("a/b.h", "#ifndef B_H\n#define B_H\n"))), 1U);
  EXPECT_EQ(faults(check_header_guard(parse("a/b.cpp", ""))), 0U);
}

TEST(MachinePaths, AreFoundEverywhere) {
  EXPECT_EQ(faults(check_machine_paths(parse("docs/a.md", "see /home/me/x"))), 1U);
  EXPECT_EQ(faults(check_machine_paths(parse("docs/a.md", "https://x.org/home/me"))), 0U);
}

TEST(OpenEnds, NeedAnIssue) {
  EXPECT_EQ(faults(check_open_ends(parse("sim/a.cpp", "// TODO: later"))), 1U);
  EXPECT_EQ(faults(check_open_ends(parse("sim/a.cpp", "// TODO(#12): later"))), 0U);
}

TEST(Length, FindsTheLongFunction) {
  std::string text = "int short_one() {\n  return 1;\n}\n\nint long_one(int x) {\n";
  for (int i = 0; i < 70; ++i) text += "  x += 1;\n";
  text += "  return x;\n}\n";
  const Complaints complaints = check_length(parse("sim/a.cpp", text));
  ASSERT_EQ(complaints.size(), 1U);
  EXPECT_EQ(complaints[0].line, 5);
  EXPECT_EQ(complaints[0].message, "the function has 73 lines, 70 are enough");
}

}  // namespace
}  // namespace megatwin::tidy
