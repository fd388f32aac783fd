// The search as a whole: pruned against exhaustive, one thread against several, reasons that hold.
#include "sim/search/search.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "sim/search/best_plan.h"
#include "sim/search/energy_front.h"
#include "sim/search/impossible_wish.h"
#include "sim/search/loser_reasons.h"
#include "sim/search/what_if.h"
#include "sim/simulate.h"
#include "tests/search/search_jobs.h"
#include "tests/sim/seeds.h"

namespace megatwin::tests {
namespace {

// Ranking alone: no reports, no losers.
std::vector<std::pair<sim::PlanCode, std::int64_t>> best_of(const model::Job& job,
                                                            const sim::SearchSpace& space,
                                                            bool exhaustive) {
  const model::Bytes limit = job.cluster.groups.front().gpu.memory_usable;
  sim::Candidates candidates(job, space, limit, 2);
  candidates.enumerate({});
  if (exhaustive) {
    candidates.evaluate_all({});
  } else {
    candidates.evaluate_best(10, {});
  }
  std::vector<std::pair<sim::PlanCode, std::int64_t>> best;
  for (const std::size_t place : candidates.ranking()) {
    if (best.size() == 10) break;
    const sim::Candidate& candidate = candidates.fitting()[place];
    best.emplace_back(candidate.code, candidate.time.ns);
  }
  return best;
}

TEST(SearchProperty, PrunedIsExhaustiveOn200RandomSpaces) {
  const std::vector<model::Job> jobs = {
      job_from(yaml_of("gpt-7.5b", 2, "megatron-core", 64)),
      job_from(yaml_of("llama-2-13b", 2, "megatron-core", 32)),
      job_from(yaml_of("mixtral-8x7b", 2, "megatron-core", 32, "dgx-h100"))};
  std::size_t plans = 0;
  for (const std::uint64_t seed : seeds(200)) {
    Dice dice(seed);
    const model::Job& job = jobs[seed % jobs.size()];
    sim::SearchSpace space = small_space(job, dice);
    const std::int64_t batch = job.plan.global_batch;
    if (seed % 2 == 1) space.global_batch = {batch / 2, batch, 2 * batch};
    const auto pruned = best_of(job, space, false);
    ASSERT_EQ(pruned, best_of(job, space, true)) << rerun_line("search_property_test", seed);
    plans += pruned.size();
  }
  EXPECT_GT(plans, 200U);
}

TEST(SearchProperty, NoPlanThatWasPrunedBeatsTheWinner) {
  const model::Job job = job_from(yaml_of("gpt-7.5b", 2, "megatron-core", 64));
  const sim::SearchSpace space = sim::whole_space(job);
  const model::Bytes limit = job.cluster.groups.front().gpu.memory_usable;
  sim::Candidates candidates(job, space, limit, 2);
  candidates.enumerate({});
  candidates.evaluate_best(10, {});
  const model::Instant tenth = candidates.fitting()[candidates.ranking()[9]].time;
  std::vector<std::size_t> pruned;
  for (std::size_t i = 0; i < candidates.fitting().size(); ++i) {
    if (!candidates.fitting()[i].evaluated) pruned.push_back(i);
  }
  Dice dice(1);
  std::vector<std::size_t> drawn;
  while (drawn.size() < 1000 && !pruned.empty()) {
    const auto i = static_cast<std::size_t>(dice.below(static_cast<int>(pruned.size())));
    drawn.push_back(pruned[i]);
    pruned[i] = pruned.back();
    pruned.pop_back();
  }
  ASSERT_EQ(drawn.size(), 1000U);
  candidates.evaluate(drawn);
  for (const std::size_t place : drawn) EXPECT_GE(candidates.fitting()[place].time, tenth);
}

class SearchAnswer : public ::testing::Test {
 protected:
  static const model::Job& job() {
    static const model::Job the_job = job_from(yaml_of("llama-2-13b", 2, "megatron-core", 64));
    return the_job;
  }
  static sim::SearchSpace space() {
    sim::SearchSpace space = sim::whole_space(job());
    space.model_chunks = {1, 2, 5};
    space.recompute = {{}, {model::RecomputeKind::Full}};
    return space;
  }
  static const sim::SearchResult& result() {
    static const sim::SearchResult the_result = sim::search(job(), space(), {.num_threads = 2});
    return the_result;
  }
};

TEST_F(SearchAnswer, TheBestTenComeOutOfSimulateToTheBit) {
  ASSERT_EQ(result().best.size(), 10U);
  for (const sim::FoundPlan& found : result().best) {
    const auto again = sim::report_of_plan(job(), found.report.plan, {.sensitivities = false});
    EXPECT_EQ(again.step_time.value, found.report.step_time.value);
    EXPECT_TRUE(found.report.fits);
    EXPECT_EQ(found.depth, "events");
  }
  EXPECT_TRUE(std::is_sorted(
      result().best.begin(), result().best.end(),
      [](const auto& a, const auto& b) { return a.report.step_time < b.report.step_time; }));
}

// A newcomer read "23,761 fit; 24,181 evaluated": the front's second runs and the single switches
// were counted among the plans.
TEST_F(SearchAnswer, EvaluatedOfThoseThatFitAreCountedApart) {
  const auto& evaluated = result().evaluated;
  std::int64_t plans = 0;
  for (const sim::Candidate& plan : result().plans) plans += plan.evaluated ? 1 : 0;
  EXPECT_EQ(evaluated.of_fitting, plans);
  EXPECT_LE(evaluated.of_fitting, result().fit);
  EXPECT_EQ(evaluated.baseline, 1);
  EXPECT_GE(evaluated.front, static_cast<std::int64_t>(result().front.size()));
  std::int64_t legal = 0;
  for (const sim::SwitchEffect& effect : result().switches) legal += effect.step_time ? 1 : 0;
  EXPECT_EQ(evaluated.switches, legal);
  EXPECT_EQ(evaluated.dataflow, plans + 1 + evaluated.front + legal);
  EXPECT_EQ(evaluated.events, 10);
}

// The file's own plan is simulated although nothing fits: "0 fit; 1 evaluated".
TEST(SearchCounts, OfNothingThatFitsAreTheFilesOwnPlan) {
  const model::Job job = job_from(yaml_of("gpt3-175b", 1, "megatron-core", 8));
  sim::SearchSpace space = sim::whole_space(job);
  space.micro_batch = {1};
  space.recompute = {{}};
  const auto found = sim::search(job, space, {.num_threads = 2});
  ASSERT_TRUE(found.impossible.has_value());
  EXPECT_EQ(found.fit, 0);
  EXPECT_EQ(found.evaluated.of_fitting, 0);
  EXPECT_EQ(found.evaluated.baseline, 1);
  EXPECT_EQ(found.evaluated.dataflow, 1);
}

TEST_F(SearchAnswer, EveryLoserWinsWithoutItsReason) {
  const model::Seconds winner = result().best.front().report.step_time;
  const model::Plan& best = result().best.front().report.plan;
  for (const sim::Loser& loser : result().losers) {
    EXPECT_GT(loser.too_slow ? loser.too_slow->value : loser.too_large->value, 0) << loser.reason;
  }
  int tried = 0;
  for (const sim::Loser& loser : result().losers) {
    if (tried == 20) break;
    if (!loser.too_slow) {
      EXPECT_GT(*loser.too_large, model::Bytes{0});
      continue;
    }
    const std::set<std::string> terms(loser.terms.begin(), loser.terms.end());
    const auto effects = sim::effects_without(terms);
    ASSERT_TRUE(effects.has_value());
    const auto report =
        sim::report_of_plan(job(), loser.plan, {.effects = *effects, .sensitivities = false});
    EXPECT_LT(report.step_time, winner) << loser.reason;
    // The size is what decides: what the winner pays for the same terms is taken off.
    const auto winners =
        sim::report_of_plan(job(), best, {.effects = *effects, .sensitivities = false});
    const model::Seconds cost = *loser.step_time - report.step_time;
    const model::Seconds winners_cost = winner - winners.step_time;
    EXPECT_NEAR(loser.too_slow->value, (cost - winners_cost).value, 1e-9);
    if (report.step_time <= winners.step_time) {
      EXPECT_GE(loser.too_slow->value, (*loser.step_time - winner).value - 1e-9) << loser.reason;
    }
    EXPECT_GT(loser.too_slow->value, 0) << loser.reason;
    ++tried;
  }
  EXPECT_EQ(tried, 20);
}

// What the winner pays alike is no reason.
TEST_F(SearchAnswer, NoReasonIsOneThatTheWinnerShares) {
  const model::Plan& winner = result().best.front().report.plan;
  const auto time_without = [&](const model::Plan& plan, const std::set<std::string>& terms) {
    return sim::report_of_plan(job(), plan,
                               {.effects = *sim::effects_without(terms), .sensitivities = false})
        .step_time;
  };
  int tried = 0;
  for (const sim::Loser& loser : result().losers) {
    if (loser.terms.empty()) continue;
    for (const std::string& term : loser.terms) {
      EXPECT_GT(time_without(loser.plan, {}) - time_without(loser.plan, {term}),
                time_without(winner, {}) - time_without(winner, {term}))
          << loser.reason;
    }
    // It wins also when they are taken off from both, unless something else is said to be left.
    if (loser.reason.find("besides") == std::string::npos) {
      const std::set<std::string> terms(loser.terms.begin(), loser.terms.end());
      EXPECT_LE(time_without(loser.plan, terms), time_without(winner, terms)) << loser.reason;
    }
    ++tried;
  }
  EXPECT_GE(tried, 20);
}

// A placement that tears tensor-parallel groups apart, listed in the file's `search:`, loses by
// just that, and by how much is said; every placement comes out as simulate has it, to the bit.
TEST(SearchPlacement, ABadOrderLosesByTheTrafficThatItMakesLong) {
  const auto scenario = scenario_from(
      yaml_of("llama-2-13b", 4, "megatron-core", 64) +
      "search: {rank_order: [tp-cp-ep-dp-pp, tp-cp-ep-pp-dp, pp-dp-ep-cp-tp], tensor: [4, 8],\n"
      "  context: [1], micro_batch: [1, 2], model_chunks: [1, 2], recompute: [none]}\n");
  const model::Job& job = scenario.jobs.front();
  const auto space = sim::search_space(job, *scenario.search);
  ASSERT_TRUE(space.has_value());
  const auto found = sim::search(job, *space, {.num_threads = 2});
  const auto every = sim::search(job, *space, {.num_threads = 2, .exhaustive = true});
  ASSERT_EQ(found.best.size(), 10U);
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const auto again =
        sim::report_of_plan(job, found.best[i].report.plan, {.sensitivities = false});
    EXPECT_EQ(again.step_time.value, found.best[i].report.step_time.value);
    EXPECT_EQ(every.best[i].report.step_time.value, found.best[i].report.step_time.value);
    EXPECT_EQ(every.best[i].report.plan.rank_order, found.best[i].report.plan.rank_order);
    EXPECT_NE(found.best[i].report.plan.rank_order, "pp-dp-ep-cp-tp");
  }
  int bad = 0;
  for (const sim::Loser& loser : found.losers) {
    if (loser.plan.rank_order != "pp-dp-ep-cp-tp") continue;
    ++bad;
    ASSERT_FALSE(loser.terms.empty());
    EXPECT_EQ(loser.terms.front(), "tensor") << loser.reason;
    EXPECT_GT(*loser.too_slow, model::Seconds{0});
  }
  EXPECT_GE(bad, 1);
  bool switched = false;
  for (const sim::SwitchEffect& effect : found.switches) {
    if (effect.to != "pp-dp-ep-cp-tp") continue;
    switched = true;
    EXPECT_GT(*effect.step_time, found.best.front().plain_time);
  }
  EXPECT_TRUE(switched);
}

// Llama 3 8B's head is worth more than two of its layers: by work the last of 8 stages gets fewer,
// and that wins over the even split, which is told among the losers and switches.
TEST(SearchSplit, LayersDealtByWorkBeatAnEvenSplit) {
  const auto scenario =
      scenario_from(yaml_of("llama-3-8b", 2, "megatron-core", 64) +
                    "search: {pipeline: [8], tensor: [1, 2], model_chunks: [1], context: [1]}\n");
  const model::Job& job = scenario.jobs.front();
  const auto space = sim::search_space(job, *scenario.search);
  ASSERT_TRUE(space.has_value());
  const auto found = sim::search(job, *space, {.num_threads = 2});
  ASSERT_FALSE(found.best.empty());
  const sim::SimulationReport& best = found.best.front().report;
  ASSERT_EQ(best.plan.layers_per_virtual_stage.size(), 8U);
  EXPECT_LT(best.plan.layers_per_virtual_stage.back(), 4);
  bool switched = false;
  for (const sim::SwitchEffect& effect : found.switches) {
    if (effect.key != sim::SpaceKey::Layers || effect.to != "even") continue;
    switched = true;
    EXPECT_GT(*effect.step_time, 1.05 * found.best.front().plain_time);
  }
  EXPECT_TRUE(switched);
  const bool told = std::any_of(found.losers.begin(), found.losers.end(), [](const auto& loser) {
    return loser.plan.layers_per_virtual_stage.empty();
  });
  EXPECT_TRUE(told);
}

// The front against every plan of a small space, each simulated: nothing outside it is faster,
// leaner and thriftier than all of it by more than the slack; and no plan needs less energy than
// its bound.
TEST(SearchFront, OfTimeMemoryAndEnergyIsThatOfEveryPlan) {
  const model::Job job = job_from(yaml_of("llama-3-8b", 2, "megatron-core", 64));
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = {1, 2, 4};
  space.pipeline = {1, 2, 4};
  space.model_chunks = {1, 2};
  space.micro_batch = {1, 2};
  space.context = {1};
  space.recompute = {{}, {model::RecomputeKind::Full}};
  space.zero = {1};
  const model::Bytes limit = job.cluster.groups.front().gpu.memory_usable;
  constexpr double kSlack = 0.01;
  sim::Candidates candidates(job, space, limit, 2);
  candidates.enumerate({});
  const sim::PlanReports reports(job, job, limit);
  const sim::EnergyFront front =
      sim::energy_front(job, candidates, reports, {.slack = kSlack, .simulated_max = 100'000});
  EXPECT_TRUE(front.complete);
  EXPECT_LT(front.simulated, candidates.fitting().size() / 2);
  ASSERT_GT(candidates.fitting().size(), 300U);
  for (const sim::Candidate& candidate : candidates.fitting()) {
    const auto report =
        sim::report_of_plan(job, candidates.plan(candidate), {.sensitivities = false});
    EXPECT_LE(candidate.energy_bound, report.energy_per_step);
    const bool covered =
        std::any_of(front.points.begin(), front.points.end(), [&](const sim::FrontPoint& point) {
          return point.time <= report.step_time &&
                 point.memory <= (1 + kSlack) * (1 + kSlack) * report.memory_peak &&
                 point.energy.value <= (1 + kSlack) * (1 + kSlack) * report.energy_per_step.value;
        });
    EXPECT_TRUE(covered) << report.step_time.value << " s, " << report.memory_peak.value;
  }
  const auto few = sim::energy_front(job, candidates, reports, {.slack = 0, .simulated_max = 3});
  EXPECT_FALSE(few.complete);
}

// The file asks for dpp: its own plan is the baseline, dpp runs with the sizes of the best fixed
// orders, each as simulate has it, and the answer says what was left out.
TEST(SearchDecided, DynamicPipelinesAreSimulatedForTheBestSizes) {
  const std::string yaml =
      "model: {name: llama-2-13b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 2}]}\n"
      "plan: {tensor: 2, pipeline: 4, model_chunks: 2, data: auto, micro_batch: 1,"
      " global_batch: 64}\n"
      "policy: {schedule: dpp}\n"
      "search: {pipeline: [2, 4], context: [1], model_chunks: [1, 2, 4], micro_batch: [1]";
  const auto search_of = [](const std::string& text) {
    const auto scenario = scenario_from(text);
    const auto space = sim::search_space(scenario.jobs.front(), *scenario.search);
    EXPECT_TRUE(space.has_value());
    return sim::search(scenario.jobs.front(), *space, {.num_threads = 2});
  };
  const auto found = search_of(yaml + "}\n");
  ASSERT_TRUE(found.baseline.has_value());
  EXPECT_EQ(found.baseline->report.plan.schedule, model::ScheduleKind::DynamicAdaptive);
  EXPECT_EQ(found.baseline->depth, "events");
  EXPECT_EQ(found.evaluated.events, 20);
  ASSERT_FALSE(found.not_searched.empty());
  EXPECT_NE(found.not_searched.front().find("policy.schedule dpp"), std::string::npos);
  const model::Job job = job_from(yaml + "}\n");
  int decided = 0;
  const auto check = [&](const model::Plan& plan, model::Seconds time) {
    if (plan.schedule != model::ScheduleKind::DynamicAdaptive) return;
    ++decided;
    EXPECT_EQ(sim::report_of_plan(job, plan, {.sensitivities = false}).step_time, time);
  };
  for (const auto& plan : found.best) check(plan.report.plan, plan.report.step_time);
  for (const auto& loser : found.losers)
    check(loser.plan, loser.step_time.value_or(model::Seconds{}));
  EXPECT_GE(decided, 1);
  EXPECT_TRUE(std::is_sorted(
      found.best.begin(), found.best.end(),
      [](const auto& a, const auto& b) { return a.report.step_time < b.report.step_time; }));
  // Static orders alone: the file's dpp still is the baseline, and that it is not searched is said.
  const auto fixed = search_of(yaml + ", schedule: [1f1b, interleaved]}\n");
  EXPECT_EQ(fixed.baseline->report.step_time, found.baseline->report.step_time);
  ASSERT_FALSE(fixed.not_searched.empty());
  EXPECT_NE(fixed.not_searched.front().find("not among search.schedule"), std::string::npos);
  // Nothing of the kind in a search without it.
  EXPECT_TRUE(sim::search(job_from(yaml_of("llama-2-13b", 2, "megatron-core", 64)),
                          sixteen_gpu_space({1}), {.num_threads = 2, .num_losers = 0})
                  .not_searched.empty());
}

// Decoupling needs the two sides of the file. With them the file's plan is the baseline, and plans
// of the same sides fill the cluster.
TEST(SearchDecided, DecouplingNeedsTheSidesOfTheFile) {
  const std::string plain = yaml_of("llama-2-13b", 2, "megatron-core", 64);
  const auto without = scenario_from(plain + "search: {schedule: [1f1b, fbd]}\n");
  const auto refused = sim::search_space(without.jobs.front(), *without.search);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().front().allowed.find("forward"), std::string::npos);
  const auto scenario = scenario_from(
      "model: {name: llama-2-13b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 2}]}\n"
      "plan: {tensor: 2, pipeline: 4, data: auto, micro_batch: 1, global_batch: 64}\n"
      "policy: {schedule: fbd, feed: activations}\n"
      "search: {schedule: [1f1b, fbd], context: [1], micro_batch: [1, 2]}\n");
  const model::Job& job = scenario.jobs.front();
  const auto space = sim::search_space(job, *scenario.search);
  ASSERT_TRUE(space.has_value());
  const auto found = sim::search(job, *space, {.num_threads = 2});
  ASSERT_TRUE(found.baseline.has_value());
  EXPECT_EQ(found.baseline->report.plan.schedule, model::ScheduleKind::Decoupled);
  bool told = false;
  for (const sim::Loser& loser : found.losers) {
    if (loser.plan.schedule != model::ScheduleKind::Decoupled) continue;
    told = true;
    EXPECT_EQ(loser.plan.gpus(), 16);
    EXPECT_LE(*loser.step_time, found.baseline->plain_time);
    EXPECT_FALSE(loser.reason.empty());
  }
  EXPECT_TRUE(told);
}

// Two machines under each leaf and an eighth of the way up: the ten best are simulated over links
// and ordered by that, each as simulate does; what is said of all others stays without contention.
TEST_F(SearchAnswer, FinalistsAreSimulatedOverTheNetworkThatIsAskedFor) {
  model::Job narrow = job_from(
      "model: {name: llama-2-13b, sequence_length: 2048}\n"
      "cluster: {nodes: [{type: dgx-a100-80g, count: 8}], fabric: {type: fat-tree, levels: 2,"
      " nodes_per_leaf: 2, oversubscription: 8}}\n"
      "software: {framework: megatron-core}\nplan: {global_batch: 256}\n");
  sim::SearchSpace small = sim::whole_space(narrow);
  small.model_chunks = {1};
  small.recompute = {{}};
  sim::SearchOptions options{.num_threads = 2, .num_losers = 5};
  const auto plain = sim::search(narrow, small, options);
  narrow.network = model::NetworkKind::MaxMin;
  const auto checked = sim::search(narrow, small, options);
  ASSERT_EQ(checked.best.size(), plain.best.size());
  EXPECT_EQ(plain.best.front().depth, "events");
  bool delayed = false;
  for (const sim::FoundPlan& found : checked.best) {
    EXPECT_EQ(found.depth, "maxmin");
    const auto again = sim::report_of_plan(narrow, found.report.plan, {.sensitivities = false});
    EXPECT_EQ(again.step_time.value, found.report.step_time.value);
    delayed = delayed || found.report.step_time != found.plain_time;
  }
  EXPECT_TRUE(delayed);
  EXPECT_TRUE(std::is_sorted(
      checked.best.begin(), checked.best.end(),
      [](const auto& a, const auto& b) { return a.report.step_time < b.report.step_time; }));
  EXPECT_EQ(checked.front.front().report.step_time, plain.front.front().report.step_time);
  options.check = model::NetworkKind::Analytic;
  EXPECT_EQ(summary_of(sim::search(narrow, small, options)), summary_of(plain));
}

TEST_F(SearchAnswer, FinalistsWhoseNetworkCannotBeSimulatedSaySo) {
  model::Job cut = job();
  cut.disturbances = {{.kind = model::DisturbanceKind::SlowLink, .at = "n0/nic0", .to = "nowhere"}};
  const auto found = sim::search(cut, space(), {.num_threads = 2, .num_losers = 5});
  EXPECT_EQ(found.depth, "events with disturbances");
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const sim::SimulationReport& report = found.best[i].report;
    EXPECT_EQ(found.best[i].depth, "events");
    EXPECT_EQ(report.step_time, result().best[i].report.step_time);
    ASSERT_FALSE(report.warnings.empty());
    EXPECT_NE(report.warnings.back().find("nowhere"), std::string::npos) << report.warnings.back();
  }
}

// A slow GPU takes part in the check of the finalists, and in nothing else.
TEST_F(SearchAnswer, FinalistsAreSimulatedWithDisturbances) {
  const model::Job disturbed = job_from(yaml_of("llama-2-13b", 2, "megatron-core", 64) +
                                        "disturbances: [{kind: slow-gpu, rank: 3, factor: 1.3}]\n");
  const auto slow = sim::search(disturbed, space(), {.num_threads = 2, .num_losers = 5});
  ASSERT_EQ(slow.best.size(), result().best.size());
  EXPECT_EQ(slow.best.front().depth, "events with disturbances");
  for (const sim::FoundPlan& found : slow.best) {
    EXPECT_GT(found.report.step_time, found.plain_time);
  }
  EXPECT_EQ(slow.front.front().report.step_time, result().front.front().report.step_time);
}

TEST_F(SearchAnswer, IsTheSameForAnyNumberOfThreads) {
  const auto expected = summary_of(result());
  EXPECT_EQ(summary_of(sim::search(job(), space(), {.num_threads = 1})), expected);
  EXPECT_EQ(summary_of(sim::search(job(), space(), {.num_threads = 3})), expected);
}

TEST_F(SearchAnswer, NoPlanOfTheFrontBeatsAnother) {
  ASSERT_GE(result().front.size(), 2U);
  for (std::size_t i = 1; i < result().front.size(); ++i) {
    const auto& later = result().front[i].report;
    for (std::size_t j = 0; j < i; ++j) {
      const auto& faster = result().front[j].report;
      EXPECT_LE(faster.step_time, later.step_time);
      EXPECT_TRUE(faster.memory_peak > later.memory_peak ||
                  faster.energy_per_step > later.energy_per_step);
    }
  }
  EXPECT_EQ(result().front.front().report.step_time, result().best.front().report.step_time);
}

TEST_F(SearchAnswer, AMemoryMarginIsKept) {
  const auto careful = sim::search(job(), space(), {.num_threads = 2, .memory_margin = 0.5});
  ASSERT_FALSE(careful.best.empty());
  EXPECT_LT(careful.fit, result().fit);
  for (const sim::FoundPlan& found : careful.best) {
    EXPECT_LE(found.report.memory_peak, 0.5 * found.report.memory_limit);
  }
}

TEST_F(SearchAnswer, NoSwitchThatFitsImprovesTheBest) {
  const model::Seconds best = result().best.front().report.step_time;
  EXPECT_FALSE(result().switches.empty());
  for (const sim::SwitchEffect& effect : result().switches) {
    if (!effect.fits || effect.key == sim::SpaceKey::OverlapP2p) continue;
    EXPECT_GE(*effect.step_time, best) << name_of(effect.key) << " to " << effect.to;
  }
}

// Each change against a search of the changed job by itself; more memory never hurts, since every
// plan that fitted still does.
TEST_F(SearchAnswer, AnotherClusterBuysWhatASearchOnItFinds) {
  const auto changes = sim::what_if(job(), [](const model::Job& /*changed*/) { return space(); },
                                    {.num_threads = 2});
  ASSERT_EQ(changes.size(), 5U);
  const model::Seconds now = result().best.front().report.step_time;
  const auto& memory = changes[2];
  ASSERT_TRUE(memory.best.has_value());
  EXPECT_LE(memory.best->step_time, now) << memory.change;
  model::Job doubled = job();
  doubled.cluster.groups.front().count *= 2;
  const auto again = sim::search(doubled, space(), {.num_threads = 2, .num_losers = 0});
  ASSERT_TRUE(changes[4].best.has_value());
  EXPECT_EQ(changes[4].best->step_time, again.best.front().report.step_time);
}

// 175 billion parameters on 8 GPUs: 16 bytes each alone are 350 GB a GPU.
TEST(ImpossibleWish, ThatFitsNowhereNamesTheNearestAndMoreMachines) {
  const model::Job job = job_from(yaml_of("gpt3-175b", 1, "megatron-core", 64));
  const auto result = sim::search(job, sim::whole_space(job), {.num_threads = 2});
  EXPECT_GT(result.candidates, 0);
  EXPECT_EQ(result.fit, 0);
  ASSERT_TRUE(result.impossible.has_value());
  EXPECT_TRUE(result.impossible->nearest.has_value());
  ASSERT_FALSE(result.impossible->relaxations.empty());
  // SimAI's and aiconfigurator's reports want the number of GPUs: so many do, a machine less does
  // not.
  const std::string& what = result.impossible->relaxations.front().what;
  EXPECT_NE(what.find("machines instead of 1"), std::string::npos);
  const int machines = std::stoi(what.substr(what.find(": ") + 2));
  EXPECT_NE(what.find("(" + std::to_string(8 * machines) + " GPUs)"), std::string::npos) << what;
  model::Job larger = job;
  for (const bool fits : {true, false}) {
    larger.cluster.groups.front().count = fits ? machines : machines - 1;
    const auto best = sim::best_plan(larger, sim::whole_space(larger), {.num_threads = 2});
    EXPECT_EQ(best.has_value(), fits) << what;
  }
}

// 2.2 TB of states over 128 GPUs fit only when they are sharded or cut; fixing tensor, pipeline and
// ZeRO to nothing leaves one way out at a time.
TEST(ImpossibleWish, ThatTheSearchItselfForbidsNamesTheConstraint) {
  const model::Job job = job_from(yaml_of("gpt-18b", 4, "megatron-core", 64));
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = {1};
  space.zero = {0};
  space.pipeline = {1};
  const auto result = sim::search(job, space, {.num_threads = 2});
  ASSERT_TRUE(result.impossible.has_value());
  ASSERT_FALSE(result.impossible->relaxations.empty());
  for (const auto& relaxation : result.impossible->relaxations) {
    EXPECT_EQ(relaxation.what.rfind("search.", 0), 0U) << relaxation.what;
  }
}

// No A100 has fp8: with fewer machines and the same lists there is no plan either. Each way out
// that is named leads to a plan under the lists that stay.
TEST(ImpossibleWish, OnlyWaysOutThatWorkAreNamed) {
  const scenarios::Scenario scenario =
      scenario_from(yaml_of("llama-2-7b", 2, "megatron-core", 64) +
                    "search: {precision: [fp8], tensor: [2], pipeline: [1]}\n");
  const model::Job& job = scenario.jobs.front();
  const auto space = sim::search_space(job, *scenario.search);
  ASSERT_TRUE(space.has_value());
  const auto result = sim::search(job, *space, {.num_threads = 2});
  ASSERT_TRUE(result.impossible.has_value());
  EXPECT_FALSE(result.impossible->reasons.empty());
  ASSERT_EQ(result.impossible->relaxations.size(), 1U);
  const auto& way = result.impossible->relaxations.front();
  EXPECT_EQ(way.what, "search.precision: allow bf16");
  ASSERT_TRUE(way.plan.has_value());
  EXPECT_EQ(way.plan->tensor, 2);
  EXPECT_EQ(way.plan->pipeline, 1);
  EXPECT_EQ(way.plan->gpus(), 16);
}

// A batch that is searched: the least time a sequence wins, not the shortest step, and every plan
// that was evaluated agrees. Losers win without their terms by the same measure.
TEST(SearchBatch, IsRankedByTheTimeASequence) {
  const model::Job& job = sixteen_gpu_job();
  sim::SearchSpace space = sixteen_gpu_space({1, 2});
  space.global_batch = {32, 64, 128};
  space.context = {1};
  const auto found = sim::search(job, space, {.num_threads = 2, .exhaustive = true});
  const auto pace = [](const model::Plan& plan, model::Seconds time) {
    return time.value / static_cast<double>(plan.global_batch);
  };
  ASSERT_FALSE(found.best.empty());
  const sim::SimulationReport& first = found.best.front().report;
  const double best = pace(first.plan, first.step_time);
  for (const sim::Candidate& candidate : found.plans) {
    ASSERT_TRUE(candidate.evaluated);
    EXPECT_GE(candidate.step_time().value / static_cast<double>(candidate.batch), best - 1e-12);
  }
  // Bubbles, reductions and the optimizer are shared by more sequences.
  EXPECT_EQ(first.plan.global_batch, 128);
  EXPECT_TRUE(
      std::is_sorted(found.best.begin(), found.best.end(), [&](const auto& a, const auto& b) {
        return pace(a.report.plan, a.report.step_time) < pace(b.report.plan, b.report.step_time);
      }));
  int tried = 0;
  for (const sim::Loser& loser : found.losers) {
    if (loser.terms.empty() || loser.plan.global_batch == 128) continue;
    const auto effects = sim::effects_without({loser.terms.begin(), loser.terms.end()});
    const auto report =
        sim::report_of_plan(job, loser.plan, {.effects = *effects, .sensitivities = false});
    EXPECT_GT(pace(loser.plan, *loser.step_time), best);
    if (loser.reason.find("besides") == std::string::npos) {
      EXPECT_LT(pace(loser.plan, report.step_time), best) << loser.reason;
    }
    ++tried;
  }
  EXPECT_GE(tried, 1);
}

TEST_F(SearchAnswer, IsTheSameWhenEveryPlanIsEvaluated) {
  auto every = summary_of(sim::search(job(), space(), {.num_threads = 2, .exhaustive = true}));
  auto pruned = summary_of(result());
  every[2] = pruned[2] = "";  // How many were evaluated.
  EXPECT_EQ(every, pruned);
}

// Without tensor and pipeline ranks their switches turn nothing.
TEST(SearchSwitches, ThatMeanNothingAreLeftOut) {
  const model::Job job = job_from(yaml_of("gpt2", 1, "megatron-core", 64));
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = space.pipeline = {1};
  const auto found = sim::search(job, space, {.num_threads = 2, .num_losers = 0});
  ASSERT_FALSE(found.switches.empty());
  using sim::SpaceKey;
  const std::set<SpaceKey> idle = {SpaceKey::SequenceParallel, SpaceKey::OverlapTensorParallel,
                                   SpaceKey::OverlapP2p, SpaceKey::Schedule, SpaceKey::ModelChunks};
  for (const sim::SwitchEffect& effect : found.switches) {
    EXPECT_FALSE(idle.contains(effect.key)) << name_of(effect.key) << " to " << effect.to;
  }
}

// 3 and 5 do not divide 32 heads, so no pipeline or batch is to blame; of [3, 4] one could.
TEST(ImpossibleWish, NamesAKeyNoneOfWhoseValuesIsPossibleFirst) {
  const auto reasons = [](const std::string& tensor) {
    const auto scenario = scenario_from(yaml_of("llama-3-8b", 2, "megatron-core", 32) +
                                        "search: {tensor: " + tensor + ", pipeline: [3]}\n");
    const sim::SearchSpace space =
        sim::search_space(scenario.jobs.front(), *scenario.search).value();
    return sim::impossible_wish_of(scenario.jobs.front(), space, {}).reasons;
  };
  const auto named = reasons("[3, 5]");
  ASSERT_FALSE(named.empty());
  EXPECT_EQ(named.front(),
            "no value of search.tensor is possible: plan.tensor 3 does not divide the 32 attention "
            "heads");
  for (const std::string& reason : reasons("[3, 4]")) {
    EXPECT_EQ(reason.find("no value of search.tensor"), std::string::npos) << reason;
  }
}

// Lists that stay also bound what more machines may do.
TEST(ImpossibleWish, MoreMachinesKeepTheLists) {
  const model::Job job = job_from(yaml_of("gpt3-175b", 1, "megatron-core", 64));
  sim::SearchSpace space = sim::whole_space(job);
  space.tensor = {8};
  space.zero = {1};
  const auto result = sim::search(job, space, {.num_threads = 2});
  ASSERT_TRUE(result.impossible.has_value());
  for (const auto& way : result.impossible->relaxations) {
    if (way.what.rfind("cluster", 0) != 0) continue;
    EXPECT_EQ(way.plan->tensor, 8) << way.what;
    EXPECT_EQ(way.plan->zero_stage, 1) << way.what;
  }
}

// 31 layers (prime) on 16 GPUs with a pipeline of 4: an uneven split is found, nothing is dropped.
TEST(ImpossibleWish, PrimeLayerCountsAreSplitUnevenly) {
  model::Job job = job_from(yaml_of("gpt-7.5b", 2, "megatron-core", 64));
  job.transformer.num_layers = 31;
  sim::SearchSpace space = sim::whole_space(job);
  space.pipeline = {4};
  const auto result = sim::search(job, space, {.num_threads = 2, .num_losers = 0});
  ASSERT_FALSE(result.best.empty());
  const model::Plan& plan = result.best.front().report.plan;
  const auto& split = plan.layers_per_virtual_stage;
  int layers = 0;
  for (const int n : split) layers += n;
  EXPECT_TRUE(split.empty() ? plan.embedding_as_layer || plan.head_as_layer : layers == 31);
}

// 64 layers · heads are far fewer than 131,072 GPUs over a batch of 64: no replica gets a sequence.
TEST(ImpossibleWish, MoreGpusThanWorkIsRefusedWithTheBatchToTake) {
  const model::Job job = job_from(yaml_of("gpt2", 512, "megatron-core", 64));
  const auto result = sim::search(job, sim::whole_space(job), {.num_threads = 2, .num_losers = 0});
  ASSERT_TRUE(result.impossible.has_value() || !result.best.empty());
  if (result.impossible) {
    EXPECT_FALSE(result.impossible->reasons.empty());
    EXPECT_FALSE(result.impossible->relaxations.empty());
  }
}

}  // namespace
}  // namespace megatwin::tests
