// Libraries as a scenario names them: the example, and what is refused with which words.
#include "cli/policy_library.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
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

// A library from a source in C, or C++, in `folder`.
std::string compiled(const tests::TemporaryFolder& folder, const std::string& source,
                     const std::string& language = "c") {
  const std::string file = folder.path("policy.src");
  std::ofstream(file) << source;
  std::string library = folder.path("policy.so");
  std::ostringstream line;
  line << MEGATWIN_COMPILER " -x " << language << " -shared -fPIC -w -I. " << file << " -o "
       << library;
  const std::string command = line.str();
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return library;
}

// The function with this body.
std::string body(const std::string& text) {
  return "#include \"policies/megatwin_policy.h\"\n#include <stdlib.h>\n"
         "int32_t megatwin_policy_v1(const megatwin_observation* seen, int64_t* state) {" +
         text + "}\n";
}

// The very text of the page, as it stands there.
TEST(PolicyLibrary, RunsTheSampleOfThePage) {
  std::ifstream page("docs/own-policy.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::size_t begin = text.find("```c\n") + 5;
  const std::size_t end = text.find("```\n", begin);
  ASSERT_NE(end, std::string::npos);
  const tests::TemporaryFolder folder;
  const Outcome ran = simulate(compiled(folder, text.substr(begin, end - begin)));
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
}

TEST(PolicyLibrary, SaysStageAndTasksOfWhatCannotGoOn) {
  const tests::TemporaryFolder folder;
  const Outcome last = simulate(compiled(folder, body("return seen->num_ready - 1;")));
  EXPECT_EQ(last.code, 1);
  EXPECT_NE(last.out.find("the step never ends: rank 0, stage 0, ran 59 of 320 tasks"),
            std::string::npos)
      << last.out << last.err;
  EXPECT_NE(last.out.find("not fit below the memory limit"), std::string::npos) << last.out;
  const tests::TemporaryFolder other;
  const Outcome range = simulate(compiled(other, body("return -2;")));
  EXPECT_EQ(range.code, 1);
  EXPECT_NE(range.out.find("stage 0, 0 of 320 tasks issued: megatwin_policy_v1 returned -2"),
            std::string::npos)
      << range.out << range.err;
}

TEST(PolicyLibrary, RefusesDataOfThatName) {
  const tests::TemporaryFolder folder;
  EXPECT_NE(fault_of(compiled(folder, "int megatwin_policy_v1 = 3;\n")).find("is data"),
            std::string::npos);
}

TEST(PolicyLibrary, TellsWhatTheLibraryThrows) {
  const tests::TemporaryFolder folder;
  const Outcome ran = simulate(compiled(
      folder, "#include <stdexcept>\n" + body("throw std::runtime_error(\"no idea\");"), "c++"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.out.find("threw: no idea"), std::string::npos) << ran.out << ran.err;
}

// Whatever ends the program inside the library: its name is told, and the code is no success.
TEST(PolicyLibraryDeathTest, NamesTheLibraryThatEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const tests::TemporaryFolder folder;
  const std::string leaves = compiled(folder, body("if (state[0]++ == 2) exit(0); return 0;"));
  EXPECT_EXIT(static_cast<void>(simulate(leaves)), testing::ExitedWithCode(3),
              "policy.so called exit\\(\\) in megatwin_policy_v1, asked on stage 0 after 2");
  const auto fails = [](int status) { return status != 0; };
  const tests::TemporaryFolder second;
  const std::string divides = compiled(second, body("volatile int none = 0; return 5 / none;"));
  EXPECT_EXIT(static_cast<void>(simulate(divides)), fails,
              "policy.so crashed \\(SIGFPE\\) in megatwin_policy_v1, asked on stage 0 after 0");
  const tests::TemporaryFolder third;
  const std::string deep = compiled(
      third,
      "static int f(volatile char* p) { volatile char b[9999]; b[0] = *p; return f(b) + b[1]; }\n" +
          body("volatile char c = 0; return f(&c);"));
  EXPECT_EXIT(static_cast<void>(simulate(deep)), fails, "policy.so crashed \\(SIGSEGV\\)");
}

// An order file that cannot run is no fault of the plan.
TEST(PolicyLibrary, LeavesThePlanAloneWhenTheOrderIsWrong) {
  const tests::TemporaryFolder folder;
  const std::string job = folder.path("job.yaml");
  std::ofstream(folder.path("order.txt")) << "0: F0.0 B0.0\n";
  std::ofstream(job) << "model: {name: gpt-7.5b, sequence_length: 2048}\n"
                        "cluster: {nodes: [{type: dgx-a100-80g, count: 1}]}\n"
                        "plan: {tensor: 4, pipeline: 2, data: 1, micro_batch: 1, global_batch: 3}\n"
                        "policy: {schedule: order-file, order_file: order.txt}\n";
  const Outcome ran = run({"simulate", job});
  EXPECT_EQ(ran.code, 1) << ran.err;
  EXPECT_NE(ran.out.find("the order file has 1 stage, the plan has 2"), std::string::npos)
      << ran.out << ran.err;
  EXPECT_EQ(ran.out.find("near it"), std::string::npos) << ran.out;
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
