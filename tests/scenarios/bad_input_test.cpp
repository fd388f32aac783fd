// Every file of tests/scenarios/bad is refused with exactly the text beside it (x.yaml,
// x.yaml.txt). MEGATWIN_UPDATE_GOLDENS=1 rewrites the texts; the commit that does so says why.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <gtest/gtest.h>

#include "model/precision_names.h"
#include "scenarios/document.h"
#include "scenarios/huggingface.h"
#include "scenarios/order_file_reader.h"
#include "scenarios/scenario.h"
#include "tests/temporary_folder.h"

namespace megatwin::scenarios {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string refusal_of(const std::string& path) {
  if (path.ends_with(".json")) {
    const auto config = load_huggingface_config(path);
    return config ? "accepted\n" : to_text(config.error());
  }
  const auto jobs = load_scenario(path);
  return jobs ? "accepted\n" : to_text(jobs.error());
}

std::vector<std::string> bad_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/scenarios/bad")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".txt")) files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(BadInput, IsRefusedWithExactlyThisText) {
  ASSERT_GE(bad_files().size(), 12U);
  for (const std::string& path : bad_files()) {
    const std::string refusal = refusal_of(path);
    if (std::getenv("MEGATWIN_UPDATE_GOLDENS") != nullptr) {
      std::ofstream(path + ".txt") << refusal;
      continue;
    }
    EXPECT_EQ(refusal, text_of(path + ".txt")) << path;
  }
}

TEST(BadInput, OptionsOfTheCommandLineAreCheckedLikeTheFile) {
  const auto refusal = [](const ScenarioOptions& options) {
    const auto jobs = load_scenario("scenarios/llama-3-8b-h200.yaml", options);
    return jobs ? "accepted\n" : to_text(jobs.error());
  };
  EXPECT_EQ(refusal({.set = {"plan.micro_batch=-1", "network=etherent"}}),
            "--set: error: plan.micro_batch: '-1' is out of range\n"
            "  allowed: a whole number from 1 to 1000000000\n"
            "--set: error: network: unknown value 'etherent'\n"
            "  allowed: analytic, simgrid, maxmin\n"
            "2 errors; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan.tensor"}}),
            "--set: error: 'plan.tensor' sets nothing\n"
            "  allowed: a key and its value, such as plan.tensor=4\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"cluster.nodes[7].count=2"}}),
            "--set: error: cluster.nodes[7]: there is no such item\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"model.name.kind=2"}}),
            "--set: error: model.name: is not a map, so that 'kind' cannot be set in it\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan..tensor=2"}}),
            "--set: error: 'plan..tensor' is not the path of a key\n"
            "  allowed: keys joined by dots, items of a list by number: cluster.nodes[1].count\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan.tensr=null"}}),
            "--set: error: plan.tensr: is not there to be taken away\n"
            "  allowed: a key of the file\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({.set = {"plan.layers_per_stage=autoo", "plan.tensor_per_stage=[]",
                             "plan.tensor=null"}}),
            "--set: error: plan.tensor_per_stage: is an empty list\n"
            "  allowed: a size for each stage, such as [4, 4, 2]\n"
            "--set: error: plan.layers_per_stage: holds 'autoo'\n"
            "  allowed: auto, or layers of each stage, such as [4, 4, 5]\n"
            "2 errors; nothing was run\n");
  EXPECT_EQ(refusal({.sweep = {"plan.tensor=1,two"}}),
            "--sweep: error: plan.tensor: 'two' is not a whole number\n"
            "  allowed: a whole number from 1 to 1000000\n"
            "1 error; nothing was run\n");
}

// `--set plan.tensor=$T` with T unset took the key away, as null does, without a word.
TEST(BadInput, AnEmptyValueIsNoNull) {
  for (const char* nothing : {"", "  ", "# 4"}) {
    const auto jobs = load_scenario("scenarios/llama-3-8b-h200.yaml",
                                    {.set = {"plan.tensor=" + std::string(nothing)}});
    ASSERT_FALSE(jobs) << nothing;
    EXPECT_EQ(to_text(jobs.error()),
              "--set: error: plan.tensor: has an empty value\n"
              "  allowed: a value; null takes the key away\n"
              "1 error; nothing was run\n");
  }
  EXPECT_TRUE(load_scenario("scenarios/llama-3-8b-h200.yaml", {.set = {"plan.tensor=~"}}));
}

// Every name that a report prints can be written, and is offered where another is.
TEST(BadInput, EveryPrecisionIsReadByItsName) {
  const std::string file = "scenarios/llama-3-8b-h200.yaml";
  const auto wrong = load_scenario(file, {.set = {"plan.precision=fp7"}});
  ASSERT_FALSE(wrong);
  for (const model::Precision precision : model::kPrecisions) {
    const std::string name(name_of(precision));
    const auto jobs = load_scenario(file, {.set = {"plan.precision=" + name}});
    ASSERT_TRUE(jobs) << to_text(jobs.error());
    EXPECT_EQ(jobs->front().plan.precision, precision) << name;
    EXPECT_NE(to_text(wrong.error()).find(name), std::string::npos) << name;
  }
}

