// Published results of training on GPUs of several kinds beside ours: every figure of
// docs/heterogeneous.md comes from a scenario file through simulate(). The page is written by
//   MEGATWIN_UPDATE_GOLDENS=1 build/dev/tests/golden/heterogeneous_test
// and held byte for byte; that the figures mean anything is checked here against closed forms.
#include "model/heterogeneous.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "model/decoupled_mapping.h"
#include "scenarios/scenario.h"
#include "sim/simulate.h"

namespace megatwin {
namespace {

namespace fs = std::filesystem;
using sim::SimulationReport;

std::string fixed(double value, int digits, bool sign = false) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << (sign ? std::showpos : std::noshowpos) << value;
  return std::move(out).str();
}
std::string seconds(model::Seconds time) { return fixed(time.value, 3) + " s"; }
std::string times(double ratio, int digits = 2) { return fixed(ratio, digits) + "×"; }
std::string mfu_text(double mfu) { return "MFU " + fixed(100 * mfu, 1) + " %"; }
// Of the first against the second.
std::string mfu_difference(double mfu, double other) {
  return fixed(100 * (mfu - other), 1, true) + " points (" +
         fixed(100 * (mfu / other - 1), 1, true) + " %)";
}

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
  return {seconds(found.step_time), seconds(even.step_time), times(ratio), times(bound)};
}

// Two files: what the first reaches against the second.
Comparison against_file(const std::string& file, const std::string& other) {
  const SimulationReport found = report_of(file), even = report_of(other);
  return {seconds(found.step_time), seconds(even.step_time),
          times(even.step_time.value / found.step_time.value), "–"};
}

// MFU lost against one kind of GPU of the same peak rate in all.
Comparison mfu_gap(const std::string& file, const std::string& other) {
  const SimulationReport mixed = report_of(file), alike = report_of(other);
  EXPECT_GT(mixed.mfu, 0.5 * alike.mfu) << file;
  return {mfu_text(mixed.mfu), mfu_text(alike.mfu), mfu_difference(mixed.mfu, alike.mfu), "–"};
}

// MFU lost by mixing: against the kinds alone, each weighted by the peak it brings.
Comparison against_kinds(const std::string& file, const std::vector<std::string>& alone) {
  const SimulationReport mixed = report_of(file);
  const model::Job job = job_of(file, false);
  double peak = 0, reached = 0;
  for (std::size_t kind = 0; kind < alone.size(); ++kind) {
    const model::NodeGroup& group = job.cluster.groups[kind];
    const double its = group.count * group.node.num_gpus *
                       group.gpu.peak_of(model::gemm_type(job.plan.precision)).value;
    peak += its;
    reached += its * report_of(alone[kind]).mfu;
  }
  const double weighted = reached / peak;
  EXPECT_LT(mixed.mfu, 1.05 * weighted) << file;
  return {mfu_text(mixed.mfu), mfu_text(weighted), mfu_difference(mixed.mfu, weighted), "–"};
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
       "Ours is time a step, theirs time to an accuracy with a parameter server and stale weights; "
       "only the cause is the same: gradients that stay in a machine."},
      {"AMP, NeurIPS 2022", "1.54× on heterogeneous clusters, 1.77× on uneven models",
       "amp-gpt2-v100-t4", against_even("amp-gpt2-v100-t4"),
       "Theirs is over other plans, ours over an even split of the same plan, on machines of ours. "
       "T4 "
       "is scaled by its data sheet. The head on its stage, the bubble of 32 micro-batches and 10 "
       "Gbit/s keep it from the closed form."},
      {"Metis, USENIX ATC 2024", "1.05 to 8.43× over other planners", "metis-gpt-a100-v100",
       against_even("metis-gpt-a100-v100"),
       "The upper end compares with planners whose plan is far off; an even split is not. Sizes, "
       "replicas and kinds are fixed here, and searched there."},
      {"HexiScale",
       "MFU within 0.3 % at best and 3.5 % in the mean of one kind with the same FLOP/s",
       "hexiscale-h100-a100 against hexiscale-a100-of-h100",
       mfu_gap("hexiscale-h100-a100", "hexiscale-a100-of-h100"),
       "The gap is not one of mixing: H100 reaches a smaller part of its peak on this plan, see "
       "the "
       "next row."},
      {"HexiScale", "as above",
       "hexiscale-h100-a100 against hexiscale-h100 and hexiscale-a100-of-h100",
       against_kinds("hexiscale-h100-a100", {"hexiscale-h100", "hexiscale-a100-of-h100"}),
       "Each kind alone, weighted by the peak that it brings to the mix."},
      {"HexiScale", "as above", "hexiscale-a100-v100 against hexiscale-a100",
       mfu_gap("hexiscale-a100-v100", "hexiscale-a100"),
       "V100 has no fused attention, and seven stages have a longer bubble than four."},
      {"HexiScale", "as above", "hexiscale-a100-v100 against hexiscale-a100 and hexiscale-v100",
       against_kinds("hexiscale-a100-v100", {"hexiscale-a100", "hexiscale-v100"}),
       "Each kind alone, weighted by its peak."},
      {"HexiSeq, 2026",
       "H100 with A100: 1.11× in the mean, 1.19× at most; simulated 1.36× and 1.72×",
       "hexiseq-h100-a100", against_even("hexiseq-h100-a100"),
       "How they split, and against what, is not in our source. Ours gives replicas whole "
       "sequences "
       "by their speed, against an even split."},
  };
}

