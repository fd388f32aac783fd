#include "cli/report/training_report.h"

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/json_writer.h"
#include "cli/report/plan_text.h"

namespace megatwin::cli {
namespace {

using exec::TrainingResult;
using exec::TrainingStep;

double tokens_per_second(const TrainingResult& result) {
  const double tokens =
      static_cast<double>(result.tokens_per_step) * static_cast<double>(result.steps.size());
  return result.step_time_total.value > 0 ? tokens / result.step_time_total.value : 0;
}

const TrainingStep* last_with_held_out(const TrainingResult& result) {
  for (auto step = result.steps.rbegin(); step != result.steps.rend(); ++step) {
    if (step->held_out_loss) return &*step;
  }
  return nullptr;
}

}  // namespace

std::string terminal_training_head(const std::string& name, const exec::HostJob& job,
                                   const std::vector<std::string>& warnings) {
  model::Plan plan = job.plan;
  plan.precision = model::Precision::Fp32;
  std::string text =
      fmt::format("{}\n  {} on {} {} of this machine\n  {}\n", name, job.transformer.name,
                  plan.gpus(), plan.gpus() == 1 ? "thread" : "threads", describe(plan));
  if (job.plan.precision != plan.precision) {
    text += fmt::format("  trains in fp32; {} of the plan counts in simulate\n",
                        model::name_of(job.plan.precision));
  }
  if (job.first_step > 0) text += fmt::format("  goes on after step {}\n", job.first_step);
  for (const std::string& warning : warnings) text += "  warning: " + warning + "\n";
  return text;
}

std::string terminal_training_titles() { return "\n      step    loss  held-out  tokens/s\n"; }

std::string terminal_training_step(const TrainingStep& step, double tokens_per_second) {
  const std::string held_out =
      step.held_out_loss ? fmt::format("{:.4f}", *step.held_out_loss) : std::string();
  std::string line =
      fmt::format("{:>10}  {:.4f}  {:>8}  {:>8}", format_count(step.step), step.loss, held_out,
                  format_count(static_cast<std::int64_t>(tokens_per_second)));
  if (!step.checkpoint.empty()) line += "  saved " + step.checkpoint;
  return line + "\n";
}

std::string terminal_training_summary(const TrainingSummary& summary) {
  const TrainingResult& result = summary.result;
  const char* unit = summary.is_text ? "nats/byte" : "nats/token";
  std::string text = "\n";
  if (!result.steps.empty()) {
    text += fmt::format("  {} of {} in {}, {}\n", format_counted(std::ssize(result.steps), "step"),
                        format_counted(result.tokens_per_step, "token"), format_time(result.time),
                        format_tokens_per_second(tokens_per_second(result)));
    text += fmt::format("  loss         {:.4f} {} at step {}\n", result.steps.back().loss, unit,
                        format_count(result.steps.back().step));
  } else if (!result.host.fault) {
    text += fmt::format("  all {} steps were done before\n", format_count(result.first_step));
  }
  if (const TrainingStep* step = last_with_held_out(result)) {
    text += fmt::format("  held-out     {:.4f} {} over {} tokens\n", *step->held_out_loss, unit,
                        format_count(result.held_out_tokens));
  }
  if (result.trigram_loss) {
    text +=
        fmt::format("  by counting  {:.4f} nats/byte, a byte-trigram counter on the same text\n",
                    *result.trigram_loss);
  }
  if (result.stopped) text += "  stopped early, as asked\n";
  if (!result.last_checkpoint.empty()) {
    text += "  checkpoint   " + result.last_checkpoint + "\n";
  }
  return text;
}

std::string json_training(const TrainingSummary& summary) {
  const TrainingResult& result = summary.result;
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("name", summary.name);
  json.member("backend", "host");
  json.member("model", summary.job.transformer.name);
  json.member("parameters", result.parameters);
  json.member("ranks", summary.job.plan.gpus());
  json.member("first_step", result.first_step);
  json.member("tokens_per_step", result.tokens_per_step);
  json.member("tokens_per_s", tokens_per_second(result));
  json.member("elapsed_s", result.time.value);
  json.member("stopped", result.stopped);
  json.key("steps");
  json.begin_array();
  for (const TrainingStep& step : result.steps) {
    json.begin_object();
    json.member("step", step.step);
    json.member("loss", step.loss);
    if (step.held_out_loss) json.member("held_out_loss", *step.held_out_loss);
    if (!step.checkpoint.empty()) json.member("checkpoint", step.checkpoint);
    json.end_object();
  }
  json.end_array();
  if (const TrainingStep* step = last_with_held_out(result)) {
    json.member("held_out_loss", *step->held_out_loss);
    json.member("held_out_tokens", result.held_out_tokens);
  }
  if (result.trigram_loss) json.member("byte_trigram_loss", *result.trigram_loss);
  json.member("last_checkpoint", result.last_checkpoint);
  json.member("weights_hash", fmt::format("{:016x}", result.host.weights_hash));
  json.key("memory");
  json.begin_array();
  for (const exec::HostRankReport& rank : result.host.ranks) {
    json.begin_object();
    json.member("rank", rank.rank.value);
    const model::Plan& plan = summary.job.plan;
    json.member("stage", rank.stage.value % plan.pipeline);  // See exec::HostLayout::role().
    if (plan.schedule == model::ScheduleKind::Decoupled) {
      const int forward = plan.decoupled.forward.instances;
      const int role = rank.stage.value / plan.pipeline;
      json.member("side", role < forward ? "forward" : "backward");
      json.member("instance", role < forward ? role : role - forward);
    }
    json.member("activations", rank.activations_max.value);
    json.member("reserved", rank.activations_reserved.value);
    json.end_object();
  }
  json.end_array();
  if (const auto& fault = result.host.fault) {
    json.key("fault");
    json.begin_object();
    json.member("rank", fault->rank.value);
    json.member("step", fault->step + 1);
    json.member("task", fault->task);
    json.member("message", fault->what);
    json.end_object();
  }
  json.member("warnings", summary.warnings);
  json.end_object();
  return json.finish();
}

std::string json_training_refusal(const std::vector<std::string>& reasons) {
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.key("error");
  json.begin_object();
  json.member("code", "illegal_plan");
  json.member("message", "the host cannot train this");
  json.member("reasons", reasons);
  json.key("nearest");
  json.begin_array();
  json.end_array();
  json.end_object();
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