// One of two keys that exclude each other can be tried without touching the file.
TEST(BadInput, NullTakesAKeyAway) {
  const auto jobs = load_scenario(
      "scenarios/llama-3-8b-h200.yaml",
      {.set = {"plan.tensor=null", "plan.tensor_per_stage=[2, 2]", "plan.pipeline=2"}});
  ASSERT_TRUE(jobs) << to_text(jobs.error());
  EXPECT_EQ(jobs->front().plan.tensor_per_stage, (std::vector<int>{2, 2}));
}

TEST(BadInput, SweepsOfNothingOrTwiceTheSame) {
  const auto refusal = [](std::vector<std::string> sweep) {
    const auto result =
        load_scenario("scenarios/llama-3.1-70b-h100.yaml", {.sweep = std::move(sweep)});
    return result ? std::string("accepted") : to_text(result.error());
  };
  EXPECT_EQ(refusal({"plan.tensor="}),
            "--sweep: error: plan.tensor: has an empty value\n"
            "  allowed: values with commas between them, such as plan.tensor=1,2,4\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({"plan.tensor=4,8,4"}),
            "--sweep: error: plan.tensor: names '4' twice\n"
            "1 error; nothing was run\n");
  EXPECT_EQ(refusal({"plan.tensor=4", "plan.zero=1", "plan.tensor=8"}),
            "--sweep: error: plan.tensor: is swept twice\n"
            "  allowed: all its values in one --sweep\n"
            "1 error; nothing was run\n");
}

TEST(BadInput, FilesThatCannotBeReadSayWhy) {
  const auto missing = load_scenario("no/such/job.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(to_text(missing.error()),
            "no/such/job.yaml: error: cannot be opened: No such file or directory\n"
            "1 error; nothing was run\n");
  const auto folder = load_scenario("scenarios");
  ASSERT_FALSE(folder);
  EXPECT_EQ(to_text(folder.error()),
            "scenarios: error: is a directory, not a file\n"
            "1 error; nothing was run\n");
}

// Opening a pipe waits until somebody writes to it, which was forever.
TEST(BadInput, APipeIsNoFile) {
  const tests::TemporaryFolder folder;
  const std::string pipe = folder.path("job.yaml");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto scenario = load_scenario(pipe);
  ASSERT_FALSE(scenario);
  EXPECT_EQ(to_text(scenario.error()),
            pipe + ": error: is a named pipe, not a file\n1 error; nothing was run\n");
  EXPECT_EQ(why_no_file("/dev/null"), std::nullopt);  // As /dev/stdin and /dev/fd/63.
}

// As editors on Windows write them: the same job, and faults in the same columns.
TEST(BadInput, ByteOrderMarksAndLineEndsChangeNothing) {
  const tests::TemporaryFolder folder;
  const auto as_windows_writes = [&](const std::string& text) {
    std::string result = "\xEF\xBB\xBF";
    for (const char c : text) result += c == '\n' ? std::string("\r\n") : std::string(1, c);
    return result;
  };
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path(name), std::ios::binary) << text;
    return folder.path(name);
  };
  EXPECT_EQ(read_file(write("a",
                            "\xEF\xBB\xBF"
                            "a\r\n\r\r\nb\rc\n\r"))
                .value_or(""),
            "a\n\r\nb\rc\n\r");
  const std::string job = text_of("scenarios/llama-3-8b-h200.yaml");
  const auto plain = load_scenario(write("job.yaml", job));
  const auto marked = load_scenario(write("job.yaml", as_windows_writes(job)));
  ASSERT_TRUE(plain && marked) << (marked ? "" : to_text(marked.error()));
  EXPECT_EQ(marked->front().transformer.name, plain->front().transformer.name);
  EXPECT_EQ(marked->front().plan.global_batch, plain->front().plan.global_batch);

  const std::string config = text_of("tests/scenarios/bad/sizes.json");
  const auto wrong = load_huggingface_config(write("config.json", config));
  const auto marked_wrong =
      load_huggingface_config(write("config.json", as_windows_writes(config)));
  ASSERT_FALSE(wrong || marked_wrong);
  EXPECT_EQ(to_text(marked_wrong.error()), to_text(wrong.error()));

  const auto orders = read_order_file(write("o.txt", as_windows_writes("0: F0.0 B0.0\n")));
  ASSERT_TRUE(orders) << to_text(orders.error());
  EXPECT_EQ(orders->front(), (std::vector<std::string>{"F0.0", "B0.0"}));
}

