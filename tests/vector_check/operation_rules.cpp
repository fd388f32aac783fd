// Kernels; and running a cluster: failures, stragglers, energy, cost, splits, networks.
#include <cmath>

#include "model/energy_cost.h"
#include "model/fat_tree.h"
#include "model/gemm_cost.h"
#include "model/heterogeneous.h"
#include "model/reliability.h"
#include "model/roofline.h"
#include "model/stragglers.h"
#include "tests/vector_check/rules.h"

namespace megatwin::vector_check {
namespace {

using model::Bytes;
using model::BytesPerSecond;
using model::FlopPerSecond;
using model::GemmShape;
using model::Hertz;
using model::Joules;
using model::Seconds;
using model::Watts;

constexpr double kMinute = 60;
constexpr double kHour = 3600;
constexpr double kDay = 86400;

std::int64_t whole(double value) { return std::llround(value); }

GemmShape gemm_from(const Inputs& in) {
  return {.m = whole(in.need({"m", "M"})),
          .n = whole(in.need({"n", "N"})),
          .k = whole(in.get({"k", "K"}, 1))};
}

std::int64_t tiles_from(const Inputs& in) {
  if (const auto tiles = in.find({"tiles", "C"})) return whole(*tiles);
  return model::num_tiles(gemm_from(in), whole(in.get({"tile_m", "tm"}, 128)),
                          whole(in.get({"tile_n", "tn"}, 256)));
}

double gemm_time(const Row& row) {
  const Inputs& in = row.inputs;
  return row.in_unit(
      model::gemm_time(gemm_from(in), {in.need({"peak"})}, in.get({"eff", "efficiency"}, 1)));
}

double gemm_rate(const Row& row) {
  return row.in_unit(model::gemm_flop(gemm_from(row.inputs)) / row.inputs.need_time({"t", "time"}));
}

double norm_rate(const Row& row) {
  const Inputs& in = row.inputs;
  const Bytes traffic =
      model::norm_traffic(in.need({"N", "rows"}), in.need({"C", "cols"}), {in.need({"bytes"})});
  return row.in_unit(traffic / in.need_time({"t", "time"}));
}

model::CheckpointCost checkpoint_from(const Inputs& in) {
  return {in.need_time({"d", "delta", "write", "w"}, kMinute),
          in.need_time({"M", "mtbf", "mttf"}, kMinute)};
}

double nodes_from(const Inputs& in) {
  if (const auto nodes = in.find({"N", "nodes", "N_nodes", "n_nodes"})) return *nodes;
  return in.need({"gpus"}) / in.get({"gpn", "gpus_per_node"}, 8);
}

double failure_rate(const Inputs& in) { return in.need({"r_per_node_day", "r", "r_f", "rate"}); }

double training_time_ratio(const Row& row) {
  const Inputs& in = row.inputs;
  return row.in_unit(model::expected_training_time_ratio(
      {.mean_time_to_failure = model::job_mean_time_to_failure(nodes_from(in), failure_rate(in)),
       .restart = in.need_time({"u0", "u"}, kDay),
       .write = in.need_time({"w"}, kDay),
       .interval = in.need_time({"dt", "interval"}, kDay)}));
}

model::FailureModel failure_model(const Inputs& in) {
  return {.interval = in.need_time({"tau", "interval"}),
          .write = in.need_time({"d", "delta", "w"}),
          .restart = in.find_time("R", 1).value_or(in.find_time("restart", 1).value_or(Seconds{})),
          .mean_time_to_failure = in.need_time({"M", "mtbf", "mttf"})};
}

double spares(const Row& row) {
  const Inputs& in = row.inputs;
  const double per_day = in.has({"lambda", "lambda_per_day", "failures_per_day"})
                             ? in.need({"lambda", "lambda_per_day", "failures_per_day"})
                             : nodes_from(in) * failure_rate(in);
  return model::spare_nodes(per_day, in.need_time({"D", "replacement"}, kDay),
                            in.get({"eps", "epsilon"}, 0.01));
}

Rules reliability_rules() {
  const auto interval = [](auto function) {
    return
        [function](const Row& row) { return row.in_unit(function(checkpoint_from(row.inputs))); };
  };
  return {
      {"mttf job|cluster|hours",
       [](const Row& row) {
         return row.in_unit(
             model::job_mean_time_to_failure(nodes_from(row.inputs), failure_rate(row.inputs)));
       }},
      {"mtbf|mttf",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(model::mean_time_between_failures(in.need_time({"days"}, kDay),
                                                              in.need({"count", "failures"})));
       }},
      {"mtbf|mttf",
       [](const Row& row) {
         return row.in_unit(
             model::job_mean_time_to_failure(nodes_from(row.inputs), failure_rate(row.inputs)));
       }},
      {"rate node|day",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return in.need({"count", "failures"}) / (nodes_from(in) * in.need({"days"}));
       }},
      {"loss",
       [](const Row& row) {
         return row.in_unit(model::loss_at_best_interval(checkpoint_from(row.inputs)));
       }},
      {"daly first", interval(model::daly_first_order_interval)},
      {"daly", interval(model::daly_interval)},
      {"young", interval(model::young_interval)},
      {"ettr", training_time_ratio},
      {"stall",
       [](const Row& row) {
         return row.in_unit(model::checkpoint_stall_fraction(
             row.inputs.need_time({"w", "write"}), row.inputs.need_time({"interval", "dt"})));
       }},
      {"goodput",
       [](const Row& row) {
         return row.in_unit(model::expected_goodput(failure_model(row.inputs)));
       }},
      {"segment|exponential_model",
       [](const Row& row) {
         return row.in_unit(model::expected_segment_time(failure_model(row.inputs)));
       }},
      {"spare", spares},
      {"elastic|shrink",
       [](const Row& row) {
         return row.in_unit(model::elastic_throughput(row.inputs.need({"d", "dp"})));
       }},
  };
}

