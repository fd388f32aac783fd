// A run that was stopped goes on with the same bits, under the same plan or another, and a save
// that is killed at any byte loses nothing that was there before.
#include "exec/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "exec/training.h"
#include "tests/exec/train_tiny.h"
#include "tests/temporary_folder.h"

namespace megatwin::exec {
namespace {

namespace fs = std::filesystem;
using model::Plan;

// A folder of this test, with a text in it.
class RunFolder {
 public:
  RunFolder() {
    std::ofstream text(text_path());
    for (int i = 0; i < 400; ++i) text << "the cat sat on mat " << i % 7 << ". ";
  }
  std::string text_path() const { return folder_.path("text.txt"); }
  std::string checkpoints() const { return folder_.path("checkpoints"); }

 private:
  tests::TemporaryFolder folder_;
};

TrainingRequest request_in(const RunFolder& folder, model::Transformer transformer, Plan plan) {
  transformer.vocab_size = 256;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  TrainingRequest request{
      .transformer = transformer,
      .plan = plan,
      .data = {.kind = model::TrainingDataKind::Text, .path = folder.text_path(), .held_out = 0.1},
      .settings = {.steps = 6,
                   .seed = 3,
                   .learning_rate = 0.01,
                   .learning_rate_final = 0.001,
                   .warmup_steps = 2,
                   .evaluate_sequences = 4,
                   .checkpoint_folder = folder.checkpoints(),
                   .checkpoint_every = 3}};
  return request;
}

TrainingResult train(const TrainingRequest& request) {
  auto training = Training::prepare(request);
  EXPECT_TRUE(training) << to_text(training.error());
  if (!training) return {};
  TrainingResult result = (*training)->run({});
  EXPECT_FALSE(result.host.fault) << to_text(*result.host.fault);
  return result;
}

// The losses of all steps of a run that is stopped after the third and goes on under `second`.
std::vector<double> interrupted(const TrainingRequest& first, const Plan& second) {
  TrainingRequest request = first;
  std::atomic<bool> stop{false};
  request.stop = &stop;
  request.hooks.before_task = [&](const TaskMoment& moment) {
    if (moment.step == 2) stop.store(true);
  };
  const TrainingResult before = train(request);
  EXPECT_TRUE(before.stopped);
  EXPECT_EQ(before.steps.size(), 3u);
  request = first;
  request.plan = second;
  request.plan.micro_batch = 1;
  request.plan.global_batch = 8;
  request.resume = true;
  const TrainingResult after = train(request);
  EXPECT_EQ(after.first_step, 3);
  std::vector<double> losses = before.host.losses;
  losses.insert(losses.end(), after.host.losses.begin(), after.host.losses.end());
  return losses;
}

Plan pipeline(int p, int v) {
  Plan plan;
  plan.pipeline = p;
  plan.model_chunks = v;
  if (v > 1) plan.schedule = model::ScheduleKind::Interleaved;
  return plan;
}

Plan of_schedule(model::ScheduleKind schedule, int p, int v) {
  Plan plan = pipeline(p, v);
  plan.schedule = schedule;
  return plan;
}

// A run that is stopped has the bits of one that is not.
void expect_same_bits(const model::Transformer& transformer, const Plan& plan) {
  SCOPED_TRACE(transformer.name + " " + tests::describe(plan));
  const RunFolder folder;
  TrainingRequest whole = request_in(folder, transformer, plan);
  ASSERT_TRUE(host_problems(whole.transformer, whole.plan).empty());
  whole.settings.checkpoint_folder.clear();
  const TrainingResult expected = train(whole);
  ASSERT_EQ(expected.host.losses.size(), 6u);
  EXPECT_EQ(interrupted(request_in(folder, transformer, plan), plan), expected.host.losses);
}

TEST(Resume, GivesTheSameBits) {
  for (const auto& transformer : {tests::tiny_llama(), tests::tiny_gpt()}) {
    for (Plan plan : {Plan{}, pipeline(2, 2)}) {
      plan.data = 2;
      plan.zero_stage = 1;
      expect_same_bits(transformer, plan);
    }
  }
}

TEST(Resume, GivesTheSameBitsOfGroups) {
  for (const bool sequence_parallel : {false, true}) {
    Plan tensor;
    tensor.tensor = 2;
    tensor.sequence_parallel = sequence_parallel;
    expect_same_bits(tests::tiny_llama(), tensor);
    expect_same_bits(tests::tied(tests::tiny_gpt()), tensor);
  }
  Plan ring;
  ring.context = 2;
  expect_same_bits(tests::tiny_llama(), ring);
  Plan product = pipeline(2, 1);
  product.tensor = product.context = product.data = 2;
  product.sequence_parallel = true;
  product.zero_stage = 1;
  expect_same_bits(tests::tiny_llama(), product);
}

TEST(Resume, GivesTheSameBitsOfShards) {
  for (const int zero : {0, 2, 3}) {
    for (Plan plan : {Plan{}, pipeline(2, 1)}) {
      plan.data = 2;
      plan.zero_stage = zero;
      expect_same_bits(tests::tiny_llama(), plan);
      expect_same_bits(tests::tied(tests::tiny_gpt()), plan);
    }
  }
}

TEST(Resume, GivesTheSameBitsOfExperts) {
  for (const int zero : {0, 1, 3}) {
    Plan plan;
    plan.expert = plan.data = 2;
    plan.zero_stage = zero;
    expect_same_bits(tests::tiny_experts(), plan);
  }
}

// Interleaved chunks, a V, and orders that are decided anew after the interruption.
TEST(Resume, GivesTheSameBitsOfSchedules) {
  using model::ScheduleKind;
  expect_same_bits(tests::tiny_llama(), pipeline(2, 2));
  for (const ScheduleKind schedule :
       {ScheduleKind::ZeroBubbleV, ScheduleKind::DynamicAdaptive, ScheduleKind::DynamicDepthFirst,
        ScheduleKind::DynamicBreadthFirst}) {
    expect_same_bits(tests::tiny_llama(), of_schedule(schedule, 2, 2));
  }
  Plan bounded = of_schedule(ScheduleKind::DynamicAdaptive, 2, 2);
  bounded.live_activations = 3;
  bounded.receive_slots = 1;
  expect_same_bits(tests::tiny_llama(), bounded);
}

// What the forward side holds is a copy of what the backward side has stepped.
TEST(Resume, GivesTheSameBitsOfDecoupledSides) {
  for (const bool ship : {false, true}) {
    Plan plan = of_schedule(model::ScheduleKind::Decoupled, 2, 1);
    plan.decoupled.ship_activations = ship;
    expect_same_bits(tests::tiny_llama(), plan);
    plan.decoupled.forward.instances = 2;
    plan.decoupled.backward.instances = 2;
    expect_same_bits(tests::tiny_llama(), plan);
  }
}

struct OtherPlan {
  Plan plan;
  bool same_bits = false;
};

// A run of one rank goes on under `other`, and a run under `other` on one rank.
void expect_resumes(const model::Transformer& transformer, const OtherPlan& other) {
  for (const bool back : {false, true}) {
    const RunFolder folder;
    TrainingRequest whole = request_in(folder, transformer, {});
    whole.settings.checkpoint_folder.clear();
    const std::vector<double> expected = train(whole).host.losses;
    const Plan& from = back ? other.plan : Plan{};
    const Plan& to = back ? Plan{} : other.plan;
    const std::vector<double> losses = interrupted(request_in(folder, transformer, from), to);
    ASSERT_EQ(losses.size(), expected.size());
    for (std::size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(losses[step], expected[step], other.same_bits ? 0 : 1e-5 * expected[step])
          << transformer.name << " step " << step << " " << tests::describe(other.plan) << " back "
          << back;
    }
  }
}

// Where only the pipeline changes the bits stay; where sums are cut otherwise, the losses within
// 1e-5. The held-out loss is computed on whole weights.
TEST(Resume, UnderAnotherPlan) {
  Plan replicas = pipeline(2, 1);
  replicas.data = 2;
  replicas.zero_stage = 1;
  Plan tensor = pipeline(2, 1);
  tensor.tensor = 2;
  tensor.sequence_parallel = true;
  for (const OtherPlan& other :
       {OtherPlan{pipeline(2, 2), true}, OtherPlan{replicas}, OtherPlan{tensor}}) {
    expect_resumes(tests::tiny_llama(), other);
  }
}

// From each of eight plans to each other one: all sizes change at once, and shards, rings, chunks
// and sides come and go. Both halves of a run are within 1e-5 of one rank.
TEST(Resume, FromAnyPlanToAnyOther) {
  using model::ScheduleKind;
  std::vector<Plan> plans;
  const auto add = [&](Plan plan, int t, int d, int zero) {
    plan.tensor = t;
    plan.data = d;
    plan.zero_stage = zero;
    plan.sequence_parallel = t > 1;
    plans.push_back(plan);
  };
  add({}, 4, 1, 0);
  add({}, 1, 4, 3);
  add(pipeline(4, 1), 1, 1, 0);
  add(pipeline(2, 2), 2, 1, 0);
  add(pipeline(2, 1), 1, 2, 2);
  add(of_schedule(ScheduleKind::ZeroBubbleV, 2, 2), 1, 2, 1);
  add(of_schedule(ScheduleKind::Decoupled, 2, 1), 2, 1, 0);
  add({}, 2, 2, 1);
  plans.back().context = 2;
  const RunFolder whole_folder;
  TrainingRequest whole = request_in(whole_folder, tests::tiny_gpt(), {});
  whole.settings.checkpoint_folder.clear();
  const std::vector<double> expected = train(whole).host.losses;
  for (const Plan& from : plans) {
    const TrainingRequest request = request_in(whole_folder, tests::tiny_gpt(), from);
    ASSERT_TRUE(host_problems(request.transformer, request.plan).empty()) << tests::describe(from);
    for (const Plan& to : plans) {
      if (&from == &to) continue;
      const RunFolder folder;
      const auto losses = interrupted(request_in(folder, tests::tiny_gpt(), from), to);
      ASSERT_EQ(losses.size(), expected.size());
      for (std::size_t step = 0; step < losses.size(); ++step) {
        EXPECT_NEAR(losses[step], expected[step], 1e-5 * expected[step])
            << "from " << tests::describe(from) << " to " << tests::describe(to) << " step "
            << step;
      }
    }
  }
}

// What a rank holds of a unit may be a shard, a ring's ranks are replicas, and with tied embeddings
// both ends hold the matrix.
TEST(Resume, UnderAnotherPlanOfShardsAndRings) {
  Plan plan = pipeline(2, 1);
  plan.data = plan.context = 2;
  for (const int zero : {0, 2, 3}) {
    plan.zero_stage = zero;
    expect_resumes(tests::tied(tests::tiny_gpt()), {plan});
  }
}

TEST(Resume, UnderAnotherPlanOfExperts) {
  Plan plan;
  plan.expert = 2;
  plan.data = 4;
  for (const int zero : {1, 3}) {
    plan.zero_stage = zero;
    expect_resumes(tests::tiny_experts(), {plan});
  }
}

TEST(Resume, RefusesAnotherRun) {
  const RunFolder folder;
  TrainingRequest request = request_in(folder, tests::tiny_llama(), {});
  train(request);
  const auto fresh = Training::prepare(request);
  ASSERT_FALSE(fresh);
  EXPECT_EQ(fresh.error()[0].message, "holds checkpoints of an earlier run");
  request.resume = true;
  request.settings.seed = 4;
  const auto seed = Training::prepare(request);
  ASSERT_FALSE(seed);
  EXPECT_EQ(seed.error()[0].message, "is of another run: seed 3, global batch 8, sequences of 8");
  request.settings.seed = 3;
  // One message, whatever differs in how many tensors.
  request.transformer.ffn_hidden_size = 32;
  request.transformer.num_layers = 40;
  request.model_places = {{"ffn_hidden_size", "job.yaml:3"}, {"name", "job.yaml:2"}};
  const auto shape = Training::prepare(request);
  ASSERT_FALSE(shape);
  ASSERT_EQ(shape.error().size(), 1u);
  EXPECT_EQ(shape.error()[0].file, folder.checkpoints() + "/step-00000006/config.json");
  EXPECT_EQ(shape.error()[0].message,
            "is of another model: model.num_layers is 4 here, 40 in the scenario (name at "
            "job.yaml:2); model.ffn_hidden_size is 24 here, 32 in the scenario (job.yaml:3)");
}

using Change = std::function<void(model::Transformer&)>;
struct OtherModel {
  const char* says;
  Change change;
};

TEST(Resume, RefusesAnotherModelThatFits) {
  // Each fits the stored weights, by leaving some of them out or by their shapes.
  const OtherModel others[] = {
      {"model.num_layers is 4 here, 2 in the scenario", [](auto& t) { t.num_layers = 2; }},
      {"model.num_attention_heads is 4 here, 8 in the scenario (by default); "
       "model.num_key_value_heads is 2 here, 4 in the scenario (by default); model.head_dim is 4 "
       "here, 2 in the scenario",
       [](auto& t) {
         t.num_attention_heads = 8;
         t.num_key_value_heads = 4;
         t.head_dim = 2;
       }},
      {"model.activation is swiglu here, gelu in the scenario",
       [](auto& t) { t.activation = model::ActivationKind::Gelu; }},
      {"model.norm is rmsnorm here, layernorm in the scenario",
       [](auto& t) { t.norm = model::NormKind::LayerNorm; }},
      {"model.tied_embeddings is false here, true in the scenario",
       [](auto& t) { t.tied_embeddings = true; }},
  };
  for (const bool from : {false, true}) {
    const RunFolder folder;
    const TrainingRequest trained = request_in(folder, tests::tiny_llama(), {});
    const std::string checkpoint = train(trained).last_checkpoint;
    TrainingRequest request = trained;
    request.resume = !from;
    if (from) {
      request.weights_from = checkpoint;
      request.settings.checkpoint_folder.clear();
    }
    ASSERT_TRUE(Training::prepare(request));
    for (const OtherModel& other : others) {
      TrainingRequest changed = request;
      other.change(changed.transformer);
      const auto refused = Training::prepare(changed);
      ASSERT_FALSE(refused) << other.says;
      ASSERT_EQ(refused.error().size(), 1u);
      EXPECT_NE(refused.error()[0].message.find(other.says), std::string::npos)
          << refused.error()[0].message;
    }
    // Positions that are computed may be as many as one likes.
    request.transformer.max_position_embeddings = 99;
    if (from) request.transformer.sequence_length = 4;
    EXPECT_TRUE(Training::prepare(request));
  }
}

// What no architecture of Hugging Face has a word for comes back as it was, and is refused as
// something else.
TEST(Resume, KnowsModelsWithoutAName) {
  std::vector<model::Transformer> mixed(3, tests::tiny_llama());
  mixed[0].activation = model::ActivationKind::Gelu;
  mixed[1].norm = model::NormKind::LayerNorm;
  mixed[1].qkv_bias = true;
  mixed[2] = tests::tiny_experts();
  for (const model::Transformer& transformer : mixed) {
    const RunFolder folder;
    TrainingRequest request = request_in(folder, transformer, {});
    train(request);
    request.resume = true;
    EXPECT_TRUE(Training::prepare(request));
    request.transformer = request_in(folder, tests::tiny_llama(), {}).transformer;
    EXPECT_FALSE(Training::prepare(request));
  }
}

// Without a configuration the weights' names tell.
TEST(Resume, RefusesWeightsThatWouldBeLeftOut) {
  const RunFolder folder;
  TrainingRequest request = request_in(folder, tests::tiny_llama(), {});
  request.weights_from = train(request).last_checkpoint;
  request.settings.checkpoint_folder.clear();
  fs::remove(fs::path(request.weights_from) / "config.json");
  EXPECT_TRUE(Training::prepare(request));
  request.transformer.num_layers = 2;
  const auto refused = Training::prepare(request);
  ASSERT_FALSE(refused);
  ASSERT_EQ(refused.error().size(), 1u);
  EXPECT_EQ(refused.error()[0].message,
            "the model has no place for model.layers.2.input_layernorm.weight, and 17 more of its "
            "weights do not fit");
}

TEST(Checkpoint, KeepsTheNewest) {
  const RunFolder folder;
  TrainingRequest request = request_in(folder, tests::tiny_llama(), {});
  request.settings.checkpoint_every = 1;
  const TrainingResult result = train(request);
  EXPECT_EQ(result.last_checkpoint, folder.checkpoints() + "/step-00000006");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.checkpoints())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000005", "step-00000006"}));
}

// A small state that is saved and changed by hand.
ModelState small_state() {
  ModelState state;
  state["lm_head.weight"] = {.rows = 2,
                             .columns = 2,
                             .weights = {1, 2, 3, 4},
                             .first_moment = {5, 6, 7, 8},
                             .second_moment = {9, 10, 11, 12}};
  return state;
}

// Kills the process when it has written `bytes` of a save; whether it came so far.
bool killed_while_saving(const std::string& folder, std::size_t bytes) {
  const pid_t child = ::fork();
  if (child == 0) {
    const ModelState state = small_state();
    save_checkpoint({.folder = folder,
                     .point = {.step = 2},
                     .transformer = tests::tiny_llama(),
                     .state = state,
                     .pace = [bytes](std::size_t written, std::size_t wanted) {
                       if (written == bytes) ::raise(SIGKILL);
                       return std::min(wanted, bytes - written);
                     }});
    ::raise(SIGTERM);  // Done.
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST(Checkpoint, KilledAtAnyByteLosesNothingOlder) {
  const RunFolder folder;
  const ModelState state = small_state();
  save_checkpoint({.folder = folder.checkpoints(),
                   .point = {.step = 1},
                   .transformer = tests::tiny_llama(),
                   .state = state});
  std::size_t bytes = 0;
  while (killed_while_saving(folder.checkpoints(), bytes)) {
    const auto loaded = load_newest_checkpoint(folder.checkpoints(), tests::tiny_llama());
    ASSERT_TRUE(loaded) << "killed at byte " << bytes << "\n" << to_text(loaded.error());
    ASSERT_EQ(loaded->point.step, 1) << "killed at byte " << bytes;
    ASSERT_EQ(loaded->state.at("lm_head.weight").second_moment,
              (std::vector<float>{9, 10, 11, 12}));
    bytes += 23;  // A process each; every byte is the next test's.
  }
  EXPECT_GT(bytes, 1000u);  // Four files.
  const auto loaded = load_newest_checkpoint(folder.checkpoints(), tests::tiny_llama());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->point.step, 2);
}

// What another process reads before each single byte that the system takes is what it would find
// had the save been killed there; the files are not closed and not renamed.
TEST(Checkpoint, BeforeEachByteTheOlderIsWhatOneFinds) {
  const RunFolder folder;
  ModelState state = small_state();
  const auto save = [&](int step, const auto& pace) {
    return save_checkpoint({.folder = folder.checkpoints(),
                            .point = {.step = step},
                            .transformer = tests::tiny_llama(),
                            .state = state,
                            .pace = pace});
  };
  const auto step_found = [&]() -> int {
    const auto loaded = load_newest_checkpoint(folder.checkpoints(), tests::tiny_llama());
    if (!loaded || !loaded->damaged.empty()) return -1;
    return loaded->state.at("lm_head.weight").weights[0] == 1 ? loaded->point.step : -2;
  };
  save(1, nullptr);
  state["lm_head.weight"].weights[0] = 2;
  std::size_t looks = 0, bytes = 0;
  std::string first_fault;
  const std::string saved = save(2, [&](std::size_t written, std::size_t) -> std::size_t {
    const int step = step_found();
    if (step != 1 && first_fault.empty()) {
      first_fault = "before byte " + std::to_string(written) + " found " + std::to_string(step);
    }
    ++looks;
    bytes = written + 1;
    return 1;
  });
  EXPECT_EQ(first_fault, "");
  std::uintmax_t size = 0;
  for (const auto& file : fs::directory_iterator(saved)) size += fs::file_size(file.path());
  EXPECT_EQ(bytes, size);
  EXPECT_EQ(looks, size);
  EXPECT_EQ(load_newest_checkpoint(folder.checkpoints(), tests::tiny_llama())->point.step, 2);
}

TEST(Checkpoint, AnyBitThatTurnsIsNoticed) {
  const RunFolder folder;
  const ModelState state = small_state();
  for (const int step : {1, 2}) {
    save_checkpoint({.folder = folder.checkpoints(),
                     .point = {.step = step},
                     .transformer = tests::tiny_llama(),
                     .state = state});
  }
  const fs::path newest = fs::path(folder.checkpoints()) / "step-00000002";
  for (const auto& file : fs::directory_iterator(newest)) {
    const std::uintmax_t size = fs::file_size(file.path());
    for (std::uintmax_t at = 0; at < size; at += 1 + size / 40) {
      std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto place = static_cast<std::streamoff>(at);
      stream.seekg(place);
      const int byte = stream.get();
      const auto flip = [&](int value) {
        stream.seekp(place);
        stream.put(static_cast<char>(value));
        stream.flush();
      };
      flip(byte ^ 4);
      const auto loaded = load_newest_checkpoint(folder.checkpoints(), tests::tiny_llama());
      ASSERT_TRUE(loaded);
      EXPECT_EQ(loaded->point.step, 1) << file.path() << " byte " << at;
      EXPECT_EQ(loaded->damaged.size(), 1u);
      flip(byte);
    }
  }
}

TEST(Checkpoint, AFullDiskIsSaidAndLeavesTheOlder) {
  const RunFolder folder;
  const ModelState state = small_state();
  save_checkpoint({.folder = folder.checkpoints(),
                   .point = {.step = 1},
                   .transformer = tests::tiny_llama(),
                   .state = state});
  const auto save = [&] {
    save_checkpoint({.folder = folder.checkpoints(),
                     .point = {.step = 2},
                     .transformer = tests::tiny_llama(),
                     .state = state,
                     .pace = [](std::size_t written, std::size_t) -> std::size_t {
                       if (written > 600) {
                         throw std::system_error(ENOSPC, std::generic_category(), "cannot write");
                       }
                       return 100;
                     }});
  };
  EXPECT_THROW(save(), CheckpointError);
  const auto loaded = load_newest_checkpoint(folder.checkpoints(), tests::tiny_llama());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->point.step, 1);
}

// In a run it is a fault of rank 0, with the step named and the older checkpoint on disk.
TEST(Checkpoint, AFolderThatCannotBeWrittenEndsTheRun) {
  const RunFolder folder;
  TrainingRequest request = request_in(folder, tests::tiny_llama(), pipeline(2, 1));
  request.settings.checkpoint_folder = folder.text_path() + "/inside";
  const auto refused = Training::prepare(request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error()[0].message.find("is no folder"), std::string::npos);
  // One that was fine when the run began.
  request.settings.checkpoint_folder = folder.checkpoints();
  request.hooks.before_task = [&](const TaskMoment&) {
    std::ofstream(folder.checkpoints()) << "x";
  };
  auto training = Training::prepare(request);
  ASSERT_TRUE(training);
  EXPECT_FALSE(fs::exists(folder.checkpoints()));
  const TrainingResult result = (*training)->run({});
  ASSERT_TRUE(result.host.fault);
  EXPECT_EQ(result.host.fault->task, "after the step");
  EXPECT_EQ(result.host.fault->step, 2);
  EXPECT_NE(result.host.fault->what.find("cannot make folder"), std::string::npos);
}

// A rank that throws, a message and a gradient that are no numbers, in the fifth of six steps on
// eight ranks: the run ends soon, and what was saved after the third goes on to the same bits.
TEST(Checkpoint, AFaultLeavesTheOlder) {
  const auto at_fifth = [](const TaskMoment& moment) {
    return moment.rank.value == 5 && moment.step == 4 && to_text(moment.task) == "B1.0";
  };
  const auto fill = [&](float value) {
    return [=](const TaskMoment& moment, std::span<float> message) {
      if (at_fifth(moment)) std::fill(message.begin(), message.end(), value);
    };
  };
  HostHooks throws, no_number, overflows;
  throws.before_task = [&](const TaskMoment& moment) {
    if (at_fifth(moment)) throw std::runtime_error("the disk is full");
  };
  no_number.after_task = fill(std::numeric_limits<float>::quiet_NaN());
  overflows.after_task = fill(std::numeric_limits<float>::max());
  Plan plan = pipeline(2, 1);
  plan.tensor = plan.data = 2;
  const RunFolder whole_folder;
  TrainingRequest whole = request_in(whole_folder, tests::tiny_llama(), plan);
  whole.settings.checkpoint_folder.clear();
  const TrainingResult expected = train(whole);
  for (const auto& [hooks, says] :
       {std::pair(throws, "the disk is full"), std::pair(no_number, "the output is not finite"),
        std::pair(overflows, " is not finite")}) {
    const RunFolder folder;
    TrainingRequest request = request_in(folder, tests::tiny_llama(), plan);
    request.hooks = hooks;
    auto training = Training::prepare(request);
    ASSERT_TRUE(training);
    const auto start = std::chrono::steady_clock::now();
    const TrainingResult ended = (*training)->run({});
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << says;
    ASSERT_TRUE(ended.host.fault) << says;
    EXPECT_EQ(ended.host.fault->step, 4);
    EXPECT_NE(ended.host.fault->what.find(says), std::string::npos) << ended.host.fault->what;
    EXPECT_EQ(ended.host.losses.size(), 4u);
    request.hooks = {};
    request.resume = true;
    const TrainingResult after = train(request);
    EXPECT_EQ(after.first_step, 3);
    EXPECT_EQ(after.host.weights_hash, expected.host.weights_hash) << says;
  }
}

}  // namespace
}  // namespace megatwin::exec
