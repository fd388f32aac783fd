#include "scenarios/json_reader.h"

#include <string>

#include <gtest/gtest.h>

namespace megatwin::scenarios {
namespace {

std::string problems_of(const std::string& text) {
  const model::Result<Document> document = parse_json("f.json", text);
  return document ? "accepted" : to_text(document.error());
}

TEST(JsonReader, KeepsPositionsAndTheTextOfNumbers) {
  const auto document = parse_json("f.json", "{\n \"a\": 1e-5,\n \"b\": [true, null, \"x\"]}\n");
  ASSERT_TRUE(document);
  const TreeNode* a = document->root.find("a");
  EXPECT_EQ(a->text, "1e-5");
  EXPECT_FALSE(a->quoted);
  EXPECT_EQ(a->position.line, 2);
  EXPECT_EQ(a->position.column, 7);
  const TreeNode* b = document->root.find("b");
  EXPECT_EQ(b->items[0].text, "true");
  EXPECT_EQ(b->items[1].kind, TreeKind::Null);
  EXPECT_TRUE(b->items[2].quoted);
  EXPECT_EQ(b->items[2].position.column, 20);
}

TEST(JsonReader, SaysWhereItIsNoJson) {
  EXPECT_EQ(problems_of("{\"a\": 1,\n \"b\": }"),
            "f.json:2:7: error: not JSON: Invalid value.\n"
            "    2 |  \"b\": }\n"
            "      |       ^\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of("{\"hidden_size\": 40"),
            "f.json:1:19: error: not JSON: Missing a comma or '}' after an object member.\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of(""),
            "f.json:1:1: error: not JSON: The document is empty.\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of("{} x"),
            "f.json:1:4: error: not JSON: The document root must not be followed by other "
            "values.\n"
            "    1 | {} x\n"
            "      |    ^\n"
            "1 error; nothing was run\n");
}

TEST(JsonReader, PassesOverAByteOrderMark) {
  EXPECT_EQ(problems_of("\xEF\xBB\xBF{}"), "accepted");
  EXPECT_NE(problems_of("\xEF\xBB{}"), "accepted");
}

// Quirk: RapidJSON accepts a key twice.
TEST(JsonReader, ReportsARepeatedKey) {
  EXPECT_EQ(problems_of("{\"a\": 1, \"a\": 2}"),
            "f.json:1:10: error: a: repeated key\n"
            "    1 | {\"a\": 1, \"a\": 2}\n"
            "      |          ^~~\n"
            "  allowed: each key once\n"
            "1 error; nothing was run\n");
}

// Quirk: RapidJSON's usual parser recurses; a million brackets must not end the program.
TEST(JsonReader, RefusesDeepNesting) {
  const std::string problems = problems_of(std::string(1'000'000, '['));
  EXPECT_NE(problems.find("nested more than 64 levels deep"), std::string::npos) << problems;
  std::string maps;
  for (int i = 0; i < 1000; ++i) maps += "{\"a\":";
  EXPECT_NE(problems_of(maps).find("nested more than 64 levels deep"), std::string::npos);
}

TEST(JsonReader, RefusesWhatIsNoText) {
  EXPECT_EQ(problems_of(std::string("{\"a\0\": 1}", 9)),
            "f.json:1:4: error: is not a text file: it holds a NUL byte\n"
            "1 error; nothing was run\n");
}

}  // namespace
}  // namespace megatwin::scenarios
