#include "cli/report/search_report.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/json_report.h"
#include "cli/report/json_writer.h"
#include "cli/report/plan_text.h"
#include "cli/report/purchase_report.h"
#include "sim/search/space_key.h"

namespace megatwin::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kLosersShown = 15;

// The sizes in letters, then everything else that a search varies; what stays as it is in the file
// unless it is listed, where it was.
std::string plan_cell(const SearchSummary& summary, const model::Plan& plan) {
  using sim::SpaceKey;
  const auto is_told = [&](SpaceKey key) {
    return num_values(summary.space, key) > 1 ||
           value_text(plan, key) != value_text(summary.job.plan, key);
  };
  std::string text = describe_short(plan);
  text += fmt::format(" b{}", plan.micro_batch);
  if (is_told(SpaceKey::GlobalBatch)) text += fmt::format(" batch {}", plan.global_batch);
  if (is_told(SpaceKey::Precision)) text += " " + value_text(plan, SpaceKey::Precision);
  if (is_told(SpaceKey::Dispatcher)) text += " " + value_text(plan, SpaceKey::Dispatcher);
  if (plan.zero_stage > 0) text += fmt::format(" z{}", plan.zero_stage);
  if (plan.sequence_parallel && plan.tensor > 1) text += " sp";
  if (plan.pipeline > 1) text += " " + value_text(plan, SpaceKey::Schedule);
  if (plan.recompute != model::RecomputeKind::None) {
    text += " recompute " + value_text(plan, SpaceKey::Recompute);
  }
  if (plan.overlap_tensor_parallel && plan.tensor > 1) text += " tp-overlap";
  if (plan.rank_order != model::Plan{}.rank_order) text += " " + plan.rank_order;
  const std::string layers = value_text(plan, SpaceKey::Layers);
  if (layers != "even" && plan.pipeline > 1) text += " layers " + layers;
  return text;
}

// A step beside the first plan's, a sequence: batches may differ.
std::string against_first(const SearchSummary& summary, const model::Plan& plan,
                          model::Seconds time, model::Seconds first) {
  const std::int64_t batch = summary.result.best.front().report.plan.global_batch;
  return format_percent_change(
      model::ratio(sim::paced(summary.job.plan.global_batch, plan.global_batch, time) /
                   sim::paced(summary.job.plan.global_batch, batch, first)) -
      1);
}

std::string heading(const char* title) { return fmt::format("\n{}\n", title); }

// Steps that were worked out beside those of the ranking.
std::string besides_text(const sim::SearchResult::Evaluated& evaluated) {
  std::string text;
  const auto add = [&](std::int64_t count, const std::string& what) {
    if (count > 0) text += (text.empty() ? "evaluated besides: " : ", ") + what;
  };
  add(evaluated.baseline, "the file's own plan");
  add(evaluated.front, format_count(evaluated.front) + " of the front again for their energy");
  add(evaluated.switches,
      format_count(evaluated.switches) + " with one switch of the best plan turned");
  return text.empty() ? "" : text + "\n";
}

void add_counts(const SearchSummary& summary, std::string& text) {
  const sim::SearchResult& result = summary.result;
  text += fmt::format("{} on {} × {}\n", summary.job.transformer.name,
                      format_count(summary.job.cluster.num_gpus()),
                      summary.job.cluster.groups.front().gpu.name);
  const auto& evaluated = result.evaluated;
  text += fmt::format("{}, {} of them fit", format_counted(result.candidates, "legal plan"),
                      format_count(result.fit));
  if (result.fit > 0) {
    text += fmt::format(
        ", {} of those evaluated in full{}; {} simulated", format_count(evaluated.of_fitting),
        evaluated.of_fitting < result.fit ? " (by its bound no other is among the best)" : "",
        format_count(evaluated.events));
  }
  text += "; " + format_time(summary.elapsed) + "\n" + besides_text(evaluated);
  for (const std::string& sentence : result.not_searched)
    text += "not searched: " + sentence + "\n";
}

std::vector<std::string> best_row(const SearchSummary& summary, std::string place,
                                  const sim::SimulationReport& report) {
  return {std::move(place),
          plan_cell(summary, report.plan),
          format_time(report.step_time),
          against_first(summary, report.plan, report.step_time,
                        summary.result.best.front().report.step_time),
          format_percent(report.mfu),
          format_memory_number(report.memory_peak),
          format_percent(report.bubble_fraction)};
}

