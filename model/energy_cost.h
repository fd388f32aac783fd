// Power, energy, money and carbon of GPUs and machines over time.
#ifndef MEGATWIN_MODEL_ENERGY_COST_H_
#define MEGATWIN_MODEL_ENERGY_COST_H_

#include "model/units.h"

namespace megatwin::model {

// GPU time: number of GPUs times how long.
struct GpuTime {
  double num_gpus = 0;
  Seconds time;
  Seconds total() const { return num_gpus * time; }
};

// Affine in use: idle + (cap − idle)·(w_c·tensor + w_m·memory), clipped at the cap.
struct GpuPower {
  Watts idle, cap;
  double tensor_weight = 0.7, memory_weight = 0.3;
};
Watts gpu_power(const GpuPower& power, double tensor_utilization, double memory_utilization);

Joules energy(Watts per_unit, double num_units, Seconds time);

// At the meter: machines' energy times the power usage effectiveness of the building.
Joules facility_energy(Watts per_node, double num_nodes, Seconds time,
                       double power_usage_effectiveness);

constexpr double in_kilowatt_hours(Joules joules) { return joules.value / 3.6e6; }
constexpr double in_gigawatt_hours(Joules joules) { return joules.value / 3.6e12; }

// Mass of CO2 equivalent in kg, from kg/kWh, and the intensity that a published mass implies.
double carbon_kg(Joules joules, double kg_per_kilowatt_hour);
double implied_carbon_intensity(double kg, Joules joules);

// A machine's hourly price split over its GPUs.
Usd gpu_hour_price(Usd node_hour, double gpus_per_node);

// Hours of GPUs at an hourly price each; divided by goodput, since lost hours are paid too.
Usd training_cost(const GpuTime& gpus, Usd gpu_hour, double goodput = 1);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_ENERGY_COST_H_
