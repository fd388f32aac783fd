// `megatwin train` from the command line: what it says, writes and refuses.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <unistd.h>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "cli/command_line.h"
#include "cli/console.h"
#include "tests/cli/fake_world.h"
#include "tests/temporary_folder.h"

namespace megatwin::cli {
namespace {

namespace fs = std::filesystem;

struct Answer {
  int code = 0;
  std::string out, err;
};

Answer run(const std::vector<std::string>& words) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{.out = out, .err = err};
  const tests::FakeWorld world;
  const int code = run_command_line(words, world, console);
  return {code, out.str(), err.str()};
}

// A job of 2 stages in a folder of its own.
class TrainCommand : public testing::Test {
 protected:
  TrainCommand() {
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 300; ++i) text << "a rose is a rose is a rose " << i % 5 << "\n";
    write_job("");
  }

  void write_job(const std::string& more) {
    std::ofstream(path("job.yaml"))
        << "model: {num_layers: 4, hidden_size: 16, ffn_hidden_size: 24, num_attention_heads: 2,\n"
           "        vocab_size: 256, sequence_length: 16}\n"
           "plan: {pipeline: 2, model_chunks: 2, micro_batch: 1, global_batch: 4, zero: 0}\n"
           "data: {text: text.txt, held_out: 10 %}\n"
           "training: {steps: 4, learning_rate: 0.01, checkpoint: {folder: "
        << path("checkpoints") << "}}\n"
        << more;
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  rapidjson::Document json(const std::string& text) const {
    rapidjson::Document document;
    document.Parse(text.c_str());
    EXPECT_FALSE(document.HasParseError()) << text;
    return document;
  }

  tests::TemporaryFolder folder_;
};

TEST_F(TrainCommand, TrainsSavesAndGoesOn) {
  const Answer first = run({"train", path("job.yaml"), "--json"});
  ASSERT_EQ(first.code, 0) << first.err;
  const auto answer = json(first.out);
  ASSERT_EQ(answer["steps"].Size(), 4u);
  EXPECT_GT(answer["steps"][0]["loss"].GetDouble(), answer["steps"][3]["loss"].GetDouble());
  EXPECT_GT(answer["held_out_loss"].GetDouble(), 0);
  EXPECT_GT(answer["byte_trigram_loss"].GetDouble(), 0);
  EXPECT_GT(answer["tokens_per_s"].GetDouble(), 0);
  EXPECT_STREQ(answer["last_checkpoint"].GetString(), path("checkpoints/step-00000004").c_str());

  const Answer again = run({"train", path("job.yaml")});
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("holds checkpoints of an earlier run"), std::string::npos) << again.err;

  const Answer more =
      run({"train", path("job.yaml"), "--resume", "--set", "training.steps=6", "--json"});
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(json(more.out)["first_step"].GetInt(), 4);
  EXPECT_EQ(json(more.out)["steps"].Size(), 2u);

  // What was saved is a model of Hugging Face, from which another run starts.
  const Answer from = run({"train", path("job.yaml"), "--from", path("checkpoints/step-00000006"),
                           "--set", "training.checkpoint.folder=" + path("other"), "--json"});
  ASSERT_EQ(from.code, 0) << from.err;
  EXPECT_LT(json(from.out)["steps"][0]["loss"].GetDouble(), answer["steps"][0]["loss"].GetDouble());
}