void add_best(const SearchSummary& summary, std::string& text) {
  const sim::SearchResult& result = summary.result;
  const std::string& depth = result.best.front().depth;
  const char* by = depth.rfind("events", 0) == 0 ? "by" : "over";
  text += heading(fmt::format("Best plans (simulated {} {})", by, depth).c_str());
  Rows rows = {{"", "plan", "step", "", "MFU", "GiB", "bubble"}};
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    rows.push_back(best_row(summary, std::to_string(i + 1), result.best[i].report));
  }
  if (result.baseline) {
    const std::string place =
        result.baseline_rank ? fmt::format("file ({})", *result.baseline_rank) : "file";
    rows.push_back(best_row(summary, place, result.baseline->report));
  } else {
    text += "  the file's own plan is illegal, does not fit or is none that search can run\n";
  }
  text += format_table(rows, {false, false, true, true, true, true, true});
  if (num_values(summary.space, sim::SpaceKey::GlobalBatch) > 1) {
    text += "  in the order of the time a token, since the batch is searched; so are percentages\n";
  }
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    if (result.best[i].depth == result.depth) continue;
    text += fmt::format("  {} by {}: {}\n", i + 1, result.best[i].depth,
                        result.best[i].report.warnings.back());
  }
}

void add_runs(const SearchSummary& summary, std::string& text) {
  if (summary.runs.empty()) return;
  text += heading(summary.unmet ? "The whole run with each of the best: none keeps every limit"
                                : "The whole run with each of the best");
  Rows rows;
  for (std::size_t i = 0; i < summary.runs.size(); ++i) {
    rows.push_back({std::to_string(i + 1), run_text(summary.runs[i].run)});
  }
  text += format_table(rows, {false, false});
  if (!summary.unmet) return;
  text += summary.unmet->together ? "  relax all of these together:\n"
                                  : "  relax one of these, the first first:\n";
  for (const auto& relaxation : summary.unmet->relaxations) {
    text += "    " + relaxation_text(relaxation) + "\n";
  }
}

void add_losers(const SearchSummary& summary, std::string& text) {
  const sim::SearchResult& result = summary.result;
  if (result.losers.empty()) return;
  text += heading(
      "Why others lost (the best of each kind; without the term it would win. Size: what the term "
      "costs it beyond what it costs the winner)");
  Rows rows = {{"plan", "step", "size", "what it loses by"}};
  const auto add = [&](const sim::Loser& loser) {
    rows.push_back({plan_cell(summary, loser.plan),
                    loser.step_time ? format_time(*loser.step_time) : "",
                    loser.too_slow ? format_time(*loser.too_slow)
                                   : format_memory(loser.too_large.value_or(model::Bytes{})),
                    loser.reason});
  };
  const std::size_t shown = std::min(result.losers.size(), kLosersShown);
  for (std::size_t i = 0; i < shown; ++i) add(result.losers[i]);
  text += format_table(rows, {false, true, true, false});
  if (shown < result.losers.size()) {
    text += fmt::format("  and {} more with --json\n", result.losers.size() - shown);
  }
}

void add_front(const SearchSummary& summary, std::string& text) {
  const sim::SearchResult& result = summary.result;
  text += heading("Front of time, memory, energy and cost (of one cluster, cost goes with time)");
  Rows rows = {{"plan", "step", "GiB", "energy a step", "cost a step"}};
  for (const sim::FrontPlan& point : result.front) {
    const sim::SimulationReport& report = point.report;
    rows.push_back({plan_cell(summary, report.plan), format_time(report.step_time),
                    format_memory_number(report.memory_peak),
                    format_energy_kwh(report.energy_per_step),
                    report.cost_per_step.value > 0 ? format_usd(report.cost_per_step) : "–"});
  }
  text += format_table(rows, {false, true, true, true, true});
  if (!result.front_complete) {
    text += "  plans with less energy may have been missed: too many came near\n";
  }
}

std::string outcome_of(const sim::SwitchEffect& effect) {
  if (!effect.step_time) return "illegal: " + effect.refusal;
  return effect.fits ? "" : "does not fit: " + format_memory(*effect.memory);
}

