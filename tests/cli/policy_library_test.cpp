// Libraries as a scenario names them: the example, and what is refused with which words.
#include "cli/policy_library.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "cli/real_world.h"
#include "tests/temporary_folder.h"

namespace megatwin::cli {
namespace {

std::string fault_of(const std::string& path) {
  const auto policy = load_policy(path);
  return policy.has_value() ? "" : to_text(policy.error());
}

TEST(PolicyLibrary, LoadsTheExample) { EXPECT_EQ(fault_of(MEGATWIN_EXAMPLE_POLICY), ""); }

TEST(PolicyLibrary, SaysWhatIsWrong) {
  EXPECT_NE(fault_of("tests/no_such_policy.so").find("the policy cannot be loaded"),
            std::string::npos);
  EXPECT_NE(fault_of("README.md").find("the policy cannot be loaded"), std::string::npos);
  EXPECT_NE(fault_of(MEGATWIN_EMPTY_POLICY).find("has no function megatwin_policy_v1"),
            std::string::npos);
}

struct Outcome {
  int code = 0;
  std::string out, err;
};
Outcome run(const std::vector<std::string>& words) {
  const RealWorld world;
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const int code = run_command_line(words, world, console);
  return {code, out.str(), err.str()};
}
Outcome simulate(const std::string& policy) {
  return run({"simulate", "scenarios/llama-3.1-70b-h100.yaml", "--policy", policy, "--json"});
}

TEST(PolicyLibrary, RunsInSimulate) {
  const Outcome ran = simulate(MEGATWIN_EXAMPLE_POLICY);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("\"user\""), std::string::npos) << ran.out.substr(0, 2000);
  const Outcome missing = simulate("./no_such_policy.so");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("no_such_policy.so"), std::string::npos);
}

// It decides in a real run, and again from that run's log.
TEST(PolicyLibrary, Trains) {
  const tests::TemporaryFolder folder;
  const std::string job = folder.path("job.yaml");
  std::ofstream(folder.path("text.txt")) << std::string(2000, 'a');
  std::ofstream(job)
      << "model: {num_layers: 4, hidden_size: 16, ffn_hidden_size: 24, num_attention_heads: 2,\n"
         "        vocab_size: 256, sequence_length: 16}\n"
         "plan: {pipeline: 2, model_chunks: 2, micro_batch: 1, global_batch: 4}\n"
         "policy: "
      << MEGATWIN_EXAMPLE_POLICY << "\ndata: {text: text.txt}\ntraining: {steps: 2}\n";
  const Outcome trained = run({"train", job, "--log", folder.path("run.log"), "--json"});
  ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
  const Outcome replayed = run({"simulate", job, "--replay", folder.path("run.log"), "--json"});
  EXPECT_EQ(replayed.code, 0) << replayed.out << replayed.err;
  EXPECT_NE(replayed.out.find("\"different\": 0"), std::string::npos) << replayed.out;
}

}  // namespace
}  // namespace megatwin::cli
