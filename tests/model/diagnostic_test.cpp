#include "model/diagnostic.h"

#include <gtest/gtest.h>

namespace megatwin::model {
namespace {

TEST(Diagnostic, PrintsPlaceCaretAndWhatIsAllowed) {
  const Diagnostic diagnostic{.file = "job.yaml",
                              .line = 7,
                              .column = 15,
                              .length = 8,
                              .key = "cluster.nodes[1].gpu",
                              .message = "unknown GPU 'A100-80G'",
                              .allowed = "A100-SXM4-80GB",
                              .source_line = "        gpu:  A100-80G"};
  EXPECT_EQ(to_text(diagnostic),
            "job.yaml:7:15: error: cluster.nodes[1].gpu: unknown GPU 'A100-80G'\n"
            "    7 |         gpu:  A100-80G\n"
            "      |               ^~~~~~~~\n"
            "  allowed: A100-SXM4-80GB\n");
}

TEST(Diagnostic, CountsErrorsOnly) {
  Diagnostics all{{.message = "a"}, {.severity = Diagnostic::Severity::Warning, .message = "b"}};
  EXPECT_TRUE(has_error(all));
  EXPECT_EQ(to_text(all), "error: a\nwarning: b\n1 error; nothing was run\n");
}

// "tensr" is one insertion from "tensor"; "zebra" is near to nothing.
TEST(Diagnostic, SuggestsTheNearestWordOnly) {
  EXPECT_EQ(nearest_word("tensr", {"pipeline", "tensor", "data"}), "tensor");
  EXPECT_EQ(nearest_word("zebra", {"pipeline", "tensor", "data"}), "");
}

}  // namespace
}  // namespace megatwin::model
