#include "cli/report/purchase_report.h"

#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/json_report.h"
#include "cli/report/json_writer.h"
#include "cli/report/plan_text.h"

namespace megatwin::cli {
namespace {

using sim::Limit;
using sim::PurchaseOption;
using Rows = std::vector<std::vector<std::string>>;

std::string amount_text(Limit limit, double amount) {
  switch (limit) {
    case Limit::Deadline:
      return format_duration({amount});
    case Limit::Budget:
      return format_usd({amount});
    case Limit::Power:
      return format_large_power({amount});
  }
  return "";
}

std::string money_cell(const PurchaseOption& option) {
  return option.run.cost ? format_usd(*option.run.cost) : "–";
}

void add_head(const PurchaseSummary& summary, std::string& text) {
  text += fmt::format("{}, {} tokens{}\n", summary.job.transformer.name,
                      format_short(summary.wish.tokens), limits_text(summary.wish));
  const auto offers = std::ssize(summary.wish.offers);
  text += fmt::format("{} of {} of machines tried; {}\n",
                      format_counted(std::ssize(summary.answer.options), "number"),
                      format_counted(offers, "kind"), format_time(summary.elapsed));
}

void add_option(const PurchaseSummary& summary, const PurchaseOption& option, std::string& text) {
  const sim::TrainingRun& run = option.run;
  Rows rows;
  rows.push_back(
      {"machines", machines_text(summary, option),
       fmt::format("{} × {}, and {}", format_count(option.report.gpus), option.report.gpu_name,
                   format_counted(run.spares, "spare machine"))});
  rows.push_back({"plan", describe_short(option.report.plan), describe(option.report.plan)});
  rows.push_back({"step", format_time(option.report.step_time),
                  fmt::format("MFU {}, {}", format_percent(option.report.mfu),
                              format_counted(run.steps, "step"))});
  rows.push_back({"duration", format_duration(run.duration),
                  fmt::format("{} of steps alone", format_duration(run.undisturbed))});
  if (run.mean_time_to_failure) {
    std::string spread;
    if (const auto& goodput = summary.answer.goodput; goodput && summary.answer.choice) {
      spread = fmt::format("; simulated {} on average, nine of ten runs from {} to {}{}",
                           format_percent(goodput->mean), format_percent(goodput->p05),
                           format_percent(goodput->p95),
                           goodput->mean < goodput->p05 ? ", few runs far below" : "");
    }
    rows.push_back({"goodput", format_percent(run.goodput),
                    fmt::format("a failure every {}, {:.0f} expected, a checkpoint every {}{}",
                                format_duration(*run.mean_time_to_failure), run.failures,
                                format_duration(run.checkpoint_interval), spread)});
  }
  rows.push_back({"cost", money_cell(option), run.cost ? "spares included" : "no price is known"});
  rows.push_back({"power", format_large_power(run.power), "at the meter"});
  rows.push_back(
      {"energy", format_large_energy(run.energy),
       run.carbon_kg ? format_carbon(*run.carbon_kg) : "carbon: give carbon_kg_per_kwh"});
  text += format_table(rows, {false, false, false});
}

// Every option that is a power of two, the choice and the knees.
void add_curves(const PurchaseSummary& summary, std::string& text) {
  const sim::PurchaseAnswer& answer = summary.answer;
  for (const sim::OfferCurve& curve : answer.curves) {
    if (curve.options.empty()) continue;
    const PurchaseOption& first = answer.options[curve.options.front()];
    text += fmt::format("\n{} ({})\n", first.report.node_name, first.report.gpu_name);
    Rows rows = {
        {"", "machines", "GPUs", "plan", "step", "MFU", "goodput", "duration", "cost", "power"}};
    for (const std::size_t i : curve.options) {
      const PurchaseOption& option = answer.options[i];
      std::string mark = i == answer.choice ? "→" : "";
      if (i == curve.knee) mark += knee_mark(curve);
      rows.push_back({mark, format_count(option.machines), format_count(option.report.gpus),
                      describe_short(option.report.plan), format_time(option.report.step_time),
                      format_percent(option.report.mfu), format_percent(option.run.goodput),
                      format_duration(option.run.duration), money_cell(option),
                      format_large_power(option.run.power)});
    }
    text += format_table(rows, {false, true, true, false, true, true, true, true, true, true});
  }
}

void add_utilisations(const PurchaseSummary& summary, std::string& text) {
  const Rows rows = utilisation_rows(summary);
  if (rows.empty()) return;
  text += "\n" + utilisation_title(summary) + "\n";
  text += format_table(rows, {false, true, true, true, true, true});
  text += "  " + std::string(kUtilisationNote) + "\n";
}

void add_unmet(const PurchaseSummary& summary, const sim::UnmetWish& unmet, std::string& text) {
  text += "\n" + unmet.message + "\n";
  for (const std::string& reason : unmet.reasons) text += "  " + reason + "\n";
  if (!unmet.relaxations.empty()) {
    text += unmet.together ? "\nRelax all of these together\n"
                           : "\nRelax one of these, the first first\n";
    Rows rows;
    for (const auto& relaxation : unmet.relaxations) {
      rows.push_back({relaxation_text(relaxation), format_factor(relaxation.factor()),
                      machines_text(summary, summary.answer.options[relaxation.option])});
    }
    text += format_table(rows, {false, true, false});
  }
  if (!unmet.other_ways.empty()) {
    text += "\nWhat would do, the first first\n";
    for (const std::string& way : unmet.other_ways) text += "  " + way + "\n";
  }
  if (unmet.nearest) {
    text += "\nThe nearest that is possible\n";
    add_option(summary, summary.answer.options[*unmet.nearest], text);
  }
}

std::string mix_text(const PurchaseSummary& summary, const sim::MachineMix& mix) {
  std::string text;
  for (const auto& part : mix.parts) {
    const auto& node = summary.wish.offers[static_cast<std::size_t>(part.offer)].group.node;
    text +=
        fmt::format("{}{} of {}", text.empty() ? "" : ", ", format_count(part.machines), node.name);
  }
  return text;
}

void add_mixes(const PurchaseSummary& summary, std::string& text) {
  const sim::PurchaseAnswer& answer = summary.answer;
  if (answer.mixes.empty()) return;
  text += "\nTwo kinds of machines in one job\n";
  Rows rows = {{"", "machines", "plan", "step", "goodput", "duration", "cost", "power"}};
  for (std::size_t i = 0; i < answer.mixes.size(); ++i) {
    const PurchaseOption& option = answer.mixes[i].option;
    rows.push_back({i == answer.best_mix ? "→" : "", mix_text(summary, answer.mixes[i]),
                    describe_short(option.report.plan), format_time(option.report.step_time),
                    format_percent(option.run.goodput), format_duration(option.run.duration),
                    money_cell(option), format_large_power(option.run.power)});
  }
  text += format_table(rows, {false, false, false, true, true, true, true, true});
  text += answer.best_mix ? "  → keeps every limit, and would be chosen before any single kind\n"
                          : "  no mix would be chosen before a single kind\n";
}

// What every option says, in an object that is open.
void write_option_members(JsonWriter& json, const PurchaseSummary& summary,
                          const PurchaseOption& option) {
  json.member("node", option.report.node_name);
  json.member("gpu", option.report.gpu_name);
  json.member("machines", option.machines);
  json.member("gpus", option.report.gpus);
  json.key("plan");
  write_plan(json, option.report.plan);
  json.member("step_time_s", option.report.step_time.value);
  json.member("tokens_per_s", option.report.tokens_per_s);
  json.member("mfu", option.report.mfu);
  json.member("peak_bytes", option.report.memory_peak.value);
  write_training_run(json, option.run);
  json.key("missed");
  json.begin_array();
  for (const Limit limit : sim::kLimits) {
    if (!keeps(summary.wish, option, limit)) json.text(name_of(limit));
  }
  json.end_array();
}

void write_option(JsonWriter& json, const PurchaseSummary& summary, std::size_t index) {
  const PurchaseOption& option = summary.answer.options[index];
  json.begin_object();
  write_option_members(json, summary, option);
  const sim::OfferCurve& curve = summary.answer.curves[static_cast<std::size_t>(option.offer)];
  json.member("is_knee", curve.is_knee_seen() && curve.knee == index);
  json.end_object();
}

void write_utilisations(JsonWriter& json, const PurchaseSummary& summary) {
  json.key("mfu_explained");
  json.begin_array();
  for (const sim::PlanUtilisation& utilisation : summary.answer.utilisations) {
    const PurchaseOption& option = summary.answer.options[utilisation.option];
    json.begin_object();
    json.member("node", option.report.node_name);
    json.member("machines", option.machines);
    json.member("convention", option.report.flop_convention);
    json.member("planned", utilisation.planned);
    const auto member = [&](const char* name, const std::optional<double>& mfu) {
      if (mfu) json.member(name, *mfu);
    };
    member("not_overlapped", utilisation.not_overlapped);
    member("micro_batch_1", utilisation.lone_sequences);
    member("recompute_full", utilisation.recomputed);
    member("all", utilisation.all);
    json.end_object();
  }
  json.end_array();
}

void write_mixes(JsonWriter& json, const PurchaseSummary& summary) {
  if (summary.answer.mixes.empty()) return;
  json.key("mixes");
  json.begin_array();
  for (std::size_t i = 0; i < summary.answer.mixes.size(); ++i) {
    const sim::MachineMix& mix = summary.answer.mixes[i];
    json.begin_object();
    json.key("parts");
    json.begin_array();
    for (const auto& part : mix.parts) {
      json.begin_object();
      json.member("node",
                  summary.wish.offers[static_cast<std::size_t>(part.offer)].group.node.name);
      json.member("machines", part.machines);
      json.end_object();
    }
    json.end_array();
    write_option_members(json, summary, mix.option);
    json.member("is_best", i == summary.answer.best_mix);
    json.end_object();
  }
  json.end_array();
}

void write_unmet(JsonWriter& json, const PurchaseSummary& summary, const sim::UnmetWish& unmet) {
  json.key("error");
  json.begin_object();
  json.member("code", summary.answer.options.empty() ? "no_plan" : "limits");
  json.member("message", unmet.message);
  json.member("reasons", unmet.reasons);
  json.key("nearest");
  json.begin_array();
  if (unmet.nearest) write_option(json, summary, *unmet.nearest);
  json.end_array();
  json.member("relax_together", unmet.together);
  json.key("relax");
  json.begin_array();
  for (const auto& relaxation : unmet.relaxations) {
    json.begin_object();
    json.member("what", relaxation_text(relaxation));
    json.member("limit", name_of(relaxation.limit));
    json.member("allowed", relaxation.allowed);
    json.member("needed", relaxation.needed);
    json.key("option");
    write_option(json, summary, relaxation.option);
    json.end_object();
  }
  json.end_array();
  json.member("other_ways", unmet.other_ways);
  json.end_object();
}

}  // namespace

std::string utilisation_title(const PurchaseSummary& summary) {
  const auto& utilisations = summary.answer.utilisations;
  if (utilisations.empty()) return "";
  const PurchaseOption& first = summary.answer.options[utilisations.front().option];
  return "What holds the MFU up (FLOP counted as " + first.report.flop_convention + ")";
}

std::vector<std::vector<std::string>> utilisation_rows(const PurchaseSummary& summary) {
  Rows rows;
  const auto cell = [](const std::optional<double>& mfu) {
    return mfu ? format_percent(*mfu) : std::string("–");
  };
  for (const sim::PlanUtilisation& utilisation : summary.answer.utilisations) {
    if (rows.empty()) {
      rows.push_back({"machines", "as planned", "nothing overlapped", "micro-batch 1",
                      "recompute full", "all of these"});
    }
    rows.push_back({machines_text(summary, summary.answer.options[utilisation.option]),
                    format_percent(utilisation.planned), cell(utilisation.not_overlapped),
                    cell(utilisation.lone_sequences), cell(utilisation.recomputed),
                    cell(utilisation.all)});
  }
  return rows;
}

std::string knee_mark(const sim::OfferCurve& curve) {
  return curve.is_knee_seen() ? "knee" : "no knee yet";
}

std::string machines_text(const PurchaseSummary& summary, const PurchaseOption& option) {
  const auto& offer = summary.wish.offers[static_cast<std::size_t>(option.offer)];
  return fmt::format("{} of {}", format_count(option.machines), offer.group.node.name);
}

std::string relaxation_text(const sim::UnmetWish::Relaxation& relaxation) {
  return fmt::format("{}: {} instead of {}", name_of(relaxation.limit),
                     amount_text(relaxation.limit, relaxation.needed),
                     amount_text(relaxation.limit, relaxation.allowed));
}

std::string run_text(const sim::TrainingRun& run) {
  return fmt::format("{}, {}, {}, {}", format_duration(run.duration),
                     run.cost ? format_usd(*run.cost) : "price not known",
                     format_large_power(run.power), format_large_energy(run.energy));
}

void write_training_run(JsonWriter& json, const sim::TrainingRun& run) {
  json.member("steps", run.steps);
  json.member("undisturbed_s", run.undisturbed.value);
  json.member("duration_s", run.duration.value);
  json.member("goodput", run.goodput);
  if (run.mean_time_to_failure) {
    json.member("mean_time_to_failure_s", run.mean_time_to_failure->value);
    json.member("checkpoint_interval_s", run.checkpoint_interval.value);
    json.member("failures", run.failures);
  }
  json.member("spares", run.spares);
  if (run.cost) json.member("cost_usd", run.cost->value);
  json.member("power_w", run.power.value);
  json.member("energy_j", run.energy.value);
  if (run.carbon_kg) json.member("carbon_kg", *run.carbon_kg);
}

std::string limits_text(const model::TrainingWish& wish) {
  std::string text;
  for (const Limit limit : sim::kLimits) {
    if (const auto most = allowed(wish, limit)) {
      text += fmt::format(", {} {}", name_of(limit), amount_text(limit, *most));
    }
  }
  return text;
}

std::string terminal_purchase(const PurchaseSummary& summary) {
  std::string text;
  add_head(summary, text);
  if (summary.answer.choice) {
    text += "\n";
    add_option(summary, summary.answer.options[*summary.answer.choice], text);
  }
  if (summary.answer.unmet) add_unmet(summary, *summary.answer.unmet, text);
  add_curves(summary, text);
  add_utilisations(summary, text);
  add_mixes(summary, text);
  if (!summary.answer.not_counted.empty()) text += "\nNot counted\n";
  for (const std::string& line : summary.answer.not_counted) text += "  " + line + "\n";
  if (!summary.wish.assumptions.empty()) text += "\nAssumed, because it was not given\n";
  for (const std::string& line : summary.wish.assumptions) text += "  " + line + "\n";
  return text;
}

std::string json_purchase(const PurchaseSummary& summary) {
  const sim::PurchaseAnswer& answer = summary.answer;
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("name", summary.job.name);
  json.member("tokens", summary.wish.tokens);
  if (answer.choice) {
    json.key("choice");
    write_option(json, summary, *answer.choice);
  }
  if (answer.goodput) {
    json.key("goodput_simulated");
    json.begin_object();
    json.member("mean", answer.goodput->mean);
    json.member("p05", answer.goodput->p05);
    json.member("p50", answer.goodput->p50);
    json.member("p95", answer.goodput->p95);
    json.member("failures_mean", answer.goodput->failures_mean);
    json.end_object();
  }
  json.key("options");
  json.begin_array();
  for (std::size_t i = 0; i < answer.options.size(); ++i) write_option(json, summary, i);
  json.end_array();
  write_utilisations(json, summary);
  if (answer.unmet) write_unmet(json, summary, *answer.unmet);
  write_mixes(json, summary);
  json.member("not_counted", answer.not_counted);
  json.member("assumptions", summary.wish.assumptions);
  json.member("elapsed_s", summary.elapsed.value);
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
