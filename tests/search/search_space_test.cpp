#include "sim/search/search_space.h"

#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/layer_split.h"
#include "model/plan_check.h"
#include "model/rank_layout.h"
#include "scenarios/scenario.h"
#include "sim/search/plan_list.h"
#include "tests/search/search_jobs.h"

namespace megatwin::tests {
namespace {

using sim::SpaceKey;

model::Job gpt() { return job_from(yaml_of("gpt-7.5b", 2, "megatron-core", 64)); }

TEST(SearchSpace, FixedKeysKeepTheFilesValueAndListsReplaceTheRest) {
  model::Job job = gpt();
  job.plan.tensor = 4;
  const auto space = sim::search_space(
      job, {.fixed = {"tensor"},
            .candidates = {{"micro_batch", {"1", "2"}}, {"recompute", {"none", "full:3"}}}});
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(space->tensor, std::vector<int>{4});
  EXPECT_EQ(space->micro_batch, (std::vector<std::int64_t>{1, 2}));
  const sim::RecomputeChoice three{model::RecomputeKind::Full, 3};
  EXPECT_EQ(space->recompute, (std::vector<sim::RecomputeChoice>{{}, three}));
  EXPECT_EQ(space->pipeline, (std::vector<int>{1, 2, 4, 8, 16}));
}

TEST(SearchSpace, SaysEveryValueThatAKeyCannotTake) {
  const auto space = sim::search_space(
      gpt(), {.fixed = {"zero"},
              .candidates = {{"tensor", {"4", "four"}}, {"schedule", {"2f2b"}}, {"zero", {"1"}}}});
  ASSERT_FALSE(space.has_value());
  std::set<std::string> keys;
  for (const model::Diagnostic& fault : space.error()) keys.insert(fault.key);
  EXPECT_EQ(keys, (std::set<std::string>{"search.tensor", "search.schedule", "search.zero"}));
}

// In the file's own lines, and in no file where no file is to blame.
TEST(SearchSpace, SaysWhereAValueStands) {
  const auto places = [](const std::string& section, std::vector<std::string> set) {
    const auto scenario = scenarios::parse_scenario(
        "a.yaml", yaml_of("gpt-7.5b", 2, "megatron-core", 64) + section, {.set = std::move(set)});
    EXPECT_TRUE(scenario.has_value());
    const auto space = sim::search_space(scenario->jobs.front(), *scenario->search);
    EXPECT_FALSE(space.has_value());
    std::vector<std::string> found;
    for (const model::Diagnostic& fault : space.error()) {
      found.push_back(fault.file + ":" + std::to_string(fault.line) + ":" +
                      std::to_string(fault.column) + " " + fault.key + " " + fault.message);
    }
    return found;
  };
  EXPECT_EQ(
      places("search:\n  tensor: [4, x]\n  zero: y\n  fix: [pipeline]\n  pipeline: [2]\n", {}),
      (std::vector<std::string>{"a.yaml:6:15 search.tensor 'x' is no value of it",
                                "a.yaml:9:13 search.pipeline is fixed and listed at once",
                                "a.yaml:7:9 search.zero 'y' is no value of it"}));
  const std::vector<std::string> by_option = places("", {"search={tensor: [], zero: [1, z]}"});
  ASSERT_EQ(by_option.size(), 2u);
  EXPECT_TRUE(by_option[0].starts_with("--set:")) << by_option[0];
  EXPECT_TRUE(by_option[1].starts_with("--set:")) << by_option[1];
}

// Every combination of the values, asked one by one, against the walk that skips whole branches:
// the same plans, each meaning listed once.
TEST(PlanList, ListsEveryLegalPlanOnce) {
  const model::Job job = gpt();
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = {1, 2};
  space.pipeline = {1, 2, 3, 4};
  space.model_chunks = {1, 2, 3};
  space.context = {1, 2};
  space.micro_batch = {1, 4};
  space.recompute = {{}, {model::RecomputeKind::Full}, {model::RecomputeKind::Full, 9}};
  space.zero = {0, 1, 2};
  space.overlap_p2p = {false, true};
  space.rank_order = {job.plan.rank_order};  // The test below is of placements.

  const auto meaning = [](const model::Plan& plan) {
    std::string text;
    for (int i = 0; i < sim::kNumSpaceKeys; ++i) {
      const auto key = static_cast<SpaceKey>(i);
      const bool no_pipeline =
          plan.pipeline == 1 && (key == SpaceKey::Schedule || key == SpaceKey::OverlapP2p);
      const bool no_traffic = key == SpaceKey::OverlapParamGather && plan.zero_stage == 0;
      const bool no_cut = key == SpaceKey::SequenceParallel && plan.tensor == 1;
      const bool no_overlap =
          key == SpaceKey::OverlapTensorParallel && !(plan.sequence_parallel && plan.tensor > 1);
      if (no_pipeline || no_traffic || no_cut || no_overlap) continue;
      text += value_text(plan, key) + " ";
    }
    return text;
  };

  std::set<std::string> expected;
  std::function<void(sim::PlanCode, int)> choose = [&](sim::PlanCode code, int key) {
    if (key < sim::kNumSpaceKeys) {
      const std::vector<std::size_t> sizes = {space.tensor.size(),
                                              space.pipeline.size(),
                                              space.model_chunks.size(),
                                              space.context.size(),
                                              space.expert.size(),
                                              space.expert_tensor.size(),
                                              1,
                                              space.micro_batch.size(),
                                              space.global_batch.size(),
                                              space.sequence_parallel.size(),
                                              space.zero.size(),
                                              space.recompute.size(),
                                              space.precision.size(),
                                              space.dispatcher.size(),
                                              space.schedule.size(),
                                              space.overlap_grad_reduce.size(),
                                              space.overlap_param_gather.size(),
                                              space.overlap_tensor_parallel.size(),
                                              space.overlap_p2p.size(),
                                              space.rank_order.size(),
                                              space.layers.size()};
      for (std::size_t i = 0; i < sizes[static_cast<std::size_t>(key)]; ++i) {
        code.index[static_cast<std::size_t>(key)] = static_cast<std::uint16_t>(i);
        choose(code, key + 1);
      }
      return;
    }
    const model::Plan plan = sim::plan_of(job, space, code);
    if (plan.data == 0) return;
    if (plan.model_chunks == 1 && (plan.schedule == model::ScheduleKind::Interleaved ||
                                   plan.schedule == model::ScheduleKind::ZeroBubbleV)) {
      return;  // Plain 1F1B under another name.
    }
    const bool all_layers =
        std::int64_t{plan.recompute_layers} * plan.pipeline * plan.model_chunks >=
        job.transformer.num_layers;
    if (plan.recompute_layers > 0 && all_layers) return;
    // Chunks of unequal numbers of layers, where 2 or 3 a rank would be equal.
    const auto divides = [&](int chunks) { return 36 % (chunks * plan.pipeline) == 0; };
    if (plan.model_chunks > 1 && plan.schedule == model::ScheduleKind::Interleaved &&
        !plan.layers_per_virtual_stage.empty() && !divides(plan.model_chunks) &&
        (divides(2) || divides(3))) {
      return;
    }
    if (plan.data * plan.context == 1 && code[SpaceKey::Zero] > 0) return;
    if (!model::check_plan(job.transformer, plan, job.cluster, job.software).empty()) return;
    expected.insert(meaning(plan));
  };
  choose({}, 0);

  std::set<std::string> listed;
  for (const ListedPlan& entry : all_plans(job, space)) {
    EXPECT_TRUE(model::check_plan(job.transformer, entry.plan, job.cluster, job.software).empty());
    EXPECT_EQ(meaning(sim::plan_of(job, space, entry.code)), meaning(entry.plan));
    EXPECT_TRUE(listed.insert(meaning(entry.plan)).second) << meaning(entry.plan);
  }
  EXPECT_EQ(listed, expected);
  EXPECT_GT(listed.size(), 300U);
}

// Of the rank orders that put every rank in the same place only the first is listed, and no other
// placement is lost: by the coordinates of all ranks.
TEST(PlanList, ListsEveryPlacementOnce) {
  const model::Job job = job_from(yaml_of("mixtral-8x7b", 2, "megatron-core", 32, "dgx-h100"));
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = {1, 2};
  space.pipeline = {1, 2};
  space.context = {1, 2};
  space.expert = {1, 4};
  space.expert_tensor = {0};
  space.micro_batch = {1};
  space.zero = {1};
  space.recompute = {{}};
  space.schedule = {model::ScheduleKind::OneForwardOneBackward};
  space.model_chunks = {1};
  space.sequence_parallel = {true};
  for (auto* overlap : {&space.overlap_grad_reduce, &space.overlap_param_gather,
                        &space.overlap_tensor_parallel, &space.overlap_p2p}) {
    *overlap = {false};
  }
  space.rank_order = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "dp-pp-ep-cp-tp"};
  const auto placement = [](const model::Plan& plan) {
    std::string text;
    const model::RankLayout layout(plan);
    for (int rank = 0; rank < plan.gpus(); ++rank) {
      const model::RankCoordinates at = layout.coordinates({rank});
      for (const int part : {at.tensor, at.context, at.data, at.pipeline, at.expert_tensor,
                             at.expert, at.expert_data}) {
        text += std::to_string(part) + ",";
      }
    }
    return std::to_string(plan.expert) + ":" + text;
  };
  std::set<std::string> listed, expected;
  std::set<std::string> orders;
  for (const ListedPlan& entry : all_plans(job, space)) {
    EXPECT_TRUE(listed.insert(placement(entry.plan)).second) << entry.plan.rank_order;
    orders.insert(entry.plan.rank_order);
    model::Plan plan = entry.plan;
    for (const std::string& order : space.rank_order) {
      plan.rank_order = order;
      expected.insert(placement(plan));
    }
  }
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(orders.size(), 3U);
}

TEST(SearchSpace, RankOrdersAreListedOrRefused) {
  const auto read = [&](const std::vector<std::string>& orders) {
    return sim::search_space(gpt(), {.fixed = {}, .candidates = {{"rank_order", orders}}});
  };
  const auto space = read({"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"});
  ASSERT_TRUE(space.has_value());
  EXPECT_EQ(space->rank_order.size(), 2U);
  const auto bad = read({"tp-dp-pp"});
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().front().key, "search.rank_order");
}

