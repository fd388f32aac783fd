#include "cli/report/validation_report.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>

namespace megatwin::cli {
namespace {

sim::Validation validation_fixture() {
  sim::Validation validation;
  validation.rows = {{.id = "A-1",
                      .group = "A",
                      .predicted = model::Seconds{11},
                      .measured = model::Seconds{10},
                      .error = 0.1,
                      .status = "scored",
                      .assumptions = {"zero 1"}},
                     {.id = "B-1", .group = "B", .status = "not_predicted", .reason = "no length"}};
  validation.groups = {{.group = "B", .rows = 1, .apart = true},
                       {.group = "A", .rows = 1, .scored = 1, .median_abs_error = 0.1}};
  validation.mean_of_group_medians = 0.1;
  validation.coverage_fraction = 0.5;
  validation.coverage_predicted = 1;
  validation.coverage_rows = 2;
  validation.coverage_reasons = {{"no length", 1}};
  return validation;
}

TEST(ValidationReport, TextNamesErrorsAndReasons) {
  const std::string text = terminal_validation(validation_fixture(), false);
  EXPECT_NE(text.find("mean of the groups' medians: 10.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 2 rows (50.0 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("1 not predicted: no length"), std::string::npos) << text;
  EXPECT_NE(text.find("+10.0 %"), std::string::npos) << text;
}

// A mean of nothing is no 0 %.
TEST(ValidationReport, SaysThatNothingCouldBeScored) {
  sim::Validation validation = validation_fixture();
  validation.groups.pop_back();
  validation.mean_of_group_medians = 0;
  const std::string text = terminal_validation(validation, false);
  EXPECT_NE(text.find("medians: – (nothing could be scored)"), std::string::npos) << text;
  rapidjson::Document json;
  json.Parse(json_validation(validation).c_str());
  EXPECT_TRUE(json["mean_of_group_medians"].IsNull());
}

TEST(ValidationReport, JsonHasTheContractsKeys) {
  rapidjson::Document json;
  json.Parse(json_validation(validation_fixture()).c_str());
  ASSERT_FALSE(json.HasParseError());
  EXPECT_EQ(json["rows"][0]["predicted_s"].GetDouble(), 11);
  EXPECT_TRUE(json["rows"][1]["error"].IsNull());
  EXPECT_STREQ(json["rows"][1]["reason"].GetString(), "no length");
  EXPECT_TRUE(json["groups"][0]["apart"].GetBool());
  EXPECT_EQ(json["coverage"]["reasons"]["no length"].GetInt(), 1);
  for (const char* key : {"group", "rows", "scored", "median_abs_error", "p90_abs_error", "worst",
                          "bias", "rank_correlation"}) {
    EXPECT_TRUE(json["groups"][0].HasMember(key)) << key;
  }
  EXPECT_EQ(json["mean_of_group_medians"].GetDouble(), 0.1);
}

}  // namespace
}  // namespace megatwin::cli
