#include "tests/cli/report_fixture.h"

#include <algorithm>
#include <map>
#include <utility>

namespace megatwin::tests {
namespace {

using model::operator""_GiB;
using model::EventKind;
using model::Lane;

struct Step {
  bool forward = true;
  int micro_batch = 0;
  int chunk = 0;
};

// Megatron's interleaved order on `stage`: groups of p micro-batches per chunk, warm-up first.
std::vector<Step> order_of(int stage, const TimelineShape& shape) {
  const int p = shape.pipeline;
  const int v = shape.chunks;
  const int total = shape.micro_batches * v;
  const auto step = [&](int k, bool forward) {
    const int in_group = k % (p * v);
    const int chunk = in_group / p;
    return Step{forward, k / (p * v) * p + in_group % p, forward ? chunk : v - 1 - chunk};
  };
  const int warm_up = std::min(total, (p - stage - 1) * (v > 1 ? 2 : 1) + (v - 1) * p);
  std::vector<Step> order;
  order.reserve(static_cast<std::size_t>(warm_up));
  for (int k = 0; k < warm_up; ++k) order.push_back(step(k, true));
  for (int k = warm_up; k < total; ++k) {
    order.push_back(step(k, true));
    order.push_back(step(k - warm_up, false));
  }
  for (int k = total - warm_up; k < total; ++k) order.push_back(step(k, false));
  return order;
}

class TimelineMaker {
 public:
  explicit TimelineMaker(const TimelineShape& shape) : shape_(shape) {}

  std::vector<model::EventRecord> make() {
    const auto p = static_cast<std::size_t>(shape_.pipeline);
    std::vector<std::vector<Step>> orders;
    orders.reserve(static_cast<std::size_t>(shape_.pipeline));
    for (int s = 0; s < shape_.pipeline; ++s) orders.push_back(order_of(s, shape_));
    std::vector<std::size_t> next(p, 0);
    free_.assign(p, 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t s = 0; s < p; ++s) {
        while (next[s] < orders[s].size() && try_place(static_cast<int>(s), orders[s][next[s]])) {
          ++next[s];
          progress = true;
        }
      }
    }
    finish();
    return std::move(records_);
  }

 private:
  static constexpr std::int64_t kForward = 20'000'000;
  static constexpr std::int64_t kBackward = 40'000'000;
  static constexpr std::int64_t kSend = 1'200'000;

  using Key = std::pair<std::pair<bool, int>, int>;  // Direction, micro-batch, virtual stage.

  bool try_place(int stage, const Step& step) {
    const int p = shape_.pipeline;
    const int last = p * shape_.chunks - 1;
    const int virtual_stage = step.chunk * p + stage;
    std::int64_t ready = 0;
    const bool from_turn = !step.forward && virtual_stage == last;
    const bool has_input = !step.forward || virtual_stage > 0;
    if (has_input) {
      const int from = from_turn ? last : virtual_stage + (step.forward ? -1 : 1);
      const auto found = done_.find({{from_turn || step.forward, step.micro_batch}, from});
      if (found == done_.end()) return false;
      ready = found->second + (from_turn ? 0 : kSend);
    }
    std::int64_t& free = free_[static_cast<std::size_t>(stage)];
    const std::int64_t start = std::max(free, ready);
    free = start + (step.forward ? kForward : kBackward);
    done_[{{step.forward, step.micro_batch}, virtual_stage}] = free;
    add(stage, Lane::Compute, step.forward ? EventKind::Forward : EventKind::Backward, step, start,
        free);
    if (step.forward && virtual_stage < last) {
      add(stage, Lane::SendForward, EventKind::SendActivation, step, free, free + kSend);
    }
    if (!step.forward && virtual_stage > 0) {
      add(stage, Lane::SendBackward, EventKind::SendGradient, step, free, free + kSend);
    }
    return true;
  }

