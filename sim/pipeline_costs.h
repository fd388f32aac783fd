// The durations of one pipeline step as flat arrays of nanoseconds, the form that both engines
// read. A unit is one simulated rank: stage s of replica class k has number k·p + s.
#ifndef MEGATWIN_SIM_PIPELINE_COSTS_H_
#define MEGATWIN_SIM_PIPELINE_COSTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/program/pipeline_shape.h"
#include "model/program/program.h"
#include "model/program/program_spec.h"

namespace megatwin::sim {

using Nanoseconds = std::int64_t;

// What a task sends when it is done.
enum class SendKind : std::uint8_t { None, Activation, Gradient };

struct PipelineCosts {
  model::PipelineShape shape;  // Of class 0; the others may run other numbers of micro-batches.
  int num_classes = 1;
  std::vector<model::PipelineShape> shapes;  // Distinct ones, that of class 0 first …
  std::vector<int> shape_of_class;           // … and which one each class has.
  int rows_max = 0;                          // Of tasks, in the class that has most.
  // By SlotLayout of its shape, where the slots of each class begin; one entry more for the end.
  std::vector<std::size_t> first_slot;
  // Class by class, see task_index(). The entries of a class that stand for no task are zero, and
  // there is one.
  std::vector<Nanoseconds> task;
  std::vector<Nanoseconds> optimizer;  // One a unit.
  // Collectives join all classes of a stage, so they are one a (stage, chunk). Decoupled: forward
  // ranks gather, backward ranks reduce.
  std::vector<Nanoseconds> gather, reduce;
  // Of each class: a zero, then by boundary a hop forward and a hop backward.
  std::vector<Nanoseconds> send;
  // Where a network delays them unequally: of every task's send, class by class as SlotLayout.
  // Empty otherwise. Dataflow only.
  std::vector<Nanoseconds> send_by_slot;
  // Decoupled: the classes are the instances of the forward side, then those of the backward side;
  // what crosses, by stage.
  model::SideInstances instances;
  std::vector<Nanoseconds> feed;
  std::vector<Nanoseconds> weight_input, gradients;  // Of weight gradients left to forward ranks.
  model::SideFeed feed_kind = model::SideFeed::StageInput;
  // The same of every task whose collectives leave its machine. Empty: `task` holds. With sends
  // only.
  std::vector<Nanoseconds> task_by_slot;
  // Of which: what others add to tensor, context and expert collectives inside tasks. As long as
  // that.
  std::vector<std::array<Nanoseconds, 3>> delay_by_slot;
  // Where disturbances begin or end within the step, ascending: from `at` on, `task` and
  // `optimizer` are these. Work under way goes on with what is left of it, see changing_costs.h.
  // Event engine only; with task_by_slot the optimizer alone changes.
  struct Change {
    Nanoseconds at = 0;
    std::vector<Nanoseconds> task, optimizer;
  };
  std::vector<Change> changes;
  bool overlap_p2p = false;
  bool overlap_grad_reduce = false;
  bool overlap_param_gather = false;
  double overlap_slowdown = 0;

  std::size_t num_units() const {
    return static_cast<std::size_t>(num_classes) * static_cast<std::size_t>(shape.pipeline);
  }
  std::size_t unit(int replica_class, int stage) const {
    return static_cast<std::size_t>(replica_class) * static_cast<std::size_t>(shape.pipeline) +
           static_cast<std::size_t>(stage);
  }
  std::size_t class_stride() const {
    return static_cast<std::size_t>(shape.pipeline) * static_cast<std::size_t>(rows_max) + 1;
  }
  std::size_t task_index(int replica_class, int stage, int phase, int chunk) const {
    return static_cast<std::size_t>(replica_class) * class_stride() +
           static_cast<std::size_t>(stage) *
               static_cast<std::size_t>(class_shape(replica_class).num_rows()) +
           static_cast<std::size_t>(phase) * static_cast<std::size_t>(shape.model_chunks) +
           static_cast<std::size_t>(chunk);
  }
  std::size_t chunk_index(int stage, int chunk) const {
    return static_cast<std::size_t>(shape.chunk_number(stage, chunk));
  }
  const model::PipelineShape& class_shape(int replica_class) const {
    return shapes[static_cast<std::size_t>(
        shape_of_class[static_cast<std::size_t>(replica_class)])];
  }
  std::size_t send_stride() const { return 1 + 2 * static_cast<std::size_t>(shape.pipeline); }
  const Nanoseconds* class_sends(int replica_class) const {
    return send.data() + static_cast<std::size_t>(replica_class) * send_stride();
  }
  bool is_decoupled() const { return shape.side != model::PipelineSide::Both; }
  // Of a decoupled pipeline the class at the other end of a crossing.
  int class_across(int replica_class, const model::Message& crossing) const {
    return crossing.instance + (reduces(replica_class) ? 0 : instances.forward);
  }
  // Whether a class brings gradients to the reductions of its stage, and whether it reduces.
  bool has_gradients(int replica_class) const {
    const model::PipelineShape& own = class_shape(replica_class);
    return reduces(replica_class) || own.num_tasks() > own.micro_batches;
  }
  bool reduces(int replica_class) const {
    return class_shape(replica_class).side != model::PipelineSide::Forward;
  }
  bool slows_down() const {
    return overlap_slowdown > 0 && (overlap_grad_reduce || overlap_param_gather);
  }
};

// A rank of `speed` 2 takes twice as long for tasks and the optimizer; rounded once, here.
PipelineCosts pipeline_costs(const model::ProgramSpec& spec);

// One class of replicas: the program that gives its shape and hops, and its stages, borrowed.
struct ReplicaClass {
  const model::ProgramSpec* spec = nullptr;
  std::vector<const model::StageCost*> stages;
  int multiplicity = 1;  // Replicas that it stands for.
  // Costs that change within the step, ascending. Requires: the same instants in all classes.
  struct Later {
    model::Instant from;
    std::vector<const model::StageCost*> stages;
  };
  std::vector<Later> later = {};
};
ReplicaClass replica_class(const model::ProgramSpec& spec);

// Several replicas of the pipeline that differ in costs, hops or micro-batches. A collective lasts
// as long as its slowest member says. Requires: at least one class, and the same schedule, p and v;
// of a decoupled pipeline what decoupled_sides() gives.
PipelineCosts pipeline_costs(const std::vector<ReplicaClass>& classes);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_PIPELINE_COSTS_H_