void add_switches(const SearchSummary& summary, std::string& text) {
  const sim::SearchResult& result = summary.result;
  text += heading("One switch of the best plan at a time");
  Rows rows = {{"key", "from", "to", "step", "", ""}};
  const model::Seconds first = result.best.front().plain_time;
  for (const sim::SwitchEffect& effect : result.switches) {
    if (!effect.step_time) continue;  // What is illegal is in the JSON.
    rows.push_back(
        {std::string(name_of(effect.key)), effect.from, effect.to, format_time(*effect.step_time),
         against_first(summary, effect.plan, *effect.step_time, first), outcome_of(effect)});
  }
  text += format_table(rows, {false, true, true, true, true, false});
}

void add_what_if(const SearchSummary& summary, std::string& text) {
  if (summary.what_if.empty()) return;
  text += heading("What another cluster would buy (the best plan chosen anew)");
  Rows rows = {{"with", "plan", "step", ""}};
  const model::Seconds first = summary.result.best.front().plain_time;
  for (const sim::WhatIf& change : summary.what_if) {
    if (!change.best) {
      rows.push_back({change.change, "no plan is legal and fits", "", ""});
      continue;
    }
    rows.push_back({change.change, plan_cell(summary, change.best->plan),
                    format_time(change.best->step_time),
                    against_first(summary, change.best->plan, change.best->step_time, first)});
  }
  text += format_table(rows, {false, false, true, true});
}

void add_impossible(const SearchSummary& summary, std::string& text) {
  const sim::ImpossibleWish& wish = *summary.result.impossible;
  text += "\n" + wish.message + "\n";
  for (const std::string& reason : wish.reasons) text += "  " + reason + "\n";
  if (wish.nearest) text += "  nearest: " + plan_cell(summary, wish.nearest->report.plan) + "\n";
  if (wish.relaxations.empty()) {
    text += "  no single constraint of the search is to blame\n";
    return;
  }
  text += heading("Relax one of these, the first first");
  Rows rows;
  for (const auto& relaxation : wish.relaxations) {
    rows.push_back({relaxation.what, relaxation.plan ? plan_cell(summary, *relaxation.plan) : "",
                    relaxation.step_time ? format_time(*relaxation.step_time) : ""});
  }
  text += format_table(rows, {false, false, true});
}

void write_losers(JsonWriter& json, const sim::SearchResult& result) {
  json.key("losers");
  json.begin_array();
  for (const sim::Loser& loser : result.losers) {
    json.begin_object();
    json.key("plan");
    write_plan(json, loser.plan);
    json.member("reason", loser.reason);
    if (loser.too_slow) {
      json.member("size", loser.too_slow->value);
      json.member("unit", "s");
      json.member("without", loser.terms);
    } else if (loser.too_large) {
      json.member("size", loser.too_large->value);
      json.member("unit", "bytes");
    }
    if (loser.step_time) json.member("step_time_s", loser.step_time->value);
    json.end_object();
  }
  json.end_array();
}

void write_front(JsonWriter& json, const sim::SearchResult& result) {
  json.key("pareto");
  json.begin_array();
  for (const sim::FrontPlan& point : result.front) {
    const sim::SimulationReport& report = point.report;
    json.begin_object();
    json.key("plan");
    write_plan(json, report.plan);
    json.member("step_time_s", report.step_time.value);
    json.member("peak_bytes", report.memory_peak.value);
    if (report.energy_per_step.value > 0) {
      json.member("energy_j_per_step", report.energy_per_step.value);
    }
    if (report.cost_per_step.value > 0) {
      json.member("cost_usd_per_step", report.cost_per_step.value);
    }
    json.end_object();
  }
  json.end_array();
}

void write_switches(JsonWriter& json, const sim::SearchResult& result) {
  json.key("switches");
  json.begin_array();
  for (const sim::SwitchEffect& effect : result.switches) {
    json.begin_object();
    json.member("key", name_of(effect.key));
    json.member("from", effect.from);
    json.member("to", effect.to);
    json.member("legal", effect.step_time.has_value());
    if (effect.step_time) {
      json.member("step_time_s", effect.step_time->value);
      json.member("peak_bytes", effect.memory->value);
      json.member("fits", effect.fits);
    } else {
      json.member("reason", effect.refusal);
    }
    json.end_object();
  }
  json.end_array();
}