Rules straggler_rules() {
  return {
      {"max uniform",
       [](const Row& row) { return model::expected_max_uniform(row.inputs.need({"n"})); }},
      {"max exponential|_exp",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(
             model::expected_max_exponential({in.get({"mean", "mu"}, 1)}, in.need_int({"n"})));
       }},
      {"max normal -exact",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(model::expected_max_normal_asymptotic(
             {{in.get({"mu", "mean"}, 0)}, {in.get({"sigma"}, 1)}}, in.need({"n"})));
       }},
      {"max normal",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(model::expected_max_normal(
             {{in.get({"mu", "mean"}, 0)}, {in.get({"sigma"}, 1)}}, in.need({"n"})));
       }},
  };
}

// GPU hours at a power each; `kW` or `W`.
Joules gpu_energy(const Inputs& in) {
  const double watts = in.has({"W"}) ? in.need({"W"}) : 1000 * in.need({"kW"});
  return model::energy({watts}, in.need({"gpu_hours"}), {kHour});
}

double price_of_gpu_hour(const Inputs& in) {
  const double price =
      in.has({"instance_price"}) ? in.need({"instance_price"}) : in.need({"price"});
  return model::gpu_hour_price({price}, in.get({"gpus_per_instance", "gpn"}, 8)).value;
}

double training_cost(const Row& row) {
  const Inputs& in = row.inputs;
  const double goodput = in.get({"goodput"}, 1);
  if (in.has({"gpu_hours"})) {
    return model::training_cost({in.need({"gpu_hours"}), {kHour}}, {in.need({"price"})}, goodput)
        .value;
  }
  if (in.has({"nodes"})) {
    const Seconds time =
        in.has({"hours"}) ? in.need_time({"hours"}, kHour) : in.need_time({"days", "wall"}, kDay);
    return model::training_cost({in.need({"nodes"}), time}, {in.need({"price", "instance_price"})},
                                goodput)
        .value;
  }
  return model::training_cost({in.need({"n", "gpus"}), in.need_time({"days"}, kDay)},
                              {price_of_gpu_hour(in)}, goodput)
      .value;
}

double facility_energy(const Row& row) {
  const Inputs& in = row.inputs;
  const Seconds time = row.says("day") ? Seconds{kDay} : in.need_time({"hours"}, kHour);
  return model::in_kilowatt_hours(model::facility_energy(
      {1000 * in.need({"kW"})}, in.need({"nodes"}), time, in.get({"PUE"}, 1)));
}

Rules energy_rules() {
  return {
      {"carbon intensity",
       [](const Row& row) {
         return model::implied_carbon_intensity(1000 * row.inputs.need({"t", "tons", "tonnes"}),
                                                gpu_energy(row.inputs));
       }},
      {"carbon",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         const Joules joules = in.has({"kWh", "energy_kwh"})
                                   ? Joules{3.6e6 * in.need({"kWh", "energy_kwh"})}
                                   : gpu_energy(in);
         const double kg =
             model::carbon_kg(joules, in.need({"intensity", "kg_per_kWh", "kg_per_kwh"}));
         return row.unit == "t" || row.unit == "tCO2e" ? kg / 1000 : kg;
       }},
      {"facility|node energy|kwh", facility_energy},
      {"energy gwh|mwh|kwh",
       [](const Row& row) {
         const Joules joules = gpu_energy(row.inputs);
         if (row.says("gwh")) return model::in_gigawatt_hours(joules);
         return model::in_kilowatt_hours(joules) / (row.says("mwh") ? 1000 : 1);
       }},
      {"power gpu",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return model::gpu_power({{in.need({"idle", "P_idle"})},
                                  {in.need({"tdp", "TDP"})},
                                  in.get({"w_c"}, 1),
                                  in.get({"w_m"}, 0)},
                                 in.get({"tensor_util", "u_c", "util"}, 0),
                                 in.get({"hbm_util", "u_m"}, 0))
             .value;
       }},
      {"gpu_hour|per_gpu price", [](const Row& row) { return price_of_gpu_hour(row.inputs); }},
      {"cost", training_cost},
  };
}