// Both sides really train, to the losses of 1F1B, and the log is decided again; what is simulated
// only is said in one line.
TEST_F(TrainCommand, TrainsADecoupledPipeline) {
  const auto train = [&](const std::string& policy, const std::string& log) {
    fs::remove_all(path("checkpoints"));
    return run({"train", path("job.yaml"), "--set", "plan.model_chunks=1", "--set",
                "policy=" + policy, "--log", log, "--json"});
  };
  const Answer together = train("{schedule: 1f1b}", path("1f1b.log"));
  ASSERT_EQ(together.code, 0) << together.err;
  for (const std::string sides :
       {"feed: stage-input", "feed: activations", "feed: activations, forward: {instances: 2}"}) {
    const std::string policy = "{schedule: fbd, " + sides + "}";
    const Answer trained = train(policy, path("fbd.log"));
    ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
    for (rapidjson::SizeType step = 0; step < 4; ++step) {
      EXPECT_EQ(json(trained.out)["steps"][step]["loss"].GetDouble(),
                json(together.out)["steps"][step]["loss"].GetDouble());
    }
    EXPECT_EQ(json(trained.out)["held_out_loss"].GetDouble(),
              json(together.out)["held_out_loss"].GetDouble());
    const Answer replayed =
        run({"simulate", path("job.yaml"), "--set", "plan.model_chunks=1", "--set",
             "policy=" + policy, "--replay", path("fbd.log"), "--json"});
    ASSERT_EQ(replayed.code, 0) << replayed.out << replayed.err;
    EXPECT_EQ(json(replayed.out)["different"].GetInt(), 0);
    EXPECT_EQ(json(replayed.out)["steps_simulated_alike"].GetInt(), 4);
  }
  const Answer refused = train("{schedule: fbd, backward: {instances: 99}}", path("no.log"));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.out.find("each instance needs at least one"), std::string::npos) << refused.out;
}

// Three ranks a stage: two forward ones and a backward one.
TEST_F(TrainCommand, TrainsSidesOfUnequalTensorSizes) {
  const auto arguments = [&](const std::string& command, const std::string& policy) {
    return std::vector<std::string>{command, path("job.yaml"),   "--set", "plan.model_chunks=1",
                                    "--set", "policy=" + policy, "--json"};
  };
  const auto train = [&](const std::string& policy) {
    fs::remove_all(path("checkpoints"));
    auto words = arguments("train", policy);
    words.insert(words.end(), {"--log", path("fbd.log"), "--trace", path("fbd.json")});
    return run(words);
  };
  const Answer together = train("{schedule: 1f1b}");
  ASSERT_EQ(together.code, 0) << together.err;
  const std::string policy = "{schedule: fbd, feed: activations, forward: {tensor: 2}}";
  const Answer trained = train(policy);
  ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
  const auto answer = json(trained.out);
  EXPECT_EQ(answer["ranks"].GetInt(), 6);
  for (rapidjson::SizeType step = 0; step < 4; ++step) {
    const double expected = json(together.out)["steps"][step]["loss"].GetDouble();
    EXPECT_NEAR(answer["steps"][step]["loss"].GetDouble(), expected, 1e-5 * expected);
  }
  EXPECT_STREQ(answer["memory"][3]["side"].GetString(), "forward");
  EXPECT_EQ(answer["memory"][3]["stage"].GetInt(), 1);
  EXPECT_STREQ(answer["memory"][4]["side"].GetString(), "backward");
  EXPECT_EQ(answer["memory"][5]["stage"].GetInt(), 1);

  auto words = arguments("simulate", policy);
  words.insert(words.end(), {"--replay", path("fbd.log")});
  const Answer replayed = run(words);
  ASSERT_EQ(replayed.code, 0) << replayed.out << replayed.err;
  EXPECT_EQ(json(replayed.out)["different"].GetInt(), 0);
  EXPECT_EQ(json(replayed.out)["steps_simulated_alike"].GetInt(), 4);

  std::ifstream file(path("fbd.json"));
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("\"rank 3, forward stage 1\""), std::string::npos);
  EXPECT_NE(text.str().find("\"rank 5, backward stage 1\""), std::string::npos);
  // One hop of each micro-batch of three steps: of both forward ranks, and back of one.
  int arrows = 0;
  const auto timeline = json(text.str());
  for (const auto& event : timeline["traceEvents"].GetArray()) {
    arrows += event["ph"].GetString() == std::string("s") ? 1 : 0;
  }
  EXPECT_EQ(arrows, 3 * 4 * (2 + 1));
}

