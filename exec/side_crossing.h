// What goes between the two sides of a decoupled pipeline while a step runs, as one rank takes
// part. The ranks of a stage that run a micro-batch's forward feed those that run its backward:
// each of these gets from each of those the numbers that it keeps itself, however the sides cut
// them. What several ranks send for one task is one message to its Executor, when all has come.
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

// What a forward rank feeds, and how the ranks of each side hold it.
struct FedNumbers {
  const ModelShape& forward;
  const ModelShape& backward;
  ChunkPart part;
  bool activations = false;  // Else the stage's input.
};
// By the tensor-parallel member of the forward side: what each sends to `backward_member`.
std::vector<std::vector<NumberRun>> fed_runs(const FedNumbers& numbers, int backward_member);

class SideCrossing {
 public:
  struct Setup {
    HostWorld& world;
    const HostLayout& layout;
    const model::Program& program;
    model::SideInstances instances;
    FedNumbers fed;  // Only while it is made.
    model::RankId rank;
  };
  // Everything else is borrowed.
  explicit SideCrossing(const Setup& setup);

  // Sends what `producer` makes for the other side: of a forward the numbers that it feeds, of a
  // backward none.
  void send(model::TaskId producer, std::span<const float> numbers);
  // Hands on what is complete, to this rank's own mailbox. To be called whenever something has
  // come.
  void advance();

 private:
  // A member of the other side's tensor-parallel groups, in each of its instances.
  struct Peer {
    int tensor = 0;
    std::vector<NumberRun> fed;
  };
  struct Arrived {
    int letters = 0;
    std::vector<float> message;
  };
  bool is_forward() const { return program_.shape.side == model::PipelineSide::Forward; }
  model::RankId rank_of(int instance, const Peer& peer) const;
  void take(const Peer& peer, const ByteVector& letter);

  HostWorld& world_;
  const HostLayout& layout_;
  const model::Program& program_;
  model::RankId rank_;
  model::RankCoordinates coordinates_;
  int instances_;             // Of the other side.
  std::size_t fed_size_ = 0;  // Numbers that a backward rank is fed for a micro-batch.
  // Those that feed this rank or that it feeds, and all of them, which tell of room or are told.
  std::vector<Peer> feeding_, all_;
  std::map<model::TaskId, Arrived> arrived_;  // By the task that waits.
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SIDE_CROSSING_H_