// 36 layers on 8 stages: neither 36 nor 38 divides, so that stages get 4 or 5; none is dropped.
TEST(PlanList, DealsLayersThatDoNotDivide) {
  const model::Job job = gpt();
  model::Plan plan = job.plan;
  plan.pipeline = 8;
  sim::deal_layers(job, job.plan, sim::LayerSplit::Even, plan);
  ASSERT_EQ(plan.layers_per_virtual_stage.size(), 8U);
  int sum = 0;
  for (const int layers : plan.layers_per_virtual_stage) sum += layers;
  EXPECT_EQ(sum, 36);
  EXPECT_TRUE(model::is_layer_split_legal(job.transformer, plan));
}

// 61 layers (prime) on 8 stages: evenly, and with fewer where the head is. Neither 61, 62 nor 63
// divides by 8 or 16, so that interleaving has unequal chunks or none.
TEST(PlanList, PrimeLayerCountsAreSplitEvenlyByWorkAndIntoChunks) {
  model::Job job = gpt();
  job.transformer.num_layers = 61;
  sim::SearchSpace space = sim::whole_space(job);
  space.pipeline = {8};
  space.model_chunks = {1, 2, 4};
  std::map<int, std::set<std::vector<int>>> splits;
  for (const ListedPlan& entry : all_plans(job, space)) {
    const std::vector<int>& layers = entry.plan.layers_per_virtual_stage;
    ASSERT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 61);
    splits[entry.plan.model_chunks].insert(layers);
  }
  EXPECT_EQ(splits[1],
            (std::set<std::vector<int>>{{7, 8, 8, 8, 8, 8, 7, 7}, {7, 7, 8, 8, 8, 8, 8, 7}}));
  EXPECT_EQ(splits[2].size(), 1U);
  EXPECT_EQ(splits[4].size(), 1U);
  space.layers = {sim::LayerSplit::Even};
  for (const ListedPlan& entry : all_plans(job, space)) EXPECT_EQ(entry.plan.model_chunks, 1);
}

// The split of the file stays where its shape is kept, whatever else is tried.
TEST(PlanList, TheFilesOwnSplitIsOneOfThem) {
  model::Job job = gpt();
  job.plan.pipeline = 4;
  job.plan.layers_per_virtual_stage = {12, 10, 8, 6};
  sim::SearchSpace space = sim::whole_space(job);
  space.pipeline = {2, 4};
  space.model_chunks = {1};
  space.schedule = {job.plan.schedule};
  std::set<std::string> texts;
  for (const ListedPlan& entry : all_plans(job, space)) {
    if (entry.plan.pipeline == 4) texts.insert(value_text(entry.plan, SpaceKey::Layers));
  }
  EXPECT_TRUE(texts.contains("12, 10, 8, 6"));
  const auto fixed = sim::search_space(job, {.fixed = {"layers_per_stage"}, .candidates = {}});
  ASSERT_TRUE(fixed.has_value());
  EXPECT_EQ(fixed->layers, std::vector<sim::LayerSplit>{sim::LayerSplit::Even});
}

}  // namespace
}  // namespace megatwin::tests
