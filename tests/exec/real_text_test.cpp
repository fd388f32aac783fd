// A tiny Llama learns to write English: the King James Version of the Bible from Debian's and
// Ubuntu's package bible-kjv, 4.3 MB, of which the last tenth is held out (from Luke on). Skipped
// where the package is not installed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "exec/training.h"
#include "scenarios/scenario.h"

namespace megatwin::exec {
namespace {

namespace fs = std::filesystem;

// Empty when the program is not there.
std::string bible_text() {
  std::string path = testing::TempDir() + "megatwin_kjv.txt";
  const std::string command = "bible 'Gen1:1-Rev22:21' </dev/null >" + path + " 2>/dev/null";
  if (std::system(command.c_str()) != 0 || fs::file_size(path) < 4'000'000) {
    return "";
  }
  return path;
}

model::Seconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

TrainingResult train(const std::string& text, const std::vector<std::string>& settings,
                     int steps_run) {
  const auto scenario = scenarios::load_scenario_file("scenarios/train-tiny-llama.yaml",
                                                      {.set = settings, .needs_cluster = false});
  EXPECT_TRUE(scenario) << to_text(scenario.error());
  TrainingRequest request{.transformer = scenario->jobs.front().transformer,
                          .plan = scenario->jobs.front().plan,
                          .data = scenario->data,
                          .settings = scenario->training};
  request.data.path = text;
  request.settings.checkpoint_folder.clear();
  std::atomic<bool> stop{false};
  request.stop = &stop;
  request.hooks.before_task = [&](const TaskMoment& moment) {
    if (moment.step == steps_run - 1) stop.store(true);
  };
  auto training = Training::prepare(request);
  EXPECT_TRUE(training) << to_text(training.error());
  TrainingResult result = (*training)->run({});
  EXPECT_FALSE(result.host.fault) << to_text(*result.host.fault);
  return result;
}

TEST(RealText, ATinyLlamaLearnsIt) {
  const std::string text = bible_text();
  if (text.empty()) GTEST_SKIP() << "no King James Bible: apt-get install bible-kjv";
  const TrainingResult result = train(text, {}, 1'000'000);
  const double held_out = *result.steps.back().held_out_loss;
  std::cout << result.steps.size() << " steps in " << result.time.value << " s, processors "
            << processor_time().value << " s, held-out " << held_out << " nats/byte, counting "
            << *result.trigram_loss << " nats/byte\n";
  EXPECT_LT(held_out, 2.0);
  EXPECT_LT(held_out, *result.trigram_loss);
  // Three minutes on two cores, whoever else is on them.
  EXPECT_LT(processor_time().value, 2 * 180.0);
}

// The same text under DP2 × PP2 × TP2: step by step the curve of one rank, until the sums that run
// in another order have grown apart.
TEST(RealText, EightRanksFollowTheCurve) {
  const std::string text = bible_text();
  if (text.empty()) GTEST_SKIP() << "no King James Bible: apt-get install bible-kjv";
  constexpr int kSteps = 60;
  const TrainingResult one = train(text, {"plan.data=1"}, kSteps);
  const TrainingResult eight =
      train(text, {"plan.data=2", "plan.pipeline=2", "plan.tensor=2"}, kSteps);
  ASSERT_EQ(one.steps.size(), eight.steps.size());
  for (std::size_t step = 0; step < one.steps.size(); ++step) {
    const double tolerance = step < 5 ? 1e-5 : 1e-2;
    EXPECT_NEAR(eight.steps[step].loss / one.steps[step].loss, 1, tolerance) << "step " << step;
  }
  EXPECT_LT(one.steps.back().loss, 2.5);
}

}  // namespace
}  // namespace megatwin::exec
