#include "sim/validate.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/step_constants.h"
#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "sim/leave_out.h"

namespace megatwin::sim {
namespace {

ValidatedRow row_of(double predicted, double measured) {
  ValidatedRow row{.id = "G-1", .group = "G"};
  row.predicted = model::Seconds{predicted};
  row.measured = model::Seconds{measured};
  row.error = predicted / measured - 1;
  row.status = "scored";
  return row;
}

std::string page_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string percent(double fraction) {
  std::ostringstream text;
  text << std::fixed;
  text.precision(1);
  text << 100 * fraction;
  return std::move(text).str();
}

// Errors −10 %, +20 %, +5 %: median 10 %, worst +20 %, mean +5 %. Both columns rise together.
TEST(Validate, ScoresAGroupByHand) {
  const std::vector<ValidatedRow> rows{row_of(0.9, 1), row_of(2.4, 2), row_of(3.15, 3)};
  const ValidatedGroup group = score_group("G", {&rows[0], &rows[1], &rows[2]});
  EXPECT_EQ(group.scored, 3);
  EXPECT_NEAR(group.median_abs_error, 0.10, 1e-12);
  EXPECT_NEAR(group.worst, 0.20, 1e-12);
  EXPECT_NEAR(group.bias, 0.05, 1e-12);
  EXPECT_EQ(group.rank_correlation, 1.0);
}

// The shipped rows: what the project promises of its predictions, with room for what moves.
TEST(Validate, PublishedRowsStayWithinThePromise) {
  const auto rows = scenarios::read_measured_rows("scenarios/measured/published_steps.csv");
  ASSERT_TRUE(rows) << model::to_text(rows.error());
  const Validation validation = validate_steps(*rows, scenarios::shipped_hardware(),
                                               {.apart = {"NEMOLS", "MEG20", "BSV100"}});
  EXPECT_LE(validation.mean_of_group_medians, 0.07);
  EXPECT_GE(validation.coverage_fraction, 0.95);
  for (const ValidatedGroup& group : validation.groups) {
    if (!group.apart) {
      EXPECT_LE(group.median_abs_error, 0.12) << group.group;
    }
  }
  // docs/accuracy.md says what this build gives; tests/bench/make_accuracy.py writes it.
  const std::string page = page_of("docs/accuracy.md");
  const auto says = [&](const std::string& text) { return page.find(text) != std::string::npos; };
  EXPECT_TRUE(
      says("Mean of the groups' medians: **" + percent(validation.mean_of_group_medians) + " %**"))
      << percent(validation.mean_of_group_medians);
  // README.md repeats it.
  EXPECT_NE(
      page_of("README.md").find(percent(validation.mean_of_group_medians) + " % over the sources"),
      std::string::npos);
  for (const ValidatedGroup& group : validation.groups) {
    if (group.apart || group.scored == 0) continue;
    EXPECT_TRUE(says("| " + group.group + " | " + std::to_string(group.rows) + " | " +
                     std::to_string(group.scored) + " | " + percent(group.median_abs_error) +
                     " | "))
        << group.group << " " << percent(group.median_abs_error);
  }
}

// Each group with the constants that its own steps had a part in set to their neutral values.
TEST(Validate, LeftOutGroupsStayWithinThePromise) {
  const auto rows = scenarios::read_measured_rows("scenarios/measured/published_steps.csv");
  ASSERT_TRUE(rows) << model::to_text(rows.error());
  const ValidateOptions options{.apart = {"NEMOLS", "MEG20", "BSV100"}};
  const model::HardwareCatalogue& catalogue = scenarios::shipped_hardware();
  Validation all = validate_steps(*rows, catalogue, options);
  leave_each_out(*rows, catalogue, options, all);
  EXPECT_LE(all.mean_of_left_out_medians, 0.10);
  for (const LeftOutGroup& left : all.left_out) {
    EXPECT_LE(left.mean_of_group_medians, 0.10) << left.group;
  }
  const std::string own = percent(all.mean_of_left_out_medians);
  EXPECT_NE(page_of("docs/accuracy.md").find("own medians: **" + own + " %**"), std::string::npos)
      << own;
  EXPECT_NE(page_of("README.md").find(own + " % with each source left"), std::string::npos) << own;
}

// Leaving a group out changes what it had a part in, and nothing else.
TEST(Validate, LeavingOutSetsBackExactlyItsConstants) {
  for (const model::StepConstant& constant : model::step_constants()) {
    ASSERT_FALSE(constant.groups.empty()) << constant.name;
    for (const std::string_view group : constant.groups) {
      const auto found = model::constants_read_from({std::string(group)});
      EXPECT_NE(std::find_if(found.begin(), found.end(),
                             [&](const auto* other) { return other->name == constant.name; }),
                found.end());
    }
  }
  model::Job job;
  job.software = model::software_stack(model::Framework::Megatron2021);
  job.profile.gemm_in_step = 1.03;
  model::forget_steps_of({"VTM"}, job);
  EXPECT_EQ(job.software.host_factor, 1);
  EXPECT_EQ(job.profile.gemm_in_step, 1.03);
  EXPECT_EQ(job.cluster.fabric.spine_efficiency, 0);
  model::forget_steps_of({"KORTH"}, job);
  EXPECT_EQ(job.cluster.fabric.spine_efficiency, 1);
  job.cluster.fabric.spine_efficiency = 0.7;  // Stated by the user.
  model::forget_steps_of({"KORTH"}, job);
  EXPECT_EQ(job.cluster.fabric.spine_efficiency, 0.7);
}

}  // namespace
}  // namespace megatwin::sim
