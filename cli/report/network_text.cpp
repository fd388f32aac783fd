#include "cli/report/network_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/report/format.h"

namespace megatwin::cli {
namespace {

std::string link_line(const sim::LinkLoad& load) {
  const std::string users = link_users(load);
  if (load.of_one_collective) {
    return fmt::format("{}: {}; makes {} take {:.2f} times as long as alone", load.link, users,
                       load.first_delayed, load.slowdown);
  }
  return fmt::format("{}: {}; {} busy, delays them by {} in all", load.link, users,
                     format_percent(load.full), format_time(load.delay));
}

ReportSection links_section(const sim::SimulationReport& report) {
  ReportSection section{.title = "Links that delay traffic, the worst first", .lines = {}};
  for (const sim::LinkLoad& load : report.links) {
    std::string line = link_line(load);
    for (const std::string& user : load.users) line += fmt::format("\n      {}", user);
    section.lines.push_back(std::move(line));
  }
  return section;
}

ReportSection disturbance_section(const sim::SimulationReport& report) {
  const sim::DisturbanceReport& disturbed = *report.disturbed;
  ReportSection section{.title = "What the disturbances do", .lines = {}};
  for (const std::string& cause : disturbed.causes) section.lines.push_back("cause: " + cause);
  section.lines.insert(section.lines.end(), disturbed.chain.begin(), disturbed.chain.end());
  return section;
}

// √(2dM) − d is of use for d ≪ M only; from d = 2M on it is no interval.
std::string first_order_text(model::Seconds interval) {
  if (interval.value > 0) return "first order " + format_duration(interval);
  return "no first order: a checkpoint blocks for twice the time between failures or more";
}

ReportSection goodput_section(const sim::GoodputReport& goodput) {
  ReportSection section{
      .title = fmt::format("{} of training under failures", format_duration(goodput.job.span)),
      .lines = {}};
  auto& lines = section.lines;
  lines.push_back(fmt::format("a failure every {} on average",
                              format_duration(goodput.mean_time_between_failures)));
  lines.push_back(fmt::format(
      "a checkpoint of {:.4g} GB blocks for {} and is durable after {}",
      goodput.checkpoint.value / 1e9, format_duration(goodput.job.checkpoint_blocks),
      format_duration(std::max(goodput.job.checkpoint_blocks, goodput.job.checkpoint_durable))));
  lines.push_back(
      fmt::format("checkpoints every {} of work; Young {}, Daly {} ({}), best simulated {}",
                  format_duration(goodput.job.interval), format_duration(goodput.young),
                  format_duration(goodput.daly), first_order_text(goodput.daly_first_order),
                  format_duration(goodput.best_simulated)));
  const sim::GoodputSpread& spread = goodput.spread;
  lines.push_back(fmt::format(
      "goodput {} on average, {} to {} in nine of ten runs ({} from {}); closed form {}, "
      "effective training time ratio {}",
      format_percent(spread.mean), format_percent(spread.p05), format_percent(spread.p95),
      format_counted(goodput.seeds, "seed"), goodput.first_seed, format_percent(goodput.expected),
      format_percent(goodput.expected_ratio)));
  lines.push_back(fmt::format(
      "lost: {} to work done again, {} to checkpoints, {} to detection and restart, {} waiting for "
      "a node, {} to missing replicas",
      format_percent(spread.redone), format_percent(spread.checkpoints),
      format_percent(spread.restarts), format_percent(spread.waiting),
      format_percent(spread.shrunk)));
  return section;
}

void write_links(JsonWriter& json, const sim::SimulationReport& report) {
  json.key("links");
  json.begin_array();
  for (const sim::LinkLoad& load : report.links) {
    json.begin_object();
    json.member("link", load.link);
    json.member("capacity_bytes_per_s", load.capacity.value);
    json.member("demand_bytes_per_s", load.demand.value);
    json.member("carried_bytes", load.carried.value);
    json.member("busy_fraction", load.full);
    json.member("delay_s", load.delay.value);
    json.member("of_one_collective", load.of_one_collective);
    if (load.of_one_collective) json.member("slowdown", load.slowdown);
    json.member("num_users", load.num_users);
    json.member("users", load.users);
    json.end_object();
  }
  json.end_array();
}

void write_goodput(JsonWriter& json, const sim::GoodputReport& goodput) {
  json.key("goodput");
  json.begin_object();
  json.member("mean", goodput.spread.mean);
  json.member("p05", goodput.spread.p05);
  json.member("p50", goodput.spread.p50);
  json.member("p95", goodput.spread.p95);
  json.member("seeds", goodput.seeds);
  json.member("closed_form", goodput.expected);
  json.member("effective_training_time_ratio", goodput.expected_ratio);
  json.member("mean_time_between_failures_s", goodput.mean_time_between_failures.value);
  json.member("failures_mean", goodput.spread.failures_mean);
  json.member("span_s", goodput.job.span.value);
  json.member("interval_s", goodput.job.interval.value);
  json.member("young_interval_s", goodput.young.value);
  if (goodput.daly_first_order.value > 0) {
    json.member("daly_first_order_interval_s", goodput.daly_first_order.value);
  } else {
    json.key("daly_first_order_interval_s");
    json.null();
  }
  json.member("daly_interval_s", goodput.daly.value);
  json.member("best_simulated_interval_s", goodput.best_simulated.value);
  json.member("checkpoint_bytes", goodput.checkpoint.value);
  json.member("checkpoint_blocks_s", goodput.job.checkpoint_blocks.value);
  json.member("checkpoint_durable_s", goodput.job.checkpoint_durable.value);
  json.member("lost_redone", goodput.spread.redone);
  json.member("lost_checkpoints", goodput.spread.checkpoints);
  json.member("lost_restarts", goodput.spread.restarts);
  json.member("lost_waiting", goodput.spread.waiting);
  json.member("lost_missing_replicas", goodput.spread.shrunk);
  json.end_object();
}

}  // namespace

std::string link_users(const sim::LinkLoad& load) {
  return fmt::format("{:.4g} GB/s, {} would want {:.4g} GB/s", load.capacity.value / 1e9,
                     format_counted(load.num_users, "user"), load.demand.value / 1e9);
}

std::vector<ReportSection> network_sections(const sim::SimulationReport& report) {
  std::vector<ReportSection> sections;
  if (report.disturbed) sections.push_back(disturbance_section(report));
  if (!report.links.empty()) sections.push_back(links_section(report));
  if (report.goodput) sections.push_back(goodput_section(*report.goodput));
  return sections;
}

void write_network_members(JsonWriter& json, const sim::SimulationReport& report) {
  // Traffic inside tasks is delayed by links without a flow of the step.
  if (report.network_flows + report.network_closed_form > 0 || !report.links.empty()) {
    json.member("network_flows", report.network_flows);
    json.member("network_closed_form", report.network_closed_form);
    write_links(json, report);
  }
  if (report.disturbed) {
    json.key("disturbances");
    json.begin_object();
    json.member("undisturbed_step_time_s", report.disturbed->undisturbed_step_time.value);
    json.member("step_time_change_s",
                (report.step_time - report.disturbed->undisturbed_step_time).value);
    json.member("causes", report.disturbed->causes);
    json.member("chain", report.disturbed->chain);
    json.end_object();
  }
  if (report.goodput) write_goodput(json, *report.goodput);
}

}  // namespace megatwin::cli
