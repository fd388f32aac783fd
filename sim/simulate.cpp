#include "sim/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/flops.h"
#include "model/parameters.h"
#include "model/plan_check.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"
#include "model/program/stage_jobs.h"
#include "policies/user_policy.h"
#include "sim/component_times.h"
#include "sim/decoupled/decoupled_job.h"
#include "sim/disturbance_report.h"
#include "sim/disturbed_job.h"
#include "sim/goodput_report.h"
#include "sim/job_network.h"
#include "sim/memory_report.h"
#include "sim/mixed/found_splits.h"
#include "sim/mixed/mixed_report.h"
#include "sim/near_plans.h"
#include "sim/power.h"
#include "sim/sensitivity.h"
#include "sim/simulation_problems.h"
#include "sim/step_limit.h"
#include "sim/step_run.h"

namespace megatwin::sim {
namespace {

using model::Flop;
using model::FlopConvention;
using model::Instant;
using model::Job;
using model::JobProgram;
using model::PricedChunk;
using model::PricedStage;
using model::Seconds;
using model::TaskPrice;

// What `--without` can switch off.
struct EffectSwitch {
  const char* name;
  bool model::PricedEffects::*on;
};
constexpr std::array<EffectSwitch, 11> kEffects{{
    {"wave", &model::PricedEffects::wave},
    {"memory-bound", &model::PricedEffects::memory_bound},
    {"tensor", &model::PricedEffects::tensor_traffic},
    {"pipeline", &model::PricedEffects::pipeline_schedule},
    {"recompute", &model::PricedEffects::recompute},
    {"data-parallel", &model::PricedEffects::data_parallel},
    {"expert", &model::PricedEffects::expert_traffic},
    {"context", &model::PricedEffects::context_traffic},
    {"quantisation", &model::PricedEffects::quantisation},
    {"launch", &model::PricedEffects::launch},
    {"spread", &model::PricedEffects::spread},
}};

// Everything that one micro-batch costs a stage, summed over its chunks and both passes.
struct StageSums {
  Seconds gemm, attention, memory_bound, recompute, contention, host;
  Seconds tp, ep, cp, sharded;
};

StageSums sums_of(const PricedStage& stage) {
  StageSums sums;
  for (const PricedChunk& chunk : stage.chunks) {
    for (const TaskPrice* price : {&chunk.forward, &chunk.backward}) {
      sums.gemm += price->gemm;
      sums.attention += price->attention;
      sums.memory_bound += price->memory_bound;
      sums.recompute += price->recompute;
      sums.contention += price->contention;
      sums.host += price->host_bound;
      sums.tp += price->exposed_tp;
      sums.ep += price->exposed_ep;
      sums.cp += price->exposed_cp;
    }
    sums.sharded += chunk.sharded_forward + chunk.sharded_backward;
  }
  return sums;
}

// Prices are of a rank that nothing slows: what a disturbance adds to the compute is the rest.
void fill_shares(const StageSums& sums, double m, bool is_disturbed, SimulationReport& report) {
  report.compute_shares = {{"matrix products", m * sums.gemm},
                           {"attention", m * sums.attention},
                           {"memory-bound kernels", m * sums.memory_bound},
                           {"recomputation", m * sums.recompute},
                           {"slowed by communication", m * sums.contention},
                           {"host launches", m * sums.host}};
  if (!is_disturbed) return;
  Seconds rest = report.breakdown.compute;
  for (const ComputeShare& share : report.compute_shares) rest = rest - share.time;
  const double rounding = 1e-6 * report.breakdown.compute.value;
  if (std::abs(rest.value) <= rounding) return;
  report.compute_shares.push_back({"slowed by disturbances", rest});
}

// Where links change within the step, what its collectives take is a mean over it. Kernels are
// known: they take between their price and that of the slowest GPU. Whatever the mean is off by is
// traffic inside tasks, which alone waits for links there: each kind has its part of the mean.
void keep_kernels_to_their_price(const StageSums& sums, double m, double slowest,
                                 StepBreakdown& parts) {
  const Seconds kernels = m * (sums.gemm + sums.attention + sums.memory_bound + sums.recompute +
                               sums.contention + sums.host);
  const Seconds known = std::clamp(parts.compute, kernels, slowest * kernels);
  const Seconds told = m * (sums.tp + sums.ep + sums.cp + sums.sharded);
  const Seconds own = parts.exposed_dp - m * sums.sharded;  // Of data-parallel traffic, beside.
  const Seconds inside = parts.exposed_tp + parts.exposed_ep + parts.exposed_cp + parts.compute -
                         known + m * sums.sharded;
  if (told.value <= 0 || inside.value < 0) return;
  const double mean = m * ratio(inside / told);
  parts.exposed_tp = mean * sums.tp;
  parts.exposed_ep = mean * sums.ep;
  parts.exposed_cp = mean * sums.cp;
  parts.exposed_dp = own + mean * sums.sharded;
  parts.compute = known;
}

// The parts of the busiest rank's step. The simulator says when its lane worked, waited and idled;
// the prices say what the work was.
void fill_breakdown(const Job& job, const StepRun& run, const RankResult& rank, int stage,
                    SimulationReport& report) {
  const JobProgram& program = run.program();
  const StageSums sums = sums_of(program.stages[stage]);
  const double m = program.spec.micro_batches;
  StepBreakdown& parts = report.breakdown;
  parts.exposed_tp = m * sums.tp;
  parts.exposed_ep = m * sums.ep;
  parts.exposed_cp = m * sums.cp;
  const auto& [tensor, context, expert] = rank.delayed_collectives;
  parts.exposed_tp += model::to_seconds(tensor);
  parts.exposed_cp += model::to_seconds(context);
  parts.exposed_ep += model::to_seconds(expert);
  parts.exposed_pp = model::to_seconds(rank.exposed_p2p);
  parts.exposed_dp = m * sums.sharded + model::to_seconds(rank.exposed_data_parallel) +
                     program.stages[stage].optimizer_exposed;
  parts.optimizer = model::to_seconds(rank.optimizer) - program.stages[stage].optimizer_exposed;
  parts.bubble = model::to_seconds(rank.bubble);
  parts.other = program.step_overhead;
  // Task durations are rounded to a nanosecond each; compute takes the remainder.
  parts.compute = report.step_time -
                  (parts.exposed_tp + parts.exposed_ep + parts.exposed_cp + parts.exposed_pp +
                   parts.exposed_dp + parts.optimizer + parts.bubble + parts.other);
  if (run.stretches.size() > 1) keep_kernels_to_their_price(sums, m, run.slowest(), parts);
  report.bubble_fraction = ratio(parts.bubble / report.step_time);
  fill_shares(sums, m, !has_sound_cluster(job), report);
}

// Without the schedule (`--without pipeline`) the busiest rank waits for no other: all that its
// lane does and waits for itself stays, so the step cannot become longer.
void leave_out_schedule(SimulationReport& report) {
  StepBreakdown& parts = report.breakdown;
  report.step_time = report.step_time - parts.bubble - parts.exposed_pp;
  parts.bubble = parts.exposed_pp = Seconds{};
  report.bubble_fraction = 0;
}

void fill_rates(const Job& job, SimulationReport& report) {
  const double batch = static_cast<double>(job.plan.global_batch);
  const double tokens = batch * static_cast<double>(job.transformer.sequence_length);
  const double gpus = job.plan.gpus();
  const model::FlopPerSecond peak = total_peak(job);
  report.gpus = job.plan.gpus();
  report.tokens_per_s = tokens / report.step_time.value;
  report.tokens_per_s_per_gpu = report.tokens_per_s / gpus;
  const auto mfu = [&](FlopConvention convention) {
    const Flop flop =
        model::model_flop_per_step(job.transformer, convention, job.plan.global_batch);
    return ratio(flop / report.step_time / peak);
  };
  const FlopConvention convention = FlopConvention::ModelCausalAttention;
  report.flop_convention = std::string(model::describe(convention));
  report.model_flop_per_step =
      model::model_flop_per_step(job.transformer, convention, job.plan.global_batch);
  report.model_flops_per_gpu = report.model_flop_per_step / report.step_time / gpus;
  report.mfu = mfu(convention);
  for (const FlopConvention other :
       {FlopConvention::ModelCausalAttention, FlopConvention::ModelFullAttention,
        FlopConvention::MegatronSc21Hardware}) {
    report.mfu_by_convention.emplace_back(std::string(model::describe(other)), mfu(other));
  }
}

// FLOP that the program executes, recomputation included, over all ranks.
void fill_hardware_flop(const Job& job, const std::vector<JobProgram>& programs,
                        SimulationReport& report) {
  for (const JobProgram& program : programs) {
    Flop executed;  // Of one micro-batch, over the tensor-parallel ranks of every stage.
    for (std::size_t stage = 0; stage < program.stages.size(); ++stage) {
      const double ranks = job.plan.stage_tensor(static_cast<int>(stage));
      for (const PricedChunk& chunk : program.stages[stage].chunks) {
        executed += ranks * (chunk.forward.flop + chunk.backward.flop);
      }
    }
    const double replicas =
        static_cast<double>(program.replicas.size()) * static_cast<double>(job.plan.context);
    report.hardware_flop_per_step +=
        replicas * static_cast<double>(program.spec.micro_batches) * executed;
  }
  report.hfu = ratio(report.hardware_flop_per_step / report.step_time / total_peak(job));
}

void fill_names(const Job& job, SimulationReport& report) {
  report.name = job.name;
  report.plan = job.plan;
  report.model_name = job.transformer.name;
  report.gpu_name = gpu_names(job.cluster);
  report.node_name = node_names(job.cluster);
  report.software_name = job.software.name;
  report.schedule_name = std::string(model::name_of(job.plan.schedule));
  report.assumptions = job.assumptions;
  report.warnings = job.warnings;
  if (job.plan.schedule != model::ScheduleKind::Decoupled) {  // Its ranks are laid out by side.
    for (std::string& warning :
         model::plan_warnings(job.transformer, job.plan, job.cluster, job.software)) {
      report.warnings.push_back(std::move(warning));
    }
  }
  report.network = std::string(model::name_of(job.network));
}

// Products of a rank's experts are launched one by one, whatever the stack: grouped products loop
// over the experts on the host.
void warn_of_launches(const Job& job, SimulationReport& report) {
  constexpr double kWorthTelling = 0.25;
  if (!job.transformer.experts) return;
  const std::int64_t experts = job.transformer.experts->num_experts / job.plan.expert;
  for (const ComputeShare& share : report.compute_shares) {
    const double part = ratio(share.time / report.step_time);
    if (share.name != "host launches" || part < kWorthTelling || experts < 2) continue;
    report.warnings.push_back(
        "host launches take " + std::to_string(std::lround(100 * part)) +
        " % of the step: every product of the " + std::to_string(experts) +
        " experts of a rank is a launch of its own, and they are small; fewer experts a rank (a "
        "larger plan.expert) or a larger plan.micro_batch help, or software.cuda_graphs true where "
        "the run captures its kernels");
  }
}

void fill_parameters(const Job& job, const JobProgram& program, SimulationReport& report) {
  const model::ParameterCounts counts = model::count_parameters(job.transformer);
  report.parameters_total = counts.total;
  report.parameters_active = counts.active;
  for (const PricedStage& stage : program.stages) {
    report.parameters_per_stage.push_back(stage.parameters.total());
  }
}

void explain(const Job& job, const JobProgram& program, const model::PricedEffects& effects,
             SimulationReport& report) {
  model::StageJobs jobs(job);
  for (std::size_t stage = 0; stage < program.stages.size(); ++stage) {
    const PricedStage& priced = program.stages[stage];
    const model::TaskPricer pricer(jobs.at(program.replicas.front(), static_cast<int>(stage)),
                                   effects);
    const auto add = [&](int s, int chunk, const char* task, const model::MicroOps& ops) {
      for (const model::MicroOp& op : ops) {
        const bool exchange =
            op.group == model::GroupKind::Pipeline && op.kind == model::MicroOpKind::Collective;
        const Seconds once = exchange ? priced.table_exchange : pricer.time_of(op);
        report.priced_ops.push_back({.stage = s,
                                     .chunk = chunk,
                                     .task = task,
                                     .op = op,
                                     .time = static_cast<double>(op.count) * once});
      }
    };
    for (std::size_t chunk = 0; chunk < priced.chunks.size(); ++chunk) {
      const int s = static_cast<int>(stage), c = static_cast<int>(chunk);
      add(s, c, "forward", priced.chunks[chunk].ops->forward);
      add(s, c, "backward", priced.chunks[chunk].ops->backward);
    }
    add(static_cast<int>(stage), 0, "optimizer", priced.optimizer_ops);
    if (static_cast<int>(stage) == report.critical_stage) {
      report.components = component_times(program, pricer, report);
    }
  }
}

// A prediction with an effect left out is none: say so where it is read.
void warn_of_missing_effects(const model::PricedEffects& effects, SimulationReport& report) {
  std::string names;
  for (const EffectSwitch& entry : kEffects) {
    if (!(effects.*(entry.on))) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  if (!names.empty()) report.warnings.insert(report.warnings.begin(), "left out: " + names);
}

// A policy that decides while the step runs needs events, and so do receive slots; static orders
// are the same in both.
Engine engine_of(const Job& job, const SimulateOptions& options) {
  const bool events = options.engine == EngineChoice::Events ||
                      model::is_dynamic(job.plan.schedule) || job.plan.receive_slots > 0;
  return events ? Engine::Events : Engine::Dataflow;
}

// Which engine runs a decoupled job depends on the job.
void warn_of_other_engine(const SimulateOptions& options, SimulationReport& report) {
  if (options.engine == EngineChoice::Auto) return;
  const std::string asked = options.engine == EngineChoice::Events ? "events" : "dataflow";
  if (asked == report.engine) return;
  report.warnings.push_back("--engine " + asked +
                            " has no effect on policy.schedule fbd: this job runs on the engine "
                            "\"" +
                            report.engine + "\"");
}

model::Result<SimulationReport> decoupled_report_of(const Job& job,
                                                    const SimulateOptions& options) {
  const DecoupledJob priced = price_decoupled(job, options.effects);
  if (auto endless = endless_decoupled(priced)) return model::fail(*std::move(endless));
  SimulationReport report;
  fill_names(job, report);
  warn_of_missing_effects(options.effects, report);
  report_decoupled(job, priced, options.effects, options.timeline, report);
  warn_of_other_engine(options, report);
  fill_rates(job, report);
  report.hfu = ratio(report.hardware_flop_per_step / report.step_time / total_peak(job));
  fill_power(job, report);
  fill_goodput(job, report);
  return report;
}

// Disturbed links and their undisturbed likeness are laid out alike, so that only the disturbance
// is between them.
Job on_shared_links(Job job) {
  const model::NetworkKind network = network_of(job);
  if (network == job.network) return job;
  job.network = network;
  job.assumptions.emplace_back(
      "A disturbance of a link needs flows that share links: network maxmin is taken for the step "
      "with and without it.");
  return job;
}

// Which of several equal ways is taken, where the scenario leaves it open and the job meets any.
void assume_routing(const Job& job, SimulationReport& report) {
  if (job.cluster.fabric.routing || !model::meets_equal_ways(job)) return;
  const bool hashed = routing_of(job.cluster) == model::FabricRouting::Ecmp;
  // Closed forms count what is sprayed in full, as they do everything else.
  if (!hashed && job.network == model::NetworkKind::Analytic) return;
  std::string names;
  for (const model::NodeGroup& group : job.cluster.groups) {
    if (hashed && !group.node.static_routes) continue;
    if (names.find(group.node.name) != std::string::npos) continue;
    names += (names.empty() ? "" : ", ") + group.node.name;
  }
  report.assumptions.push_back(
      "cluster.fabric.routing was not given: " +
      (hashed ? "ecmp is taken, since the network of " + names +
                    " has static routes; flows on equal ways can collide."
              : "spray is taken, since the network of " + names +
                    " is not held to static routes; the spines of a level are one switch."));
}

// What the report says of the network beside the name.
void fill_network(const Job& job, StepRun& run, SimulationReport& report) {
  assume_routing(job, report);
  report.network_flows = run.flows;
  report.network_closed_form = run.closed_form;
  report.links = std::move(run.links);
  if (job.network == model::NetworkKind::Analytic) return;
  report.assumptions.emplace_back(
      "Oversubscription and equal ways that collide are found on the graph, not taken from the "
      "closed forms.");
}

model::Result<SimulationReport> report_of(const Job& given, const SimulateOptions& options) {
  if (given.plan.schedule == model::ScheduleKind::Decoupled) {
    return decoupled_report_of(given, options);
  }
  const Job job = on_shared_links(given);
  const Engine engine = engine_of(job, options);
  const StepRunOptions how{.engine = engine,
                           .effects = options.effects,
                           .timeline = options.timeline,
                           .cache = options.cache,
                           .policy = options.policy};
  MEGATWIN_TRY(StepRun run, run_step(job, how));
  const JobProgram& program = run.program();
  PipelineResult& result = run.result;
  SimulationReport report;
  fill_names(job, report);
  warn_of_missing_effects(options.effects, report);
  const int stage = result.ranks[run.unit].stage.value;
  report.critical_stage = stage;
  report.step_time = model::to_seconds(result.makespan) + program.step_overhead;
  fill_breakdown(job, run, result.ranks[run.unit], stage, report);
  warn_of_launches(job, report);
  if (!options.effects.pipeline_schedule) leave_out_schedule(report);
  if (!job.disturbances.empty()) {
    MEGATWIN_TRY(const StepRun plain, run_step(undisturbed(job), how));
    report.disturbed = disturbance_report(job, plain, run);
  }
  fill_rates(job, report);
  fill_hardware_flop(job, run.programs, report);
  fill_parameters(job, program, report);
  fill_memory(job, run.programs, result, report);
  fill_stages(job, run.programs, result, report);
  fill_power(job, report);
  fill_goodput(job, report);
  report.ranks_simulated = static_cast<int>(result.ranks.size());
  report.events = result.events;
  report.engine = run.engine == Engine::Events ? "events" : "dataflow";
  report.timeline = std::move(result.timeline);
  fill_network(job, run, report);
  if (options.explain) explain(job, program, options.effects, report);
  return report;
}

// Reruns for sensitivities would lay the network out a dozen times: they are done without flows and
// disturbances of the cluster, and scaled.
void fill_scaled_sensitivities(const Job& job, const SimulateOptions& options,
                               SimulationReport& report) {
  Job plain = on_sound_cluster(job);
  plain.network = model::NetworkKind::Analytic;
  plain.failures.reset();
  const bool same = !needs_network(job) && has_sound_cluster(job);
  if (same) return fill_sensitivities(plain, options, report);
  auto base = report_of(plain, options);
  if (!base) return;
  fill_sensitivities(plain, options, *base);
  const double scale = ratio(report.step_time / base->step_time);
  for (Sensitivity& sensitivity : base->sensitivities) {
    sensitivity.step_time = scale * sensitivity.step_time;
  }
  report.sensitivities = std::move(base->sensitivities);
  report.step_time_low = scale * base->step_time_low;
  report.step_time_high = scale * base->step_time_high;
}

std::variant<SimulationReport, PlanRefusal> answer_of(const Job& job,
                                                      const SimulateOptions& options) {
  model::Result<SimulationReport> answer = report_of(job, options);
  if (!answer) {
    PlanRefusal refusal = refuse_step(answer.error());
    const bool stalls = answer.error().front().key == kReceiveSlotsKey;
    if (stalls && options.sensitivities) look_for_slots(job, refusal);
    return refusal;
  }
  SimulationReport report = *std::move(answer);
  if (options.sensitivities) fill_scaled_sensitivities(job, options, report);
  if (report.fits) return report;
  PlanRefusal refusal = refuse_unfit(job, std::move(report));
  if (options.sensitivities) look_for_others(job, refusal);
  return refusal;
}

}  // namespace

std::variant<SimulationReport, PlanRefusal> simulate(const Job& job,
                                                     const SimulateOptions& options) {
  const bool decoupled = job.plan.schedule == model::ScheduleKind::Decoupled;
  if (const model::Diagnostics faults = unsupported(job); !faults.empty() && !decoupled) {
    return refuse_step(faults);
  }
  if (wants_found_splits(job) && difference_problems(job).empty()) {
    return simulate(with_found_splits(job, options), options);
  }
  std::vector<std::string> problems = simulation_problems(job, static_cast<bool>(options.policy));
  if (!problems.empty()) {
    PlanRefusal refusal = refuse_illegal(problems);
    if (options.sensitivities) look_for_others(job, refusal);
    return refusal;
  }
  if (job.plan.schedule == model::ScheduleKind::OrderFile) {
    problems = policies::schedule_problems(model::build_job_program(job, options.effects).spec);
    if (!problems.empty())
      return PlanRefusal{"illegal_order", "the order file cannot run", problems, {}, {}, {}};
  }
  PipelineCache cache;  // The reruns of the sensitivities mostly change costs, not the program.
  SimulateOptions cached = options;
  if (cached.cache == nullptr) cached.cache = &cache;
  try {
    return answer_of(job, cached);
  } catch (const policies::UserPolicyError& error) {
    return PlanRefusal{"policy_failed",
                       "the policy of " + job.plan.policy_library + " cannot run this job",
                       {error.what()},
                       {},
                       {},
                       {}};
  }
}

std::vector<std::string> effect_names() {
  std::vector<std::string> names;
  names.reserve(kEffects.size());
  for (const EffectSwitch& entry : kEffects) names.emplace_back(entry.name);
  return names;
}

std::optional<model::PricedEffects> effects_without(const std::set<std::string>& names) {
  model::PricedEffects effects;
  for (const std::string& name : names) {
    const auto found = std::find_if(kEffects.begin(), kEffects.end(),
                                    [&](const EffectSwitch& entry) { return name == entry.name; });
    if (found == kEffects.end()) return std::nullopt;
    effects.*(found->on) = false;
  }
  return effects;
}

}  // namespace megatwin::sim
