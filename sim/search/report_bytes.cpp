#include "sim/search/report_bytes.h"

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/assert.h"

namespace megatwin::sim {
namespace {

// What a reader fills, or what a writer reads.
template <class Io, class T>
using Of = std::conditional_t<Io::kReads, T, const T>;

// The fields of each struct that holds more than plain bytes, in their order.

template <class Io>
void visit(Io& io, Of<Io, model::PartFailures>& value) {
  auto& [part, count, per_day] = value;
  io(part, count, per_day);
}

template <class Io>
void visit(Io& io, Of<Io, GoodputJob>& value) {
  auto& [failures, span, interval, checkpoint_blocks, checkpoint_durable, detection, restart,
         restart_can_fail, spares, repair, replicas, reconfiguration] = value;
  io(failures, span, interval, checkpoint_blocks, checkpoint_durable, detection, restart,
     restart_can_fail, spares, repair, replicas, reconfiguration);
}

template <class Io>
void visit(Io& io, Of<Io, GoodputReport>& value) {
  auto& [job, checkpoint, mean_time_between_failures, young, daly_first_order, daly, best_simulated,
         expected, expected_ratio, spread, seeds, first_seed] = value;
  io(job, checkpoint, mean_time_between_failures, young, daly_first_order, daly, best_simulated,
     expected, expected_ratio, spread, seeds, first_seed);
}

template <class Io>
void visit(Io& io, Of<Io, DisturbanceReport>& value) {
  auto& [undisturbed_step_time, causes, chain] = value;
  io(undisturbed_step_time, causes, chain);
}

template <class Io>
void visit(Io& io, Of<Io, LinkLoad>& value) {
  auto& [link, capacity, demand, carried, full, delay, slowdown, of_one_collective, num_users,
         users, first_delayed] = value;
  io(link, capacity, demand, carried, full, delay, slowdown, of_one_collective, num_users, users,
     first_delayed);
}

template <class Io>
void visit(Io& io, Of<Io, Sensitivity>& value) {
  auto& [change, step_time] = value;
  io(change, step_time);
}

template <class Io>
void visit(Io& io, Of<Io, ComputeShare>& value) {
  auto& [name, time] = value;
  io(name, time);
}

template <class Io>
void visit(Io& io, Of<Io, SideShare>& value) {
  auto& [name, gpu, tensor, instances, ranks, busy, memory_peak, memory_limit] = value;
  io(name, gpu, tensor, instances, ranks, busy, memory_peak, memory_limit);
}

template <class Io>
void visit(Io& io, Of<Io, StageShare>& value) {
  auto& [stage, replica, num_replicas, gpu, precision, tensor, layers, micro_batches, forward,
         backward, busy, idle, memory_peak, memory_limit] = value;
  io(stage, replica, num_replicas, gpu, precision, tensor, layers, micro_batches, forward, backward,
     busy, idle, memory_peak, memory_limit);
}

template <class Io>
void visit(Io& io, Of<Io, StageMemory>& value) {
  auto& [stage, side, replica, limit, peak, parameters, gradients, optimizer, activations, buffers,
         overhead, largest_term] = value;
  io(stage, side, replica, limit, peak, parameters, gradients, optimizer, activations, buffers,
     overhead, largest_term);
}

template <class Io>
void visit(Io& io, Of<Io, model::Plan>& value) {
  auto& [tensor, pipeline, model_chunks, context, expert, expert_tensor, data, micro_batch,
         global_batch, sequence_parallel, zero_stage, recompute, recompute_layers, precision,
         schedule, issue_depth, receive_slots, live_activations, order_file, orders, policy_library,
         decoupled, dispatcher, expert_capacity_imbalance, layers_per_virtual_stage,
         embedding_as_layer, head_as_layer, layers_by_cost, micro_batches_by_cost, tensor_per_stage,
         micro_batches_per_replica, precision_per_group, overlap_grad_reduce, overlap_param_gather,
         overlap_tensor_parallel, overlap_p2p, fp32_parameters, rank_order] = value;
  io(tensor, pipeline, model_chunks, context, expert, expert_tensor, data, micro_batch,
     global_batch, sequence_parallel, zero_stage, recompute, recompute_layers, precision, schedule,
     issue_depth, receive_slots, live_activations, order_file, orders, policy_library, decoupled,
     dispatcher, expert_capacity_imbalance, layers_per_virtual_stage, embedding_as_layer,
     head_as_layer, layers_by_cost, micro_batches_by_cost, tensor_per_stage,
     micro_batches_per_replica, precision_per_group, overlap_grad_reduce, overlap_param_gather,
     overlap_tensor_parallel, overlap_p2p, fp32_parameters, rank_order);
}

template <class Io>
void visit(Io& io, Of<Io, SimulationReport>& value) {
  auto& [name, plan, model_name, gpu_name, node_name, software_name, schedule_name, step_time,
         step_time_low, step_time_high, tokens_per_s, tokens_per_s_per_gpu, model_flop_per_step,
         hardware_flop_per_step, model_flops_per_gpu, mfu, hfu, flop_convention, mfu_by_convention,
         bubble_fraction, breakdown, compute_shares, critical_stage, memory, stages, sides,
         memory_peak, memory_limit, memory_allocated, fits, parameters_total, parameters_active,
         parameters_per_stage, power_per_gpu, energy_per_step, cost_per_step, power_per_node,
         facility_energy_per_step, carbon_kg_per_step, gpus, ranks_simulated, events, engine,
         network, network_flows, network_closed_form, links, disturbed, goodput, assumptions,
         warnings, sensitivities, priced_ops, components, timeline] = value;
  MEGATWIN_ASSERT(priced_ops.empty(), priced_ops.size());
  MEGATWIN_ASSERT(components.empty(), components.size());
  MEGATWIN_ASSERT(timeline.empty(), timeline.size());
  io(name, plan, model_name, gpu_name, node_name, software_name, schedule_name, step_time,
     step_time_low, step_time_high, tokens_per_s, tokens_per_s_per_gpu, model_flop_per_step,
     hardware_flop_per_step, model_flops_per_gpu, mfu, hfu, flop_convention, mfu_by_convention,
     bubble_fraction, breakdown, compute_shares, critical_stage, memory, stages, sides, memory_peak,
     memory_limit, memory_allocated, fits, parameters_total, parameters_active,
     parameters_per_stage, power_per_gpu, energy_per_step, cost_per_step, power_per_node,
     facility_energy_per_step, carbon_kg_per_step, gpus, ranks_simulated, events, engine, network,
     network_flows, network_closed_form, links, disturbed, goodput, assumptions, warnings,
     sensitivities);
}

class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(ByteWriter& out) : out_(out) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  void put(const std::string& text) { out_.put_text(text); }
  template <class T>
  void put(const std::vector<T>& values) {
    out_.put(values.size());
    for (const T& value : values) put(value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    out_.put(value.has_value());
    if (value) put(*value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      out_.put(value);
    } else {
      visit(*this, value);
    }
  }

  ByteWriter& out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(ByteReader& in) : in_(in) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

 private:
  void get(std::string& text) { text = in_.text(); }
  template <class T>
  void get(std::vector<T>& values) {
    values.resize(in_.get<std::size_t>());
    for (T& value : values) get(value);
  }
  template <class T>
  void get(std::optional<T>& value) {
    if (in_.get<bool>()) get(value.emplace());
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      value = in_.get<T>();
    } else {
      visit(*this, value);
    }
  }

  ByteReader& in_;
};

template <class T>
T read_as(ByteReader& in) {
  T value;
  Reader reader(in);
  visit(reader, value);
  return value;
}

template <class T>
void write_as(const T& value, ByteWriter& out) {
  Writer writer(out);
  visit(writer, value);
}

}  // namespace

void write(const model::Plan& plan, ByteWriter& out) { write_as(plan, out); }
model::Plan read_plan(ByteReader& in) { return read_as<model::Plan>(in); }

void write(const SimulationReport& report, ByteWriter& out) { write_as(report, out); }
SimulationReport read_report(ByteReader& in) { return read_as<SimulationReport>(in); }

}  // namespace megatwin::sim
