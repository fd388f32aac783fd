// Published results of training on GPUs of several kinds beside ours: every figure of
// docs/heterogeneous.md comes from a scenario file through simulate(). The page is written by
//   MEGATWIN_UPDATE_GOLDENS=1 build/dev/tests/golden/heterogeneous_test
// and held byte for byte; that the figures mean anything is checked here against closed forms.
#include "model/heterogeneous.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scenarios/scenario.h"
#include "sim/simulate.h"

namespace megatwin {
namespace {

namespace fs = std::filesystem;
using sim::SimulationReport;

constexpr const char* kFolder = "scenarios/heterogeneous/";
constexpr const char* kPage = "docs/heterogeneous.md";

model::Job job_of(const std::string& file, bool even) {
  auto jobs = scenarios::load_scenario(kFolder + file + ".yaml", {});
  EXPECT_TRUE(jobs.has_value()) << file;
  model::Job job = jobs->front();
  if (even) job.plan.layers_by_cost = job.plan.micro_batches_by_cost = false;
  return job;
}

SimulationReport report_of(const std::string& file, bool even = false) {
  const model::Job job = job_of(file, even);
  const auto answer = sim::simulate(job, {.sensitivities = false});
  if (const auto* report = std::get_if<SimulationReport>(&answer)) return *report;
  const auto& refusal = std::get<sim::PlanRefusal>(answer);
  ADD_FAILURE() << file << ": " << refusal.message
                << (refusal.reasons.empty() ? "" : "; " + refusal.reasons.front());
  return refusal.report.value_or(SimulationReport{});
}

// A whole pipeline's rate is that of its slowest stage; stages share layers, replicas share
// micro-batches. What an even split reaches of the summed rates is n · min f / Σ f.
double gain_by_closed_form(const SimulationReport& even) {
  std::set<int> replicas;
  for (const sim::StageShare& stage : even.stages) replicas.insert(stage.replica);
  std::vector<double> speeds;
  if (replicas.size() == 1) {
    for (const sim::StageShare& stage : even.stages) {
      speeds.push_back(stage.layers / (stage.forward + stage.backward).value);
    }
  } else {
    for (const int replica : replicas) {
      double slowest = 0;
      int alike = 1;
      for (const sim::StageShare& stage : even.stages) {
        if (stage.replica != replica) continue;
        slowest = std::max(slowest, (stage.forward + stage.backward).value);
        alike = stage.num_replicas;
      }
      speeds.insert(speeds.end(), static_cast<std::size_t>(alike), 1 / slowest);
    }
  }
  return 1 / model::even_split_utilization(speeds);
}

struct Comparison {
  std::string found, even, ratio, closed_form;
};

// Of one file: its splits found by cost against even ones.
Comparison against_even(const std::string& file) {
  const SimulationReport even = report_of(file, true), found = report_of(file);
  const double ratio = even.step_time.value / found.step_time.value;
  const double bound = gain_by_closed_form(even);
  EXPECT_GE(ratio, 1) << file;
  // Whole layers and micro-batches, the ends of the pipeline and traffic keep it from more.
  EXPECT_LE(ratio, 1.05 * bound) << file;
  return {fmt::format("{:.3f} s", found.step_time.value),
          fmt::format("{:.3f} s", even.step_time.value), fmt::format("{:.2f}×", ratio),
          fmt::format("{:.2f}×", bound)};
}

// Two files: what the first reaches against the second.
Comparison against_file(const std::string& file, const std::string& other) {
  const SimulationReport found = report_of(file), even = report_of(other);
  return {fmt::format("{:.3f} s", found.step_time.value),
          fmt::format("{:.3f} s", even.step_time.value),
          fmt::format("{:.2f}×", even.step_time.value / found.step_time.value), "–"};
}

// MFU lost against one kind of GPU of the same peak rate in all.
Comparison mfu_gap(const std::string& file, const std::string& other) {
  const SimulationReport mixed = report_of(file), alike = report_of(other);
  EXPECT_GT(mixed.mfu, 0.5 * alike.mfu) << file;
  return {fmt::format("MFU {:.1f} %", 100 * mixed.mfu),
          fmt::format("MFU {:.1f} %", 100 * alike.mfu),
          fmt::format("{:.1f} points less ({:.1f} %)", 100 * (alike.mfu - mixed.mfu),
                      100 * (1 - mixed.mfu / alike.mfu)),
          "–"};
}

struct Row {
  std::string system, published, files;
  Comparison ours;
  std::string reason;
};

std::vector<Row> rows() {
  return {
      {"Whale, USENIX ATC 2022",
       "1.2 to 1.4× by balancing the load by hardware (BERT-Large, "
       "ResNet-50, GNMT; P100 with V100)",
       "whale-bert-v100-p100", against_even("whale-bert-v100-p100"),
       "BERT-Large only; convolutions and LSTMs are not modelled. P100 is scaled from V100 by its "
       "data sheet. BERT is priced as a decoder of the same size, with one head over the "
       "vocabulary."},
      {"HetPipe, USENIX ATC 2020", "up to 49 % faster convergence than data parallelism",
       "hetpipe-pipeline against hetpipe-data", against_file("hetpipe-pipeline", "hetpipe-data"),
       "Ours is time a step, theirs time to an accuracy with a parameter server and stale weights "
       "on four kinds of desktop GPU; only the cause is the same: gradients that stay in a "
       "machine."},
      {"AMP, NeurIPS 2022", "1.54× on heterogeneous clusters, 1.77× on uneven models",
       "amp-gpt2-v100-t4", against_even("amp-gpt2-v100-t4"),
       "Theirs is against Megatron's hand-made plans over all parallel sizes, ours against an even "
       "split of the same plan. The machines are ours; their cluster is not stated in our source. "
       "T4 is scaled by its data sheet."},
      {"Metis, USENIX ATC 2024", "1.05 to 8.43× over other planners", "metis-gpt-a100-v100",
       against_even("metis-gpt-a100-v100"),
       "The upper end compares with planners whose plan is far off; an even split is not. Sizes, "
       "replicas and kinds are fixed here, and searched there."},
      {"HexiScale",
       "MFU within 0.3 % at best and 3.5 % in the mean of one kind with the same FLOP/s",
       "hexiscale-h100-a100 against hexiscale-a100-of-h100",
       mfu_gap("hexiscale-h100-a100", "hexiscale-a100-of-h100"),
       "H100 reaches a smaller part of its peak than A100, in any plan; that is part of the gap."},
      {"HexiScale", "as above", "hexiscale-a100-v100 against hexiscale-a100",
       mfu_gap("hexiscale-a100-v100", "hexiscale-a100"),
       "V100 has no fused attention and stores and reads the scores; and seven stages have a "
       "longer "
       "bubble than four. Theirs had no V100."},
      {"HexiSeq, 2026",
       "H100 with A100: 1.11× in the mean, 1.19× at most; simulated 1.36× and 1.72×",
       "hexiseq-h100-a100", against_even("hexiseq-h100-a100"),
       "They cut sequences unevenly inside a replica, we give replicas whole sequences. Against an "
       "even split; their baseline is tuned."},
  };
}

std::string page() {
  std::string text =
      "# Clusters of several kinds of GPU\n\n"
      "<!-- Written by tests/golden/heterogeneous_test.cpp; see there how. -->\n\n"
      "A scenario lists several kinds of machines, and ranks fill them in that order. With the "
      "usual `rank_order` pipeline\nstages stand on kinds; with `tp-cp-ep-pp-dp` replicas do. "
      "Every "
      "stage is priced with the profile, links, precision and\nmemory of its own kind.\n\n"
      "| key | does |\n| --- | --- |\n"
      "| `cluster.nodes: [{type: dgx-a100-80g, count: 4}, {type: dgx-1v-32g, count: 4}]` | kinds, "
      "in "
      "the order of their ranks |\n"
      "| `plan.layers_per_stage: auto` | layers of each stage, found by cost; or a list |\n"
      "| `plan.micro_batches_per_replica: auto` | micro-batches of each replica, found by cost; or "
      "a "
      "list |\n"
      "| `plan.tensor_per_stage: [8, 4, 4]` | a tensor size for each stage; the boundary reshards "
      "|\n"
      "| `plan.precision_per_group: [fp8, bf16]` | a precision for each entry of `cluster.nodes` "
      "|\n\n"
      "The report then has a line a stage: GPU, layers, micro-batches, times, idle share, memory "
      "against its own limit.\n\n"
      "## What holds\n\n"
      "* Tensor-, context- and expert-parallel groups stay on one kind; a plan that breaks this is "
      "refused with the reason.\n"
      "* Between kinds a message goes at the slower side's rate, across the spine. NCCL leaves "
      "LL128 "
      "out where one side is\n  older than Hopper.\n"
      "* Replicas on several kinds meet in the reduction of each stage: the slowest decides.\n"
      "* V100 runs attention unfused. A job with V100 is in fp16 unless precisions are given.\n"
      "* `search` and the host world take one kind only.\n\n"
      "## Published results beside ours\n\n"
      "All of ours are simulated, each from the file named, in `scenarios/heterogeneous/`. *Even* "
      "is "
      "the same job with even\nsplits, or the second file. *Closed form* is what whole use of all "
      "GPUs would gain over an even split: Σf / (n · min f)\nof the stages' or replicas' rates. "
      "None "
      "of the sources states enough to be repeated exactly, and nothing was fitted to them.\n\n"
      "| system | published | file | found | even | gain | closed form | why they differ |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Row& row : rows()) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", row.system, row.published,
                        row.files, row.ours.found, row.ours.even, row.ours.ratio,
                        row.ours.closed_form, row.reason);
  }
  text +=
      "\nThe published figures are as quoted by secondary sources for most of these systems; "
      "Whale, "
      "AMP, Metis and HetPipe were\nread as summaries, not as papers.\n";
  return text;
}

TEST(Heterogeneous, ThePageIsWhatTheScenariosGive) {
  const std::string text = page();
  if (std::getenv("MEGATWIN_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(kPage) << text;
    return;
  }
  std::ostringstream held;
  held << std::ifstream(kPage).rdbuf();
  EXPECT_TRUE(text == held.str()) << kPage << " moved; it is now:\n" << text;
}

TEST(Heterogeneous, EveryFileIsOnThePage) {
  std::ostringstream held;
  held << std::ifstream(kPage).rdbuf();
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    EXPECT_NE(held.str().find(entry.path().stem().string()), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace megatwin
