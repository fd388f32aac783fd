// What goes between the two sides of a decoupled pipeline while a step runs, as one rank takes
// part. The ranks of a stage that run a micro-batch's forward feed those that run its backward, and
// these send back what the weight gradients need that are left to those: each rank gets from each
// of the others the numbers that it keeps itself, however the sides cut them. What several ranks
// send for one task is one message to its Executor, when all has come.
#ifndef MEGATWIN_EXEC_SIDE_CROSSING_H_
#define MEGATWIN_EXEC_SIDE_CROSSING_H_

#include <map>
#include <span>
#include <vector>

#include "exec/host_layout.h"
#include "exec/host_world.h"
#include "exec/model_chunk.h"
#include "exec/model_shape.h"
#include "exec/reshard.h"
#include "model/ids.h"
#include "model/program/program.h"

namespace megatwin::exec {

// What crosses for a micro-batch, and how the ranks of each side hold it.
struct CrossingNumbers {
  const ModelShape& forward;
  const ModelShape& backward;
  ChunkPart part;
  bool feeds_activations = false;  // Else the stage's input.
};
// By the tensor-parallel member of the forward side: what each feeds to `backward_member`.
std::vector<std::vector<NumberRun>> fed_runs(const CrossingNumbers& numbers, int backward_member);
// By that of the backward side: what each sends to `forward_member` for weight gradients.
std::vector<std::vector<NumberRun>> left_runs(const CrossingNumbers& numbers, int forward_member);

class SideCrossing {
 public:
  struct Setup {
    HostWorld& world;
    const HostLayout& layout;
    const model::Program& program;
    model::SideInstances instances;
    CrossingNumbers numbers;  // Only while it is made.
    model::RankId rank;
  };
  // Everything else is borrowed.
  explicit SideCrossing(const Setup& setup);

  // Sends what `producer` made for the other side.
  void send(model::TaskId producer, std::span<const float> numbers);
  // Says there that there is room when `producer` is done.
  void make_room(model::TaskId producer);
  // Hands on what is complete, to this rank's own mailbox. To be called whenever something has
  // come.
  void advance();

 private:
  // A member of the other side's tensor-parallel groups, in each of its instances, with what goes
  // to it or comes from it.
  struct Peer {
    int tensor = 0;
    std::vector<NumberRun> sent, received;
  };
  struct Arrived {
    int letters = 0;
    std::vector<float> message;
  };
  bool is_forward() const { return program_.shape.side == model::PipelineSide::Forward; }
  bool is_room(model::TaskId task) const {
    return program_.tasks[static_cast<std::size_t>(task.value)].kind == model::TaskKind::Forward;
  }
  model::RankId rank_of(int instance, const Peer& peer) const;
  void send_to(const Peer& peer, const model::Message& message, std::span<const float> numbers);
  void take(const Peer& peer, const ByteVector& letter);

  HostWorld& world_;
  const HostLayout& layout_;
  const model::Program& program_;
  model::RankId rank_;
  model::RankCoordinates coordinates_;
  int instances_;                  // Of the other side.
  std::size_t received_size_ = 0;  // Numbers that a task of this rank waits for.
  int num_sources_ = 0;            // Peers that they come from.
  std::vector<Peer> peers_;
  std::map<model::TaskId, Arrived> arrived_;  // By the task that waits.
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SIDE_CROSSING_H_