// With a cluster when the forward ranks work them out is decided for its machines; without one they
// come after all forwards, and how many must be said.
TEST_F(TrainCommand, LeavesWeightGradientsToTheForwardSide) {
  const auto arguments = [&](const std::string& command, const std::string& policy,
                             const std::string& cluster) {
    std::vector<std::string> words = {command, path("job.yaml"),   "--set", "plan.model_chunks=1",
                                      "--set", "policy=" + policy, "--json"};
    if (!cluster.empty()) words.insert(words.end(), {"--set", "cluster=" + cluster});
    return words;
  };
  const auto train = [&](const std::string& policy, const std::string& cluster) {
    fs::remove_all(path("checkpoints"));
    auto words = arguments("train", policy, cluster);
    words.insert(words.end(), {"--log", path("fbd.log")});
    return run(words);
  };
  const Answer together = train("{schedule: 1f1b}", "");
  ASSERT_EQ(together.code, 0) << together.err;
  const std::string fbd = "{schedule: fbd, feed: activations, weight_gradients_on_forward: ";
  const std::string machines = "{nodes: [{gpu: H100-SXM5-80GB, gpus: 4, count: 1}]}";
  for (const auto& [share, cluster] :
       {std::pair<std::string, std::string>{"0.5}", ""}, {"0.5}", machines}, {"auto}", machines}}) {
    const Answer trained = train(fbd + share, cluster);
    ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
    for (rapidjson::SizeType step = 0; step < 4; ++step) {
      const double expected = json(together.out)["steps"][step]["loss"].GetDouble();
      EXPECT_NEAR(json(trained.out)["steps"][step]["loss"].GetDouble(), expected, 1e-5 * expected);
    }
    auto words = arguments("simulate", fbd + share, cluster);
    words.insert(words.end(), {"--replay", path("fbd.log")});
    const Answer replayed = run(words);
    ASSERT_EQ(replayed.code, 0) << replayed.out << replayed.err;
    EXPECT_EQ(json(replayed.out)["different"].GetInt(), 0);
    EXPECT_EQ(json(replayed.out)["steps_simulated_alike"].GetInt(), 4);
  }
  const Answer refused = train(fbd + "auto}", "");
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.out.find("weight_gradients_on_forward is auto"), std::string::npos)
      << refused.out;
}