std::string table_row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  return text + "\n";
}

// Forwards and backwards over the kinds of one pipeline of equal stages, each kind as good at
// either as its stages are.
std::string decoupling_text(const std::string& file) {
  const SimulationReport even = report_of(file, true);
  std::vector<model::DecoupledKind> kinds;
  std::vector<std::string> names;
  for (const sim::StageShare& stage : even.stages) {
    const auto known = std::find(names.begin(), names.end(), stage.gpu);
    if (known != names.end()) {
      ++kinds[static_cast<std::size_t>(known - names.begin())].ranks;
      continue;
    }
    names.push_back(stage.gpu);
    kinds.push_back(
        {1, (1.0 / stage.layers) * stage.forward, (1.0 / stage.layers) * stage.backward});
  }
  const model::DecoupledMapping best = model::best_mapping(kinds);
  const double coupled = model::coupled_period(kinds).value;
  EXPECT_LE(best.period.value, coupled * (1 + 1e-12));
  std::string text =
      "| kind | F of a layer | B of a layer | B / F | share of forwards | share of backwards |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const double forward = kinds[k].forward.value, backward = kinds[k].backward.value;
    text += table_row({names[k], fixed(1e3 * forward, 3) + " ms", fixed(1e3 * backward, 3) + " ms",
                       fixed(backward / forward, 2), fixed(100 * best.shares[k].forward, 0) + " %",
                       fixed(100 * best.shares[k].backward, 0) + " %"});
  }
  const double even_period = model::even_period(kinds).value;
  return text + "\nAgainst an even split of layers the best split of layers gains " +
         times(even_period / coupled, 3) + ", forwards and backwards by kind " +
         times(even_period / best.period.value, 3) + ".\n";
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
      "* `network: maxmin` or `simgrid` and `disturbances:` are refused where stages or replicas "
      "differ in kind, tensor size or number of\n  micro-batches: flows and slow ranks are laid "
      "out for equal replicas only.\n"
      "* Between kinds a message goes at the slower side's rate, across the spine. NCCL leaves "
      "LL128 "
      "out where one side is\n  older than Hopper.\n"
      "* Replicas on several kinds meet in the reduction of each stage: the slowest decides.\n"
      "* V100 runs attention unfused. A job with V100 is in fp16 unless precisions are given.\n"
      "* Schedules that decide while the step runs (`dpp`, a policy of your own) take all of this "
      "but `micro_batches_per_replica: auto`;\n  `fbd` gives each side a kind of its own, and "
      "takes "
      "layers as a list only.\n"
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
    text += table_row({row.system, row.published, row.files, row.ours.found, row.ours.even,
                       row.ours.ratio, row.ours.closed_form, row.reason});
  }
  text +=
      "\nThe published figures are as quoted by secondary sources for most of these systems; "
      "Whale, "
      "AMP, Metis and HetPipe were\nread as summaries, not as papers.\n";
  text +=
      "\n## Forwards and backwards on kinds of their own\n\n"
      "In closed form (`model/decoupled_mapping.h`), for the kinds of `metis-gpt-a100-v100`, with "
      "full recomputation inside B\nand without transfers. What decoupling gains beyond a split of "
      "layers is what the kinds differ in B / F.\n`policy.schedule: fbd` simulates it with "
      "transfers and memory, see fbd.md.\n\n";
  text += decoupling_text("metis-gpt-a100-v100");
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
