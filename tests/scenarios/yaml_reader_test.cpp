#include "scenarios/yaml_reader.h"

#include <string>

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "scenarios/map_reader.h"

namespace megatwin::scenarios {
namespace {

std::string problems_of(const std::string& text) {
  const model::Result<Document> document = parse_yaml("f.yaml", text);
  return document ? "accepted" : to_text(document.error());
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

// Quirk: yaml-cpp's marks begin at 0.
TEST(YamlReader, CountsLinesAndColumnsFromOne) {
  ASSERT_EQ(YAML::Load("a: 1").begin()->second.Mark().line, 0);
  const auto document = parse_yaml("f.yaml", "a: 1\nb: {c: \"two\"}\n");
  ASSERT_TRUE(document);
  const TreeNode* c = document->root.find("b")->find("c");
  EXPECT_EQ(c->position.line, 2);
  EXPECT_EQ(c->position.column, 8);
  EXPECT_EQ(c->position.length, 5);
  EXPECT_TRUE(c->quoted);
  EXPECT_EQ(c->text, "two");
}

// Quirk: yaml-cpp takes a key twice and the first wins.
TEST(YamlReader, ReportsARepeatedKey) {
  ASSERT_EQ(YAML::Load("{a: 1, a: 2}")["a"].as<int>(), 1);
  EXPECT_EQ(problems_of("x:\n  a: 1\n  b: 2\n  a: 3\n"),
            "f.yaml:4:3: error: x.a: repeated key, first given on line 2\n"
            "    4 |   a: 3\n"
            "      |   ^\n"
            "  allowed: each key once\n"
            "1 error; nothing was run\n");
}

// Quirk: yaml-cpp never says which keys nobody asked for.
TEST(YamlReader, ReportsAnUnknownKey) {
  const auto document = parse_yaml("f.yaml", "{tensr: 4}");
  ReadContext context(document->sources);
  MapReader reader(context, document->root, "plan");
  EXPECT_FALSE(reader.integer("tensor"));
  reader.finish();
  EXPECT_EQ(to_text(context.diagnostics()),
            "f.yaml:1:2: error: plan.tensr: unknown key\n"
            "    1 | {tensr: 4}\n"
            "      |  ^~~~~\n"
            "  allowed: tensor; did you mean 'tensor'?\n"
            "1 error; nothing was run\n");
}

// Quirks: 010 is 8 and NO is false for yaml-cpp; here both stay text and are refused.
TEST(YamlReader, KeepsScalarsAsText) {
  ASSERT_EQ(YAML::Load("010").as<int>(), 8);
  ASSERT_FALSE(YAML::Load("NO").as<bool>());
  const auto document = parse_yaml("f.yaml", "{a: 010, b: NO}");
  EXPECT_EQ(document->root.find("a")->text, "010");
  EXPECT_EQ(document->root.find("b")->text, "NO");
}

// Quirk: columns count bytes; the caret must stand below the character all the same.
TEST(YamlReader, PutsTheCaretBelowTheCharacter) {
  EXPECT_EQ(problems_of("{µ: 1, µ: 2}"),
            "f.yaml:1:8: error: µ: repeated key, first given on line 1\n"
            "    1 | {µ: 1, µ: 2}\n"
            "      |        ^\n"
            "  allowed: each key once\n"
            "1 error; nothing was run\n");
}

TEST(YamlReader, ResolvesAnchorsAndMergeKeys) {
  const auto document =
      parse_yaml("f.yaml", "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [*a, {z: 4}]}\n");
  ASSERT_TRUE(document);
  const TreeNode* b = document->root.find("b");
  EXPECT_EQ(b->find("x")->text, "1");
  EXPECT_EQ(b->find("y")->text, "3");
  EXPECT_EQ(b->find("<<"), nullptr);
  EXPECT_EQ(document->root.find("c")->find("z")->text, "4");
  EXPECT_EQ(problems_of("a: {<<: 3}"),
            "f.yaml:1:9: error: a.<<: only maps can be merged\n"
            "    1 | a: {<<: 3}\n"
            "      |         ^\n"
            "1 error; nothing was run\n");
}

TEST(YamlReader, RefusesDeepNesting) {
  const std::string message = "nested more than 64 levels deep";
  for (const std::string& deep :
       {repeated("[", 100'000), repeated("{a: ", 100'000), repeated("- ", 100'000),
        repeated("[{a: ", 1000), repeated("? ", 100'000)}) {
    EXPECT_NE(problems_of(deep).find(message), std::string::npos) << problems_of(deep);
  }
  std::string indented;
  for (int i = 0; i < 200; ++i) indented += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_NE(problems_of(indented).find(message), std::string::npos);
  EXPECT_EQ(problems_of(repeated("[", 64) + repeated("]", 64)), "accepted");
}

// Nine levels of nine aliases would unfold to 9^9 strings.
TEST(YamlReader, RefusesAliasesThatExplode) {
  std::string text = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeated(last + ",", 9) +
            "]\n";
  }
  EXPECT_NE(problems_of(text).find("the document unfolds to more than 128 MiB"), std::string::npos);
  EXPECT_NE(problems_of("a: &a [*a]").find("this alias stands inside what it refers to"),
            std::string::npos);
}

// Depth grows by aliases alone: every line wraps the one before in forty levels.
TEST(YamlReader, RefusesAliasesThatNestTooDeep) {
  std::string text = "a0: &a0 [1]\n";
  for (int i = 1; i < 5; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " " + repeated("[", 40) + "*a" +
            std::to_string(i - 1) + repeated("]", 40) + "\n";
  }
  EXPECT_NE(problems_of(text).find("nested more than 64 levels deep"), std::string::npos);
}

TEST(YamlReader, RefusesWhatIsNoText) {
  EXPECT_EQ(problems_of(std::string("a: 1\nb\0c", 8)),
            "f.yaml:2:2: error: is not a text file: it holds a NUL byte\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of("\xFF\xFE"
                        "a"),
            "f.yaml:1:1: error: is not a text file: these bytes are not UTF-8\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of("a: \xC0\xAF"),
            "f.yaml:1:4: error: is not a text file: these bytes are not UTF-8\n"
            "1 error; nothing was run\n");
}

TEST(YamlReader, SaysWhereItIsNoYaml) {
  EXPECT_EQ(problems_of("a: [1, 2\nb: 3\n"),
            "f.yaml:2:2: error: not YAML: end of sequence flow not found\n"
            "    2 | b: 3\n"
            "      |  ^\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of("a: 1\n---\nb: 2\n"),
            "f.yaml:3:1: error: a second document begins here; one is expected\n"
            "    3 | b: 2\n"
            "      | ^\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(problems_of("a: *nobody"),
            "f.yaml:1:4: error: not YAML: the referenced anchor is not defined\n"
            "    1 | a: *nobody\n"
            "      |    ^\n"
            "1 error; nothing was run\n");
}

TEST(YamlReader, TakesAnEmptyDocumentForNothing) {
  EXPECT_EQ(parse_yaml("f.yaml", "")->root.kind, TreeKind::Null);
  EXPECT_EQ(parse_yaml("f.yaml", "# only words\n")->root.kind, TreeKind::Null);
}

TEST(YamlReader, CutsOutASection) {
  const std::string text = "# head\na:\n  x: 1\n\nb: 2\nab: 3\n";
  EXPECT_EQ(yaml_section(text, "a"), "a:\n  x: 1\n\n");
  EXPECT_EQ(yaml_section(text, "ab"), "ab: 3\n");
  EXPECT_EQ(yaml_section(text, "c"), "");
}

}  // namespace
}  // namespace megatwin::scenarios
