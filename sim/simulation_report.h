// The answer of one simulation as plain data: everything that the terminal, JSON and HTML reports
// print. No formatting here. Keys of the JSON contract follow the field names.
#ifndef MEGATWIN_SIM_SIMULATION_REPORT_H_
#define MEGATWIN_SIM_SIMULATION_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/micro_op.h"
#include "model/plan.h"
#include "model/program/event_record.h"
#include "model/units.h"
#include "sim/flow/capped_ways.h"
#include "sim/goodput.h"

namespace megatwin::sim {

// Where the critical rank's step goes; the parts sum to the step time.
struct StepBreakdown {
  model::Seconds compute, exposed_tp, exposed_pp, exposed_dp, exposed_ep, exposed_cp, bubble,
      optimizer, other;
};

// Compute time of the critical rank split by what the kernels are; the parts sum to `compute`.
struct ComputeShare {
  std::string name;  // "GEMM", "attention", "memory-bound", "recompute", "launch gaps", …
  model::Seconds time;
};

struct StageMemory {
  int stage = 0;
  std::string side;    // Of a decoupled job: "forward" or "backward".
  int replica = 0;     // First of the replicas that it stands for; 0 unless they differ.
  model::Bytes limit;  // Of its GPU.
  model::Bytes peak, parameters, gradients, optimizer, activations, buffers, overhead;
  std::string largest_term;  // Such as "activations of 8 micro-batches in flight".
};

// One stage of a job whose stages or replicas differ in GPU or size: what runs there and how busy
// it is.
struct StageShare {
  int stage = 0;
  int replica = 0;       // First of …
  int num_replicas = 1;  // … as many that are alike.
  std::string gpu, precision;
  int tensor = 1;
  int layers = 0;
  std::int64_t micro_batches = 0;
  model::Seconds forward, backward;  // Of one micro-batch, all chunks.
  model::Seconds busy;               // Of the step, its compute.
  double idle = 0;  // Share of the step that it waits for other stages and replicas.
  model::Bytes memory_peak, memory_limit;
};

// The ranks that run forwards, or those that run backwards, of a decoupled job.
struct SideShare {
  std::string name;  // "forward" or "backward".
  std::string gpu;
  int tensor = 1;
  int instances = 1;
  int ranks = 1;
  double busy = 0;  // Share of the step in which they run tasks.
  model::Bytes memory_peak, memory_limit;
};

// One line of "what would change the result most": a single changed assumption and its step time.
struct Sensitivity {
  std::string change;  // "NVLink bandwidth +10 %"
  model::Seconds step_time;
};

// One priced micro-op of one task, for --explain.
struct PricedOp {
  int stage = 0;
  int chunk = 0;
  std::string task;  // "forward", "backward input", "backward weight", "optimizer", …
  model::MicroOp op;
  model::Seconds time;  // Of all `op.count` repetitions.
};

// What a part of the model costs the critical rank in a step, for --explain: its kernels, or what
// the step waits for. All of them sum to the step.
struct ComponentTime {
  std::string name;
  model::Seconds forward, backward;  // Of all micro-batches.
  model::Seconds other;              // Once a step, or neither of the two.

  model::Seconds step() const { return forward + backward + other; }
};

// What the disturbances did: the same job without them, and how the cause reaches the step.
struct DisturbanceReport {
  model::Seconds undisturbed_step_time;
  std::vector<std::string> causes, chain;
};

// Weeks of training under failures.
struct GoodputReport {
  GoodputJob job;  // With the interval that was taken.
  model::Bytes checkpoint;
  model::Seconds mean_time_between_failures;
  model::Seconds young, daly_first_order, daly;  // Intervals of work.
  model::Seconds best_simulated;                 // Of the best mean goodput.
  double expected = 0;        // Closed form, which has neither spares nor slow checkpoints.
  double expected_ratio = 0;  // Effective training time ratio of Kokolis et al.
  GoodputSpread spread;
  int seeds = 0;
  std::uint64_t first_seed = 1;
};

struct SimulationReport {
  std::string name;
  model::Plan plan;
  std::string model_name, gpu_name, node_name, software_name, schedule_name;
  model::Seconds step_time, step_time_low, step_time_high;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  model::Flop model_flop_per_step;     // In `flop_convention`.
  model::Flop hardware_flop_per_step;  // With recompute.
  model::FlopPerSecond model_flops_per_gpu;
  double mfu = 0, hfu = 0;  // Over the dense peak of the precision's format.
  std::string flop_convention;
  // MFU under the other conventions that publications use: {name, MFU}.
  std::vector<std::pair<std::string, double>> mfu_by_convention;
  double bubble_fraction = 0;  // Idle ÷ total of the critical rank.
  StepBreakdown breakdown;
  std::vector<ComputeShare> compute_shares;
  int critical_stage = 0;

  // One a stage, of each class of replicas when they differ; decoupled: backward ranks, then
  // forward ranks.
  std::vector<StageMemory> memory;
  std::vector<StageShare> stages;  // Empty when all stages run on one kind of GPU, evenly.
  std::vector<SideShare> sides;    // Decoupled only: forward, backward.
  model::Bytes memory_peak, memory_limit;
  model::Bytes memory_allocated;  // Of the peak, what the framework's allocator would report.
  bool fits = true;

  std::int64_t parameters_total = 0, parameters_active = 0;
  std::vector<std::int64_t> parameters_per_stage;  // Of one rank of the stage.

  model::Watts power_per_gpu;     // Mean over the step, 0 when not modelled.
  model::Joules energy_per_step;  // All GPUs.
  model::Usd cost_per_step;       // 0: no price known.
  model::Watts power_per_node;    // GPUs and what is around them.
  // All machines times the building's overhead, and what that emits; 0: not known.
  model::Joules facility_energy_per_step;
  double carbon_kg_per_step = 0;

  int gpus = 0;
  int ranks_simulated = 0;
  std::int64_t events = 0;
  std::string engine;   // "dataflow", "events", or "instances" of a decoupled job.
  std::string network;  // "analytic", …
  // With flows: how many messages and collectives ran over links, how many nothing could delay, and
  // the links that delayed them, the worst first.
  std::int64_t network_flows = 0, network_closed_form = 0;
  std::vector<LinkLoad> links;
  std::optional<DisturbanceReport> disturbed;
  std::optional<GoodputReport> goodput;
  std::vector<std::string> assumptions, warnings;
  std::vector<Sensitivity> sensitivities;
  std::vector<PricedOp> priced_ops;
  std::vector<ComponentTime> components;  // With priced_ops.
  std::vector<model::EventRecord> timeline;
};

// A plan that is well-formed but illegal, or does not fit: an answer, not an error (exit code 1).
struct PlanRefusal {
  std::string code;     // "illegal_plan" or "does_not_fit".
  std::string message;  // One line.
  std::vector<std::string> reasons;
  struct Nearest {
    model::Plan plan;
    std::string change;  // "pipeline 4 → 5", or "tensor 4 → 8, recompute selective".
  };
  std::vector<Nearest> nearest;            // Legal plans that fit; the nearest first.
  std::optional<SimulationReport> report;  // For "does_not_fit": the numbers all the same.
  std::optional<int> others_tried;         // Plans near this one; nothing when nobody looked.
  int others_too_large = 0;                // Near ones whose step was too large to be tried.
};

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SIMULATION_REPORT_H_