void write_what_if(JsonWriter& json, const SearchSummary& summary) {
  json.key("what_if");
  json.begin_array();
  for (const sim::WhatIf& change : summary.what_if) {
    json.begin_object();
    json.member("change", change.change);
    json.member("fits", change.best.has_value());
    if (change.best) {
      json.key("plan");
      write_plan(json, change.best->plan);
      json.member("gpus", change.best->gpus);
      json.member("step_time_s", change.best->step_time.value);
    }
    json.end_object();
  }
  json.end_array();
}

void write_found(JsonWriter& json, const sim::FoundPlan& found) {
  json.begin_object();
  json.member("depth", found.depth);
  json.member("plain_step_time_s", found.plain_time.value);
  write_report_members(json, found.report);
  json.end_object();
}

void write_impossible(JsonWriter& json, const sim::ImpossibleWish& wish) {
  json.key("error");
  json.begin_object();
  json.member("code", "no_plan");
  json.member("message", wish.message);
  json.member("reasons", wish.reasons);
  json.key("nearest");
  json.begin_array();
  if (wish.nearest) write_found(json, *wish.nearest);
  json.end_array();
  json.key("relax");
  json.begin_array();
  for (const auto& relaxation : wish.relaxations) {
    json.begin_object();
    json.member("what", relaxation.what);
    if (relaxation.plan) {
      json.key("plan");
      write_plan(json, *relaxation.plan);
    }
    if (relaxation.step_time) json.member("step_time_s", relaxation.step_time->value);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_runs(JsonWriter& json, const SearchSummary& summary) {
  if (summary.runs.empty()) return;
  json.key("runs");
  json.begin_array();
  for (const sim::PurchaseOption& option : summary.runs) {
    json.begin_object();
    write_training_run(json, option.run);
    json.end_object();
  }
  json.end_array();
  if (!summary.unmet) return;
  json.key("relax");
  json.begin_array();
  for (const auto& relaxation : summary.unmet->relaxations) json.text(relaxation_text(relaxation));
  json.end_array();
}

}  // namespace

std::string terminal_search(const SearchSummary& summary) {
  const sim::SearchResult& result = summary.result;
  std::string text;
  add_counts(summary, text);
  if (result.impossible) {
    add_impossible(summary, text);
    return text;
  }
  add_best(summary, text);
  add_runs(summary, text);
  add_losers(summary, text);
  add_front(summary, text);
  add_switches(summary, text);
  add_what_if(summary, text);
  return text;
}

std::string json_search(const SearchSummary& summary) {
  const sim::SearchResult& result = summary.result;
  JsonWriter json(JsonWriter::Layout::Indented);
  json.begin_object();
  json.member("name", summary.job.name);
  json.member("candidates", result.candidates);
  json.member("fit", result.fit);
  json.key("evaluated");
  json.begin_object();
  json.member("bound", result.evaluated.bound);
  json.member("dataflow", result.evaluated.dataflow);
  json.member("of_fitting", result.evaluated.of_fitting);
  json.member("baseline", result.evaluated.baseline);
  json.member("front", result.evaluated.front);
  json.member("switches", result.evaluated.switches);
  json.member("events", result.evaluated.events);
  json.end_object();
  json.key("best");
  json.begin_array();
  for (const sim::FoundPlan& found : result.best) write_found(json, found);
  json.end_array();
  write_runs(json, summary);
  if (result.baseline) {
    json.key("baseline");
    write_found(json, *result.baseline);
    if (result.baseline_rank) json.member("baseline_rank", *result.baseline_rank);
  }
  write_losers(json, result);
  write_front(json, result);
  json.member("pareto_complete", result.front_complete);
  json.member("not_searched", result.not_searched);
  write_switches(json, result);
  if (!summary.what_if.empty()) write_what_if(json, summary);
  if (result.impossible) write_impossible(json, *result.impossible);
  json.member("elapsed_s", summary.elapsed.value);
  json.end_object();
  return json.finish();
}

}  // namespace megatwin::cli