TEST_F(TrainCommand, LogOfAHostRunIsDecidedAgainByTheSimulator) {
  for (const std::string policy : {"dpp-breadth", "dpp-depth", "interleaved"}) {
    fs::remove_all(path("checkpoints"));
    const std::string log = path(policy + ".log");
    const std::string trace = path(policy + ".json");
    const Answer trained = run({"train", path("job.yaml"), "--policy", policy, "--log", log,
                                "--trace", trace, "--set", "plan.tensor=2", "--json"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    const Answer replayed =
        run({"simulate", path("job.yaml"), "--replay", log, "--set", "plan.tensor=2", "--json"});
    ASSERT_EQ(replayed.code, 0) << replayed.out << replayed.err;
    const auto answer = json(replayed.out);
    EXPECT_EQ(answer["different"].GetInt(), 0);
    EXPECT_EQ(answer["steps"].GetInt(), 4);
    EXPECT_EQ(answer["steps_simulated_alike"].GetInt(), 4);
    EXPECT_GT(answer["events"].GetInt(), 100);

    // The picks forced on another run give the same losses.
    if (policy == "interleaved") continue;
    fs::remove_all(path("checkpoints"));
    const Answer forced =
        run({"train", path("job.yaml"), "--replay", log, "--set", "plan.tensor=2", "--json"});
    ASSERT_EQ(forced.code, 0) << forced.err;
    EXPECT_STREQ(json(forced.out)["weights_hash"].GetString(),
                 json(trained.out)["weights_hash"].GetString());

    std::ifstream file(trace);
    std::ostringstream text;
    text << file.rdbuf();
    const auto timeline = json(text.str());
    // Four ranks, three steps of 2 chunks × 4 micro-batches, forward and backward, each a span.
    int tasks = 0;
    int optimizer = 0;
    int arrows = 0;
    for (const auto& event : timeline["traceEvents"].GetArray()) {
      const std::string category = event.HasMember("cat") ? event["cat"].GetString() : "";
      const std::string phase = event["ph"].GetString();
      tasks += phase == "X" && (category == "forward" || category == "backward") ? 1 : 0;
      optimizer += phase == "X" && category == "optimizer" ? 1 : 0;
      arrows += phase == "s" ? 1 : 0;
    }
    EXPECT_EQ(tasks, 4 * 3 * 2 * 4 * 2);
    EXPECT_EQ(optimizer, 4 * 3);
    // Three hops forward and back for each micro-batch, step and member of the tensor pair.
    EXPECT_EQ(arrows, 2 * 3 * 4 * 6);
  }
}

// One message of the log, moved behind the event after it: of the first twenty, some decision must
// have depended on one.
TEST_F(TrainCommand, ALogThatWasChangedIsNoticed) {
  const std::string log = path("run.log");
  ASSERT_EQ(run({"train", path("job.yaml"), "--policy", "dpp-breadth", "--log", log}).code, 0);
  std::ifstream file(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  int noticed = 0;
  for (std::size_t i = 0, tried = 0; i + 1 < lines.size() && tried < 20; ++i) {
    if (!lines[i].starts_with("e 2 ") || !lines[i + 1].starts_with("e ")) continue;
    ++tried;
    std::swap(lines[i], lines[i + 1]);
    std::ofstream changed(log);
    for (const std::string& line : lines) changed << line << "\n";
    changed.close();
    noticed += run({"simulate", path("job.yaml"), "--replay", log}).code == 1 ? 1 : 0;
    std::swap(lines[i], lines[i + 1]);
  }
  EXPECT_GT(noticed, 0);
  const Answer other =
      run({"simulate", path("job.yaml"), "--replay", log, "--set", "plan.global_batch=8"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("is the log of another job"), std::string::npos) << other.err;
}

// Capacity and balance reach the experts: what is dropped and what is added to the loss show.
TEST_F(TrainCommand, ExpertsAreSetByTheScenario) {
  std::vector<std::string> hashes;
  for (const std::string experts :
       {"{}", "{capacity_factor: dropless}", "{capacity_factor: 0.5}", "{balance_loss: 0.1}"}) {
    const Answer answer =
        run({"train", path("job.yaml"), "--json", "--set", "training.experts=" + experts, "--set",
             "model.experts={num_experts: 4, experts_per_token: 2, expert_ffn_size: 12}", "--set",
             "training.checkpoint.folder=" + path("experts" + std::to_string(hashes.size()))});
    ASSERT_EQ(answer.code, 0) << answer.out << answer.err;
    hashes.emplace_back(json(answer.out)["weights_hash"].GetString());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
  EXPECT_NE(hashes[0], hashes[3]);
  EXPECT_NE(hashes[2], hashes[3]);
}

// What would fail after the last step is told before the first, and leaves nothing behind.
TEST_F(TrainCommand, TriesItsOutputsFirst) {
  fs::create_directory(path("folder"));
  std::ofstream(path("file")) << "text";
  const auto names = [&] {
    std::set<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(path(""))) all.insert(entry.path());
    return all;
  };
  const auto before = names();
  const struct {
    std::vector<std::string> words;
    std::string says;
  } kCases[] = {
      {{"--trace", path("folder")}, "--trace: error: cannot be written: '" + path("folder")},
      {{"--log", "/dev/full"}, "--log: error: cannot be written: '/dev/full': No space left"},
      {{"--log", path("file/run.log")}, "'" + path("file") + "' is no folder"},
      {{"--log", "/proc/run.log"}, "nothing can be made in '/proc'"},
      {{"--set", "training.checkpoint.folder=" + path("file")}, "'" + path("file") + "' is no"},
      {{"--set", "training.checkpoint.folder=/proc/x"}, "nothing can be made in '/proc'"},
  };
  for (const auto& [words, says] : kCases) {
    std::vector<std::string> line = {"train", path("job.yaml")};
    line.insert(line.end(), words.begin(), words.end());
    const Answer answer = run(line);
    EXPECT_EQ(answer.code, 2) << answer.out << answer.err;
    EXPECT_NE(answer.err.find(says), std::string::npos) << says << "\n" << answer.err;
    EXPECT_EQ(answer.out, "");
    EXPECT_EQ(names(), before);
  }
  // What can be written is left as it is by the trial.
  const Answer refused = run({"train", path("job.yaml"), "--log", path("file"), "--set",
                              "training.checkpoint.folder=/proc/x"});
  EXPECT_EQ(refused.code, 2);
  std::ifstream kept(path("file"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(kept), {}), "text");
}

// The scenario's place is named, and the command line's.
TEST_F(TrainCommand, RefusesACheckpointOfAnotherModel) {
  ASSERT_EQ(run({"train", path("job.yaml")}).code, 0);
  const Answer other = run({"train", path("job.yaml"), "--resume", "--set", "model.num_layers=2",
                            "--set", "plan.model_chunks=1"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("model.num_layers is 4 here, 2 in the scenario (--set)\n"),
            std::string::npos)
      << other.err;
  EXPECT_NE(other.err.find("1 error; nothing was run"), std::string::npos) << other.err;
  std::ifstream file(path("job.yaml"));
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.replace(text.find("hidden_size: 16"), 15, "hidden_size: 32");
  std::ofstream(path("job.yaml")) << text;
  const Answer wider = run({"train", path("job.yaml"), "--resume"});
  EXPECT_EQ(wider.code, 2);
  EXPECT_NE(wider.err.find("model.hidden_size is 16 here, 32 in the scenario (" + path("job.yaml") +
                           ":1)"),
            std::string::npos)
      << wider.err;
}

TEST_F(TrainCommand, WarnsOfAWarmUpLongerThanTheRun) {
  const Answer answer =
      run({"train", path("job.yaml"), "--set", "training.warmup_steps=9", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  ASSERT_EQ(json(answer.out)["warnings"].Size(), 1u);
  EXPECT_TRUE(std::string(json(answer.out)["warnings"][0].GetString())
                  .starts_with("training.warmup_steps is 9, of 4 steps"));
}

TEST_F(TrainCommand, SaysHowToStartAProcessARank) {
  const Answer answer = run({"train", path("job.yaml"), "--print-launch", "--set", "plan.tensor=2",
                             "--policy", "dpp", "--set", "data.text=a file", "--log", "run.log"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(answer.out.starts_with("mpirun -n 4 --bind-to none ")) << answer.out;
  EXPECT_NE(answer.out.find(" train " + path("job.yaml") +
                            " --set plan.tensor=2 --set 'data.text=a file' --set "
                            "policy.schedule=dpp --backend host --log run.log\n"),
            std::string::npos)
      << answer.out;
  EXPECT_FALSE(fs::exists(path("checkpoints")));
}

// Sixteen micro-batches of two chunks would be 32 activations a rank.
TEST_F(TrainCommand, KeepsToTheBoundOfLiveActivations) {
  const auto memory = [&](const std::string& policy) {
    const Answer answer = run({"train", path("job.yaml"), "--json", "--set", "plan.global_batch=16",
                               "--set", "policy=" + policy, "--set", "training.checkpoint=null"});
    EXPECT_EQ(answer.code, 0) << answer.out << answer.err;
    std::vector<double> reserved;
    const auto document = json(answer.out);
    for (const auto& rank : document["memory"].GetArray()) {
      EXPECT_LE(rank["activations"].GetDouble(), rank["reserved"].GetDouble());
      reserved.push_back(rank["reserved"].GetDouble());
    }
    return reserved;
  };
  const auto free = memory("{schedule: dpp}");
  const auto bounded = memory("{schedule: dpp, live_activations: 4}");
  ASSERT_EQ(free.size(), 2u);
  ASSERT_EQ(bounded.size(), 2u);
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_LT(bounded[rank], free[rank] / 3);
}

// The numbers are fp32 whatever the plan says, and only one line speaks of another format.
TEST_F(TrainCommand, SaysInWhichFormatItTrains) {
  for (const char* precision : {"bf16", "fp32"}) {
    const std::string set = "plan.precision=" + std::string(precision);
    const std::string out =
        run({"train", path("job.yaml"), "--set", set, "--set", "training.checkpoint=null"}).out;
    const bool other = std::string(precision) != "fp32";
    EXPECT_NE(out.find(" · fp32 · "), std::string::npos) << out;
    EXPECT_EQ(
        out.find("\n  trains in fp32; bf16 of the plan counts in simulate\n") != std::string::npos,
        other)
        << out;
    EXPECT_EQ(out.find("bf16") == out.rfind("bf16"), true) << out;
  }
}

TEST_F(TrainCommand, RefusesInWords) {
  struct Case {
    std::vector<std::string> words;
    int code;
    const char* says;
  };
  for (const Case& bad : std::vector<Case>{
           {{"--set", "data.text=" + path("gone.txt")}, 2, "No such file"},
           {{"--set", "data={}"}, 2, "names no file"},
           {{"--set", "training.stpes=3"}, 2, "did you mean 'steps'?"},
           {{"--set", "data.held_out=2"}, 2, "is no share of the text"},
           {{"--set", "model.vocab_size=100"}, 2, "the model's vocabulary is 100"},
           {{"--set", "model.sequence_length=100000"}, 2, "needs one more"},
           {{"--policy", "fifo"}, 2, "--policy: unknown schedule 'fifo'; allowed: a library"},
           {{"--policy", ""}, 2, "--policy: has an empty value; allowed: a library"},
           {{"--order", "gone.txt"}, 2, "--order: error: policy.order_file: 'gone.txt' cannot be"},
           {{"--policy", "1f1b", "--order", "file.txt"}, 2, "--policy excludes --order"},
           {{"--policy", "./gone.so"}, 2, "the policy cannot be loaded"},
           {{"--set", "training.experts.capacity_factor=0"}, 2, "would drop everything"},
           {{"--set", "training.experts.capacity=2"}, 2, "unknown key"},
           {{"--set", "training.experts.balance_loss=0.01"}, 2, "the model has no experts"},
           {{"--resume"}, 2, "holds no checkpoint to go on from"},
           {{"--from", path("nowhere")}, 2, "holds no weights"},
           {{"--set", "policy.live_activations=4"}, 2, "has no effect with this schedule"},
           {{"--set", "policy={schedule: dpp, live_activations: 1}"}, 1, "(allowed: 2 or more)"},
           {{"--set", "plan.tensor=3"}, 1, "does not divide the attention heads"},
           {{"--set", "model.dropout=0.1"}, 1, "does not train models with dropout"},
       }) {
    std::vector<std::string> words = {"train", path("job.yaml")};
    words.insert(words.end(), bad.words.begin(), bad.words.end());
    const Answer answer = run(words);
    EXPECT_EQ(answer.code, bad.code) << answer.out << answer.err;
    EXPECT_NE((answer.out + answer.err).find(bad.says), std::string::npos)
        << bad.says << "\n"
        << answer.out << answer.err;
  }
}

}  // namespace
}  // namespace megatwin::cli
