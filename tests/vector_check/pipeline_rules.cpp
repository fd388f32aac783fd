#include "model/pipeline_closed_forms.h"
#include "tests/vector_check/rules.h"

namespace megatwin::vector_check {
namespace {

using model::PipelineShape;
using model::ScheduleKind;
using model::Seconds;
using model::SplitSchedule;
using model::StageTimes;

PipelineShape shape_from(const Inputs& in) {
  return {in.need({"p", "PP", "pp", "P"}), in.get({"m", "M"}, 1), in.get({"v", "V", "vpp"}, 1)};
}

// F, B, W: with no W, B is the whole backward pass.
StageTimes times_from(const Inputs& in) {
  return {{in.need({"tf", "TF", "F", "t_f", "T_F"})},
          {in.need({"tb", "TB", "B", "t_b", "T_B"})},
          {in.get({"tw", "TW", "W", "t_w", "T_W"}, 0)}};
}

double makespan(const Row& row, ScheduleKind schedule) {
  row.inputs.need({"m", "M"});
  return row.in_unit(
      model::pipeline_makespan(schedule, shape_from(row.inputs), times_from(row.inputs)));
}

double makespan_zero_bubble_h2(const Row& row) {
  const PipelineShape shape = shape_from(row.inputs);
  const StageTimes times = times_from(row.inputs);
  return row.in_unit(shape.micro_batches * times.total() +
                     model::bubble_time_zero_bubble_h2(shape, times));
}

double makespan_sc21(const Row& row) {
  const Inputs& in = row.inputs;
  return row.in_unit(model::step_time_of_replica({in.need({"b_prime"}), in.get({"b"}, 1)},
                                                 in.need({"p"}), times_from(in)));
}

double flow_shop(const Row& row) {
  std::vector<Seconds> times;
  for (const double t : row.inputs.need_list({"t", "times"})) times.push_back({t});
  return row.in_unit(model::flow_shop_makespan(times, row.inputs.need({"m"})));
}

double uneven_bound(const Row& row) {
  const std::vector<double> forward = row.inputs.need_list({"f", "tf", "F"});
  const std::vector<double> backward = row.inputs.need_list({"b", "tb", "B"});
  if (forward.size() != backward.size()) throw MissingInput("as many f as b");
  std::vector<StageTimes> stages;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    stages.push_back({{forward[i]}, {backward[i]}, {}});
  }
  return row.in_unit(model::uneven_1f1b_bound(stages, row.inputs.need({"m"})));
}

double bubble_dualpipe(const Row& row) {
  const Inputs& in = row.inputs;
  return row.in_unit(model::bubble_time_dualpipe(shape_from(in),
                                                 {in.need({"F_and_B", "FB", "F&B"})},
                                                 {in.need({"B", "TB"})}, {in.need({"W", "TW"})}));
}

// Relative to 1F1B's bubble fraction, as the zero-bubble README lists rates.
double split_bubble_rate(const Row& row, SplitSchedule schedule) {
  row.inputs.need({"m", "M"});
  return row.in_unit(model::bubble_over_1f1b(schedule) *
                     model::bubble_fraction(shape_from(row.inputs)));
}

double in_flight(const Row& row, ScheduleKind schedule) {
  Inputs in = row.inputs;
  PipelineShape shape = shape_from(in);
  shape.micro_batches = in.get({"m", "M"}, 1e9);
  const int stage = static_cast<int>(in.get({"i", "stage", "r", "rank"}, 0));
  return model::in_flight_micro_batches(schedule, shape, stage);
}

double in_flight_split(const Row& row, SplitSchedule schedule) {
  const PipelineShape shape = shape_from(row.inputs);
  return shape.stages * model::memory_over_1f1b(schedule, shape);
}

Rules makespan_rules() {
  const auto of = [](ScheduleKind kind) {
    return [kind](const Row& row) { return makespan(row, kind); };
  };
  return {
      {"makespan sc21_eq1|eq1", makespan_sc21},
      {"makespan|flowshop", flow_shop},
      {"makespan|bound 1f1b|uneven", uneven_bound},
      {"makespan|time zb_h2|zbh2|zb2p|h2 -bubble", makespan_zero_bubble_h2},
      {"makespan zb_h1|zbh1|zb1p|h1", of(ScheduleKind::ZeroBubbleH1)},
      {"makespan zb_v|zbv", of(ScheduleKind::ZeroBubbleV)},
      {"makespan interleaved|vpp", of(ScheduleKind::Interleaved)},
      {"makespan gpipe", of(ScheduleKind::GPipe)},
      {"makespan 1f1b", of(ScheduleKind::OneForwardOneBackward)},
  };
}

Rules bubble_rules() {
  const auto rate = [](SplitSchedule schedule) {
    return [schedule](const Row& row) { return split_bubble_rate(row, schedule); };
  };
  const auto time = [](auto function) {
    return [function](const Row& row) {
      return row.in_unit(function(shape_from(row.inputs), times_from(row.inputs)));
    };
  };
  return {
      {"bubble dualpipe", bubble_dualpipe},
      {"bubble_vs_dp|bubble_dp",
       [](const Row& row) {
         return model::bubble_ratio_of_replicas(row.inputs.need({"n"}), row.inputs.need({"d"}),
                                                row.inputs.need({"b_prime"}));
       }},
      {"bubble zb_h1|zbh1|zb1p|h1", time(model::bubble_time_zero_bubble_h1)},
      {"bubble zb_h2|zbh2|zb2p|h2", time(model::bubble_time_zero_bubble_h2)},
      {"bubble zb_h1|zbh1|zb1p|h1", rate(SplitSchedule::ZeroBubbleH1)},
      {"bubble zb_h2|zbh2|zb2p|h2", rate(SplitSchedule::ZeroBubbleH2)},
      {"bubble zb_v|zbv", rate(SplitSchedule::ZeroBubbleV)},
      {"bubble v_half|vhalf|v-half", rate(SplitSchedule::VHalf)},
      {"bubble v_min|vmin|v-min", rate(SplitSchedule::VMin)},
      {"bubble_time interleaved",
       [](const Row& row) {
         const PipelineShape shape = shape_from(row.inputs);
         return row.in_unit(model::bubble_time_1f1b(shape, times_from(row.inputs)) / shape.chunks);
       }},
      {"bubble_time", time(model::bubble_time_1f1b)},
      {"bubble total",
       [](const Row& row) { return row.in_unit(model::bubble_fraction(shape_from(row.inputs))); }},
      {"bubble ratio|ideal|interleaved",
       [](const Row& row) {
         row.inputs.need({"m"});
         return row.in_unit(model::bubble_ratio(shape_from(row.inputs)));
       }},
      {"bubble",
       [](const Row& row) {
         row.inputs.need({"m"});
         return row.in_unit(model::bubble_fraction(shape_from(row.inputs)));
       }},
  };
}

}  // namespace

