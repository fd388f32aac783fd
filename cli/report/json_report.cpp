#include "cli/report/json_report.h"

#include "cli/report/breakdown.h"
#include "cli/report/json_writer.h"
#include "cli/report/network_text.h"
#include "cli/report/plan_text.h"
#include "cli/report/priced_ops.h"
#include "model/assert.h"

namespace megatwin::cli {
namespace {

void write_times(JsonWriter& json, const sim::SimulationReport& report) {
  json.member("step_time_s", report.step_time.value);
  json.key("step_time_band_s");
  json.begin_array();
  json.number(report.step_time_low.value);
  json.number(report.step_time_high.value);
  json.end_array();
  json.member("tokens_per_s", report.tokens_per_s);
  json.member("tokens_per_s_per_gpu", report.tokens_per_s_per_gpu);
  json.member("model_flop_per_step", report.model_flop_per_step.value);
  json.member("hardware_flop_per_step", report.hardware_flop_per_step.value);
  json.member("model_tflops_per_gpu", report.model_flops_per_gpu.value / 1e12);
  json.member("mfu", report.mfu);
  json.member("hfu", report.hfu);
  json.member("flop_convention", report.flop_convention);
  json.key("mfu_by_convention");
  json.begin_object();
  for (const auto& [convention, mfu] : report.mfu_by_convention) json.member(convention, mfu);
  json.end_object();
  json.member("bubble_fraction", report.bubble_fraction);
}

void write_breakdown(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("breakdown_s");
  json.begin_object();
  for (const BreakdownPart& part : all_parts(report.breakdown)) {
    json.member(part.key, part.time.value);
  }
  json.end_object();
  json.key("compute_s");
  json.begin_object();
  for (const sim::ComputeShare& share : report.compute_shares) {
    json.member(share.name, share.time.value);
  }
  json.end_object();
  json.member("critical_stage", report.critical_stage);
}

void write_memory(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("memory");
  json.begin_object();
  json.member("peak_bytes", report.memory_peak.value);
  json.member("limit_bytes", report.memory_limit.value);
  json.member("fits", report.fits);
  json.key("ranks");
  json.begin_array();
  for (const sim::StageMemory& stage : report.memory) {
    json.begin_object();
    json.member("stage", stage.stage);
    json.member("replica", stage.replica);
    if (!stage.side.empty()) json.member("side", stage.side);
    json.member("peak_bytes", stage.peak.value);
    json.member("limit_bytes", stage.limit.value);
    for (const MemoryPart& part : memory_parts(stage)) json.member(part.key, part.amount.value);
    json.member("largest_term", stage.largest_term);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

// Stages or replicas that differ in GPU or size.
void write_stages(JsonWriter& json, const sim::SimulationReport& report) {
  if (report.stages.empty()) return;
  json.key("stages");
  json.begin_array();
  for (const sim::StageShare& share : report.stages) {
    json.begin_object();
    json.member("stage", share.stage);
    json.member("replica", share.replica);
    json.member("replicas", share.num_replicas);
    json.member("gpu", share.gpu);
    json.member("precision", share.precision);
    json.member("tensor", share.tensor);
    json.member("layers", share.layers);
    json.member("micro_batches", share.micro_batches);
    json.member("forward_s", share.forward.value);
    json.member("backward_s", share.backward.value);
    json.member("busy_s", share.busy.value);
    json.member("idle_fraction", share.idle);
    json.member("memory_peak_bytes", share.memory_peak.value);
    json.member("memory_limit_bytes", share.memory_limit.value);
    json.end_object();
  }
  json.end_array();
}

void write_sides(JsonWriter& json, const sim::SimulationReport& report) {
  if (report.sides.empty()) return;
  json.key("sides");
  json.begin_array();
  for (const sim::SideShare& side : report.sides) {
    json.begin_object();
    json.member("side", side.name);
    json.member("gpu", side.gpu);
    json.member("tensor", side.tensor);
    json.member("instances", side.instances);
    json.member("ranks", side.ranks);
    json.member("busy_fraction", side.busy);
    json.member("memory_peak_bytes", side.memory_peak.value);
    json.member("memory_limit_bytes", side.memory_limit.value);
    json.end_object();
  }
  json.end_array();
}

void write_parameters(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("parameters");
  json.begin_object();
  json.member("total", report.parameters_total);
  json.member("active", report.parameters_active);
  json.key("per_stage");
  json.begin_array();
  for (const std::int64_t count : report.parameters_per_stage) json.integer(count);
  json.end_array();
  json.end_object();
}

void write_energy_and_cost(JsonWriter& json, const sim::SimulationReport& report) {
  if (report.power_per_gpu.value > 0) {
    json.member("power_w_per_gpu", report.power_per_gpu.value);
    json.member("energy_j_per_step", report.energy_per_step.value);
  }
  if (report.power_per_node.value > 0) {
    json.member("power_w_per_node", report.power_per_node.value);
    json.member("facility_energy_j_per_step", report.facility_energy_per_step.value);
  }
  if (report.carbon_kg_per_step > 0) json.member("carbon_kg_per_step", report.carbon_kg_per_step);
  if (report.cost_per_step.value > 0) json.member("cost_usd_per_step", report.cost_per_step.value);
}

void write_sensitivities(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("sensitivities");
  json.begin_array();
  for (const sim::Sensitivity& sensitivity : report.sensitivities) {
    json.begin_object();
    json.member("change", sensitivity.change);
    json.member("step_time_s", sensitivity.step_time.value);
    json.end_object();
  }
  json.end_array();
}

void write_ops(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("priced_ops");
  json.begin_array();
  for (const sim::PricedOp& priced : report.priced_ops) {
    json.begin_object();
    json.member("stage", priced.stage);
    json.member("chunk", priced.chunk);
    json.member("task", priced.task);
    json.member("op", priced.op.name);
    json.member("kind", kind_text(priced.op.kind));
    json.member("shape", shape_text(priced.op));
    json.member("count", priced.op.count);
    json.member("flop", priced.op.flop.value);
    json.member("read_bytes", priced.op.read.value);
    json.member("written_bytes", priced.op.written.value);
    if (priced.op.kind == model::MicroOpKind::Collective) {
      json.member("bytes", priced.op.bytes.value);
    }
    json.member("time_s", priced.time.value);
    json.end_object();
  }
  json.end_array();
}

void write_components(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("components");
  json.begin_array();
  for (const sim::ComponentTime& one : report.components) {
    json.begin_object();
    json.member("name", one.name);
    json.member("forward_s", one.forward.value);
    json.member("backward_s", one.backward.value);
    json.member("other_s", one.other.value);
    json.member("step_s", one.step().value);
    json.end_object();
  }
  json.end_array();
}

void write_refusal_members(JsonWriter& json, const sim::PlanRefusal& refusal) {
  json.key("error");
  json.begin_object();
  json.member("code", refusal.code);
  json.member("message", refusal.message);
  json.member("reasons", refusal.reasons);
  json.key("nearest");
  json.begin_array();
  for (const auto& near : refusal.nearest) {
    json.begin_object();
    json.member("change", near.change);
    json.key("plan");
    write_plan(json, near.plan);
    json.end_object();
  }
  json.end_array();
  if (refusal.others_tried) json.member("others_tried", *refusal.others_tried);
  if (refusal.others_too_large > 0) json.member("others_too_large", refusal.others_too_large);
  json.end_object();
  if (refusal.report) write_report_members(json, *refusal.report);
}

void write_answer_members(JsonWriter& json, const Answer& answer) {
  if (const auto* report = std::get_if<sim::SimulationReport>(&answer)) {
    write_report_members(json, *report);
  } else {
    write_refusal_members(json, std::get<sim::PlanRefusal>(answer));
  }
}

std::string_view severity_text(model::Diagnostic::Severity severity) {
  switch (severity) {
    case model::Diagnostic::Severity::Error:
      return "error";
    case model::Diagnostic::Severity::Warning:
      return "warning";
    case model::Diagnostic::Severity::Note:
      return "note";
  }
  return "error";
}

}  // namespace

void write_plan(JsonWriter& json, const model::Plan& plan) {
  json.begin_object();
  json.member("tensor", plan.tensor);
  json.member("pipeline", plan.pipeline);
  json.member("model_chunks", plan.model_chunks);
  json.member("context", plan.context);
  json.member("expert", plan.expert);
  json.member("expert_tensor", plan.effective_expert_tensor());
  json.member("data", plan.data);
  json.member("micro_batch", plan.micro_batch);
  json.member("global_batch", plan.global_batch);
  json.member("sequence_parallel", plan.sequence_parallel);
  json.member("zero", plan.zero_stage);
  json.member("recompute", model::name_of(plan.recompute));
  if (plan.recompute_layers > 0) json.member("recompute_layers", plan.recompute_layers);
  json.member("precision", model::name_of(plan.precision));
  if (plan.rank_order != model::Plan{}.rank_order) json.member("rank_order", plan.rank_order);
  json.member("schedule", yaml_name(plan.schedule));
  if (!plan.order_file.empty()) json.member("order_file", plan.order_file);
  const auto list = [&](const char* key, const auto& values) {
    if (values.empty()) return;
    json.key(key);
    json.begin_array();
    for (const auto value : values) json.integer(value);
    json.end_array();
  };
  list("layers_per_stage", plan.layers_per_virtual_stage);
  if (plan.embedding_as_layer) json.member("embedding_as_layer", true);
  if (plan.head_as_layer) json.member("head_as_layer", true);
  list("tensor_per_stage", plan.tensor_per_stage);
  list("micro_batches_per_replica", plan.micro_batches_per_replica);
  json.end_object();
}

void write_report_members(JsonWriter& json, const sim::SimulationReport& report) {
  json.member("model", report.model_name);
  json.member("gpu", report.gpu_name);
  json.member("node", report.node_name);
  json.member("software", report.software_name);
  json.member("schedule", report.schedule_name);
  json.key("plan");
  write_plan(json, report.plan);
  write_times(json, report);
  write_breakdown(json, report);
  write_memory(json, report);
  write_stages(json, report);
  write_sides(json, report);
  write_parameters(json, report);
  write_energy_and_cost(json, report);
  json.member("gpus", report.gpus);
  json.member("ranks_simulated", report.ranks_simulated);
  json.member("events", report.events);
  json.member("engine", report.engine);
  json.member("network", report.network);
  write_network_members(json, report);
  json.member("assumptions", report.assumptions);
  json.member("warnings", report.warnings);
  write_sensitivities(json, report);
  if (!report.priced_ops.empty()) write_ops(json, report);
  if (!report.components.empty()) write_components(json, report);
}

std::string json_answers(std::span<const NamedAnswer> answers) {
  MEGATWIN_ASSERT(!answers.empty(), "nothing to write");
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  if (answers.size() == 1) {
    json.member("name", answers.front().name);
    write_answer_members(json, answers.front().answer);
  } else {
    json.key("runs");
    json.begin_array();
    for (const NamedAnswer& named : answers) {
      json.begin_object();
      json.member("name", named.name);
      write_answer_members(json, named.answer);
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  return json.finish();
}

std::string json_diagnostics(const model::Diagnostics& diagnostics) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.key("diagnostics");
  json.begin_array();
  for (const model::Diagnostic& diagnostic : diagnostics) {
    json.begin_object();
    json.member("severity", severity_text(diagnostic.severity));
    json.member("file", diagnostic.file);
    json.member("line", diagnostic.line);
    json.member("column", diagnostic.column);
    json.member("key", diagnostic.key);
    json.member("message", diagnostic.message);
    json.member("allowed", diagnostic.allowed);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