// full:0 was refused, {kind: full, layers: 0} recomputed all layers, and {kind: selective, layers:
// 2} all of a selective kind, which selective:2 may not.
TEST(BadInput, BothFormsOfRecomputationAllowTheSame) {
  struct Row {
    std::string brief, written;
    int layers;  // -1: refused.
  };
  for (const Row& row : std::vector<Row>{{"full", "{kind: full}", 0},
                                         {"full:1", "{kind: full, layers: 1}", 1},
                                         {"full:0", "{kind: full, layers: 0}", -1},
                                         {"full:10001", "{kind: full, layers: 10001}", -1},
                                         {"full:x", "{kind: full, layers: x}", -1},
                                         {"selective", "{kind: selective}", 0},
                                         {"selective:2", "{kind: selective, layers: 2}", -1},
                                         {"none:1", "{kind: none, layers: 1}", -1}}) {
    for (const std::string& form : {row.brief, row.written}) {
      const auto jobs =
          load_scenario("scenarios/llama-3-8b-h200.yaml", {.set = {"plan.recompute=" + form}});
      ASSERT_EQ(jobs.has_value(), row.layers >= 0) << form;
      if (jobs) {
        EXPECT_EQ(jobs->front().plan.recompute_layers, row.layers) << form;
      } else {
        EXPECT_EQ(jobs.error().size(), 1U) << to_text(jobs.error());
        EXPECT_NE(jobs.error().front().allowed, "") << form;
      }
    }
  }
}

// More layers with a window than layers gave a share above 1.
TEST(BadInput, PartsOfTheLayersAreNoMoreThanAll) {
  const auto refusal = [](std::vector<std::string> set) {
    const auto jobs = load_scenario("scenarios/deepseek-v3-h100.yaml", {.set = std::move(set)});
    return jobs ? std::string("accepted") : to_text(jobs.error());
  };
  for (const std::string key : {"num_dense_first_layers", "num_sliding_window_layers"}) {
    EXPECT_EQ(refusal({"model.num_layers=8", "plan={global_batch: 2048}", "model." + key + "=9"}),
              "--set: error: model." + key +
                  ": '9' is out of range\n"
                  "  allowed: a whole number from 0 to 8\n"
                  "1 error; nothing was run\n");
    EXPECT_EQ(refusal({"model.num_layers=8", "plan={global_batch: 2048}", "model." + key + "=8"}),
              "accepted");
  }
}

// Three of four layers have the window: of two, it would have been all, and then some.
TEST(BadInput, AnotherDepthKeepsTheShareOfWindows) {
  const tests::TemporaryFolder folder;
  const std::string config = folder.path("config.json");
  std::ofstream(config) << R"({"model_type": "gpt_oss", "hidden_size": 2880, "head_dim": 64,
      "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 8,
      "intermediate_size": 2880, "vocab_size": 201088, "num_local_experts": 32,
      "num_experts_per_tok": 4, "tie_word_embeddings": false,
      "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
                      "full_attention"]})";
  const auto share = [&](const std::string& more) {
    const auto jobs = load_scenario("scenarios/mixtral-8x7b-h100.yaml",
                                    {.set = {"model={hf: '" + config + "'" + more + "}"}});
    EXPECT_TRUE(jobs) << to_text(jobs.error());
    return jobs ? jobs->front().transformer.windowed_share() : 0;
  };
  EXPECT_DOUBLE_EQ(share(""), 0.75);
  EXPECT_DOUBLE_EQ(share(", num_layers: 8"), 0.75);
  EXPECT_DOUBLE_EQ(share(", num_layers: 2"), 1);  // Of 1.5 layers, two.
  EXPECT_DOUBLE_EQ(share(", num_layers: 1"), 1);
}

// Every second layer has experts, after a dense one; or a list without a pattern.
TEST(BadInput, AnotherDepthKeepsThePatternOfExperts) {
  const tests::TemporaryFolder folder;
  const auto experts = [&](const std::string& which, const std::string& more) {
    const std::string config = folder.path("config.json");
    std::ofstream(config) << R"({"model_type": "qwen3_moe", "hidden_size": 64,
        "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "intermediate_size": 128, "vocab_size": 128, "moe_intermediate_size": 32,
        "num_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": false, )"
                          << which << "}";
    const auto jobs = load_scenario("scenarios/mixtral-8x7b-h100.yaml",
                                    {.set = {"model={hf: '" + config + "'" + more + "}"}});
    if (!jobs) return to_text(jobs.error());
    std::string layers;
    for (int i = 0; i < jobs->front().transformer.num_layers; ++i) {
      layers += jobs->front().transformer.is_moe_layer(i) ? 'E' : '-';
    }
    return layers;
  };
  const std::string step = R"("decoder_sparse_step": 2)";
  EXPECT_EQ(experts(step, ""), "-E-E-E");
  EXPECT_EQ(experts(step, ", num_layers: 4"), "-E-E");
  EXPECT_EQ(experts(step, ", num_layers: 11"), "-E-E-E-E-E-");
  EXPECT_EQ(experts(R"("mlp_only_layers": [0])", ", num_layers: 9"), "-EEEEEEEE");
  const std::string bare = experts(R"("mlp_only_layers": [0, 1, 3])", ", num_layers: 8");
  EXPECT_NE(bare.find("the model says for each of 6 layers"), std::string::npos) << bare;
  EXPECT_NE(bare.find("allowed: at most 6"), std::string::npos) << bare;
}

}  // namespace
}  // namespace megatwin::scenarios