  // Gradients are reduced, then the optimizer runs everywhere at the same time.
  void finish() {
    std::int64_t end = 0;
    for (int s = 0; s < shape_.pipeline; ++s) {
      const std::int64_t start = free_[static_cast<std::size_t>(s)];
      add(s, Lane::DataParallel, EventKind::GradientReduce, {true, -1, 0}, start,
          start + 180'000'000);
      end = std::max(end, start + 180'000'000);
    }
    for (int s = 0; s < shape_.pipeline; ++s) {
      add(s, Lane::Compute, EventKind::Optimizer, {true, -1, 0}, end, end + 52'000'000);
    }
  }

  void add(int stage, Lane lane, EventKind kind, const Step& step, std::int64_t start,
           std::int64_t end) {
    records_.push_back({{stage}, lane, kind, {step.micro_batch}, {step.chunk}, {start}, {end}});
  }

  TimelineShape shape_;
  std::vector<std::int64_t> free_;
  std::map<Key, std::int64_t> done_;
  std::vector<model::EventRecord> records_;
};

void fill_memory(sim::SimulationReport& report) {
  report.memory_limit = 79_GiB;
  for (int s = 0; s < report.plan.pipeline; ++s) {
    sim::StageMemory stage;
    stage.stage = s;
    stage.parameters = 8.4 * 1_GiB;
    stage.gradients = 16.6 * 1_GiB;
    stage.optimizer = 1.6 * 1_GiB;
    stage.activations = (34.0 - 20.0 * s / report.plan.pipeline) * 1_GiB;
    stage.buffers = 1.5 * 1_GiB;
    stage.overhead = 2.1 * 1_GiB;
    stage.peak = stage.parameters + stage.gradients + stage.optimizer + stage.activations +
                 stage.buffers + stage.overhead;
    stage.largest_term = "activations of " + std::to_string(2 * (report.plan.pipeline - s) + 18) +
                         " chunks in flight";
    report.memory_peak = std::max(report.memory_peak, stage.peak);
    report.memory.push_back(stage);
    report.parameters_per_stage.push_back(4'410'000'000);
  }
}

void fill_words(sim::SimulationReport& report) {
  report.assumptions = {
      "plan.zero was not given: 1, the default of megatron-core",
      "cluster.fabric was not given: rail-optimized fat tree without oversubscription",
      "no price of dgx-h100 is known: the cost of a step is left out"};
  report.warnings = {
      "NIC efficiency of H100-SXM5-80GB was fitted on A100 nodes <no own measurement>"};
  report.sensitivities = {{"GEMM rate +10 %", {7.98}},
                          {"NVLink bandwidth +10 %", {8.35}},
                          {"network bandwidth +10 %", {8.41}},
                          {"memory bandwidth +10 %", {8.34}},
                          {"kernel gap +1 µs", {8.52}}};
  report.mfu_by_convention = {{"6N + causal attention", 0.401},
                              {"6N, no attention", 0.385},
                              {"Megatron-LM, full attention", 0.431}};
}

void fill_ops(sim::SimulationReport& report) {
  model::MicroOp gemm;
  gemm.kind = model::MicroOpKind::Gemm;
  gemm.name = "fc1";
  gemm.count = 4;
  gemm.gemm.m = 14336;
  gemm.gemm.n = 8192;
  gemm.gemm.k = 8192;
  gemm.flop = {1.924e12};
  model::MicroOp gather;
  gather.kind = model::MicroOpKind::Collective;
  gather.name = "qkv.gather";
  gather.count = 4;
  gather.collective = model::CollectiveKind::AllGather;
  gather.bytes = {134217728};
  model::MicroOp norm;
  norm.kind = model::MicroOpKind::MemoryBound;
  norm.name = "rms_norm";
  norm.count = 8;
  norm.read = {33554432};
  norm.written = {33554432};
  report.priced_ops = {{0, 0, "forward", gemm, {11.1e-3}},
                       {0, 0, "forward", gather, {1.9e-3}},
                       {0, 0, "forward", norm, {0.31e-3}}};
}

}  // namespace

sim::SimulationReport report_fixture(const TimelineShape& shape) {
  sim::SimulationReport report;
  report.name = "llama-3.1-70b-h100";
  report.plan.tensor = 4;
  report.plan.pipeline = shape.pipeline;
  report.plan.model_chunks = shape.chunks;
  report.plan.data = 512 / (4 * shape.pipeline);
  report.plan.global_batch = std::int64_t{shape.micro_batches} * report.plan.data;
  report.plan.sequence_parallel = true;
  report.plan.zero_stage = 1;
  report.plan.schedule = model::ScheduleKind::Interleaved;
  report.model_name = "llama-3.1-70b";
  report.gpu_name = "H100-SXM5-80GB";
  report.node_name = "dgx-h100";
  report.software_name = "megatron-core";
  report.schedule_name = "interleaved";
  report.step_time = {8.42};
  report.step_time_low = {8.01};
  report.step_time_high = {8.93};
  report.tokens_per_s = 498132.5;
  report.tokens_per_s_per_gpu = 972.915;
  report.model_flop_per_step = {1.837e18};
  report.hardware_flop_per_step = {1.837e18};
  report.model_flops_per_gpu = {426.1e12};
  report.mfu = report.hfu = 0.431;
  report.flop_convention = "6N + full attention (Megatron-LM)";
  report.bubble_fraction = 0.0392;
  report.breakdown = {{6.61}, {0.55}, {0.08}, {0.31}, {0}, {0}, {0.33}, {0.052}, {0.488}};
  report.compute_shares = {
      {"GEMM", {4.92}}, {"attention", {0.81}}, {"memory-bound", {0.72}}, {"launch gaps", {0.16}}};
  report.critical_stage = shape.pipeline - 1;
  fill_memory(report);
  report.parameters_total = report.parameters_active = 70'553'706'496;
  report.power_per_gpu = {612};
  report.energy_per_step = {2.638e6};
  report.gpus = 512;
  report.ranks_simulated = shape.pipeline;
  report.events = 1'932;
  report.engine = "dataflow";
  report.network = "analytic";
  fill_words(report);
  fill_ops(report);
  report.timeline = TimelineMaker(shape).make();
  return report;
}

sim::SimulationReport scaled_report(int gpus) {
  sim::SimulationReport report = report_fixture();
  const double factor = gpus / 512.0;
  const double slowdown = 1 + 0.03 * (factor - 1);
  report.name += " gpus=" + std::to_string(gpus);
  report.gpus = gpus;
  report.plan.data = gpus / 16;
  report.step_time = {8.42 / factor * slowdown};
  report.step_time_low = 0.95 * report.step_time;
  report.step_time_high = 1.06 * report.step_time;
  sim::StepBreakdown& parts = report.breakdown;
  for (model::Seconds* part : {&parts.compute, &parts.exposed_tp, &parts.exposed_pp,
                               &parts.exposed_dp, &parts.bubble, &parts.optimizer, &parts.other}) {
    *part = (slowdown / factor) * *part;
  }
  report.tokens_per_s = 512 * 8192 / report.step_time.value;
  report.tokens_per_s_per_gpu = report.tokens_per_s / gpus;
  report.mfu = report.hfu = 0.431 / slowdown;
  return report;
}

sim::PlanRefusal refusal_fixture() {
  sim::PlanRefusal refusal;
  refusal.code = "does_not_fit";
  refusal.message = "stage 0 needs 96.4 GiB of 79.0 GiB";
  refusal.reasons = {"stage 0: activations of 26 chunks in flight take 66.2 GiB",
                     "stage 1: needs 91.0 GiB of 79.0 GiB"};
  sim::SimulationReport report = report_fixture();
  for (sim::StageMemory& stage : report.memory) {
    stage.activations += 32_GiB;
    stage.peak += 32_GiB;
  }
  report.memory_peak += 32_GiB;
  report.fits = false;
  model::Plan near = report.plan;
  near.recompute = model::RecomputeKind::Selective;
  refusal.nearest = {{near, "recompute none → selective"}};
  refusal.report = std::move(report);
  return refusal;
}

}  // namespace megatwin::tests
