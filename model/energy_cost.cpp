#include "model/energy_cost.h"

#include <algorithm>

namespace megatwin::model {
namespace {

constexpr double kSecondsPerHour = 3600;

}  // namespace

Watts gpu_power(const GpuPower& power, double tensor_utilization, double memory_utilization) {
  const double load =
      power.tensor_weight * tensor_utilization + power.memory_weight * memory_utilization;
  const Watts drawn{power.idle.value + (power.cap.value - power.idle.value) * load};
  return std::min(drawn, power.cap);
}

Joules energy(Watts per_unit, double num_units, Seconds time) {
  return num_units * per_unit * time;
}

Joules facility_energy(Watts per_node, double num_nodes, Seconds time,
                       double power_usage_effectiveness) {
  return {power_usage_effectiveness * energy(per_node, num_nodes, time).value};
}

double carbon_kg(Joules joules, double kg_per_kilowatt_hour) {
  return in_kilowatt_hours(joules) * kg_per_kilowatt_hour;
}

double implied_carbon_intensity(double kg, Joules joules) { return kg / in_kilowatt_hours(joules); }

Usd gpu_hour_price(Usd node_hour, double gpus_per_node) {
  return {node_hour.value / gpus_per_node};
}

Usd training_cost(const GpuTime& gpus, Usd gpu_hour, double goodput) {
  return {gpus.total().value / kSecondsPerHour * gpu_hour.value / goodput};
}

}  // namespace megatwin::model
