#include "cli/report/json_writer.h"

#include <limits>

#include <gtest/gtest.h>

#include "cli/report/utf8.h"

namespace megatwin::cli {
namespace {

TEST(JsonWriter, WritesNumbersThatReadBackEqual) {
  for (const double value : {0.1, 1.0 / 3, 8.42, 1.837e18, 2.3e-308, 123456789.123456789}) {
    JsonWriter json(JsonWriter::Layout::Compact);
    json.number(value);
    EXPECT_EQ(std::stod(json.finish()), value);
  }
}

TEST(JsonWriter, WritesInstantsExactly) {
  JsonWriter json(JsonWriter::Layout::Compact);
  json.begin_array();
  json.microseconds({0});
  json.microseconds({1'234'567});
  json.microseconds({9'007'199'254'740'993});
  json.microseconds({-5});
  json.end_array();
  EXPECT_EQ(json.finish(), "[0.000,1234.567,9007199254740.993,-0.005]\n");
}

TEST(JsonWriter, EscapesAndMendsText) {
  JsonWriter json(JsonWriter::Layout::Compact);
  json.text("a\"\\\n\x01 \xff \xc3\xa9");
  EXPECT_EQ(json.finish(), "\"a\\\"\\\\\\n\\u0001 \xEF\xBF\xBD \xc3\xa9\"\n");
}

TEST(JsonWriterDeathTest, HoldsNoNumbersThatJsonHasNot) {
  JsonWriter json(JsonWriter::Layout::Compact);
  EXPECT_DEATH(json.number(std::numeric_limits<double>::quiet_NaN()), "a report holds nan");
}

TEST(Utf8, ReplacesWhatIsNone) {
  EXPECT_EQ(valid_utf8("µs"), "µs");
  EXPECT_EQ(valid_utf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");       // Overlong slash.
  EXPECT_EQ(valid_utf8("\xED\xA0\x80").substr(0, 3), "\xEF\xBF\xBD");  // A surrogate.
  EXPECT_EQ(valid_utf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");       // Cut off.
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
}

TEST(Utf8, EscapesMarkup) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>\x01"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

}  // namespace
}  // namespace megatwin::cli