Rules pipeline_rules() {
  Rules rules = makespan_rules();
  const Rules bubbles = bubble_rules();
  rules.insert(rules.end(), bubbles.begin(), bubbles.end());
  const auto held = [](ScheduleKind kind) {
    return [kind](const Row& row) { return in_flight(row, kind); };
  };
  const auto split = [](SplitSchedule schedule) {
    return [schedule](const Row& row) { return in_flight_split(row, schedule); };
  };
  const Rules in_flight_rules = {
      {"in_flight|inflight zb_h2|zbh2|zb2p", split(SplitSchedule::ZeroBubbleH2)},
      {"in_flight|inflight v_half|vhalf", split(SplitSchedule::VHalf)},
      {"in_flight|inflight v_min|vmin", split(SplitSchedule::VMin)},
      {"in_flight|inflight zb_v|zbv", split(SplitSchedule::ZeroBubbleV)},
      {"in_flight|inflight zb", split(SplitSchedule::ZeroBubbleH1)},
      {"in_flight|inflight gpipe", held(ScheduleKind::GPipe)},
      {"in_flight|inflight interleaved", held(ScheduleKind::Interleaved)},
      {"in_flight|inflight", held(ScheduleKind::OneForwardOneBackward)},
  };
  rules.insert(rules.end(), in_flight_rules.begin(), in_flight_rules.end());
  return rules;
}

}  // namespace megatwin::vector_check