std::vector<double> two_speeds(const Inputs& in) {
  if (in.has({"f", "speeds"})) return in.need_list({"f", "speeds"});
  return {in.need({"fa", "f_fast"}), in.need({"fb", "f_slow"})};
}

double fast_part(const Row& row) {
  const Inputs& in = row.inputs;
  const auto units =
      model::min_max_split(whole(in.need({"L", "m", "total", "K", "B"})), two_speeds(in));
  return static_cast<double>(row.says("slow") ? units.back() : units.front());
}

double split_time(const Row& row) {
  const Inputs& in = row.inputs;
  const auto speeds = two_speeds(in);
  const auto units = model::min_max_split(whole(in.need({"L", "m", "total", "K", "B"})), speeds);
  return row.says("util") ? model::split_utilization(units, speeds)
                          : model::slowest_part(units, speeds);
}

Rules placement_rules() {
  return {
      {"util even|equal",
       [](const Row& row) {
         return row.in_unit(model::even_split_utilization(two_speeds(row.inputs)));
       }},
      {"util|makespan|time minmax|split|hetero", split_time},
      {"layers|microbatches|micro_batches|split fast|slow|minmax|hetero", fast_part},
      {"fat_tree|clos switches",
       [](const Row& row) {
         return static_cast<double>(
             model::fat_tree_switches(whole(row.inputs.need({"k"})), row.says("2tier") ? 2 : 3));
       }},
      {"fat_tree|clos",
       [](const Row& row) {
         const int tiers = row.inputs.has({"tiers"}) ? row.inputs.need_int({"tiers"})
                           : row.says("2tier")       ? 2
                                                     : 3;
         return static_cast<double>(model::fat_tree_hosts(whole(row.inputs.need({"k"})), tiers));
       }},
  };
}

}  // namespace

Rules kernel_rules() {
  return {
      {"peak clock",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(model::peak_from_clock({in.need({"clock", "clk"})}, in.need({"fma"}),
                                                   in.need({"cores", "tc"})));
       }},
      {"hbm|memory|dram bandwidth clock",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(model::memory_bandwidth_from_clock({in.need({"clk", "clock"})},
                                                               {in.need({"bus_bytes"})}));
       }},
      {"wave efficiency|quant",
       [](const Row& row) {
         return row.in_unit(
             model::wave_efficiency(tiles_from(row.inputs), whole(row.inputs.need({"SM", "SMs"}))));
       }},
      {"waves|wave_count|num_wave",
       [](const Row& row) {
         return static_cast<double>(
             model::num_waves(tiles_from(row.inputs), whole(row.inputs.need({"SM", "SMs"}))));
       }},
      {"tile efficiency",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return model::tile_efficiency(gemm_from(in), whole(in.get({"tile_m", "tm"}, 128)),
                                       whole(in.get({"tile_n", "tn"}, 256)));
       }},
      {"tiles|tile_count",
       [](const Row& row) { return static_cast<double>(tiles_from(row.inputs)); }},
      {"ridge",
       [](const Row& row) {
         return model::roofline_ridge({row.inputs.need({"peak"})}, {row.inputs.need({"bw"})}).value;
       }},
      {"roofline time",
       [](const Row& row) {
         const Inputs& in = row.inputs;
         return row.in_unit(model::roofline_time({in.need({"flop", "flops"})}, {in.need({"peak"})},
                                                 {in.need({"bytes"})}, {in.need({"bw"})}));
       }},
      {"gemm time", gemm_time},
      {"gemm tflops|achieved", gemm_rate},
      {"norm bandwidth|bw", norm_rate},
  };
}

Rules operation_rules() {
  Rules rules = reliability_rules();
  for (const Rules& more : {straggler_rules(), energy_rules(), placement_rules()}) {
    rules.insert(rules.end(), more.begin(), more.end());
  }
  return rules;
}

}  // namespace megatwin::vector_check
