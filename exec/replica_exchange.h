// The data-parallel traffic of one model chunk, as one rank takes part: it joins without waiting,
// goes on when what the others sent has come, and posts the event that ends it to itself. So the
// order in which ranks join different chunks does not matter. Sums run over the members in
// ascending order, so that all get the same bits.
#ifndef MEGATWIN_EXEC_REPLICA_EXCHANGE_H_
#define MEGATWIN_EXEC_REPLICA_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "exec/chunk_parameters.h"
#include "exec/host_layout.h"
#include "exec/host_world.h"
#include "exec/model_shape.h"
#include "exec/parameter_table.h"
#include "exec/side_weights.h"
#include "model/ids.h"

namespace megatwin::exec {

// The other copy of a matrix that embedding and head share, in another chunk. Their gradients are
// summed, so that both copies take the same steps.
struct TiedCopy {
  model::RankId rank;  // Has the same part of it and steps the same part of that.
  bool is_head = false;
};

// Decoupled: the backward side steps the weights and sends them to the forward side with each
// gather; before the reduction it adds the gradients that the forward side summed.
struct OtherSide {
  std::vector<WeightTransfer> transfers;
  std::vector<WeightTransfer> gradients;  // Of weight gradients left to the forward side.
  bool steps_here = false;                // This rank is of the backward side.
};

struct ReplicaExchangeSetup {
  HostWorld& world;
  const ModelShape& shape;
  const HostLayout& layout;  // Only while it is made.
  model::RankId rank;
  model::ChunkId chunk;
  std::span<HeldUnit> units;
  std::span<float> weights, gradients;  // Of all units.
  const ParameterTable& table;
  std::optional<TiedCopy> tied;
  std::optional<OtherSide> other_side;
};

class ReplicaExchange {
 public:
  // Everything is borrowed.
  explicit ReplicaExchange(const ReplicaExchangeSetup& setup);

  // Until ReduceDone the gradients belong to the exchange. Afterwards they hold the sum over the
  // replicas: everywhere, or in the part that this one steps.
  void join_reduce();
  // Until GatherDone the weights belong to the exchange. Afterwards they are those that the
  // replicas stepped, on a forward side those of its other side.
  void join_gather();
  // Goes on with what has come. To be called whenever something has.
  void advance();

 private:
  // Ranks that hold the same parameters, in ascending order.
  struct Group {
    std::vector<model::RankId> members, others;
    std::size_t own = 0;  // Index of this rank.
  };
  Group group_of(model::GroupKind kind, const HostLayout& layout) const;
  const Group& group(Topic topic) const;
  bool is_needed(Topic topic) const;  // Else nobody writes anything.
  // The part of a unit that a replica steps, in places of the chunk.
  Slice stepped_by(std::size_t unit, std::size_t member) const;

  void send_local_tokens();
  void sum_local_tokens();
  void send_to_replicas(Topic topic);
  void sum_replicas(Topic topic);
  void send_tied();
  bool sum_tied();  // Whether the other copy's had come.
  void send_weights(Topic topic);
  void copy_weights(Topic topic);

  bool is_forward_side() const { return setup_.other_side && !setup_.other_side->steps_here; }
  void send_across();
  bool take_across();  // Whether they had come.
  void send_gradients_across();
  bool add_gradients_across();  // Whether they had come.
  bool have_come_across(Topic topic, const std::vector<WeightTransfer>& transfers);

  bool have_come(Topic topic);
  std::vector<float> take(model::RankId from, Topic topic);
  // What each member has sent; of this rank, nothing.
  std::vector<std::vector<float>> take_all(const Group& group, Topic topic);
  void send(model::RankId to, const Channel& channel, std::span<const float> values);
  Channel channel(Topic topic) const { return {topic, setup_.chunk.value}; }
  static Channel tied_channel(bool from_head) { return {Topic::TiedEnds, from_head ? 1 : 0}; }
  // Calls visit(index of the unit) for the units of experts, or for the others.
  void for_each_unit(Topic topic, const std::function<void(std::size_t)>& visit) const;
  // Calls visit(gradients) for what each tensor-parallel member has summed over its own tokens.
  void for_each_local_token_part(const std::function<void(std::span<float>)>& visit) const;
  std::span<float> tied_gradients() const;
  void post(model::ExecutorEventKind kind);

  ReplicaExchangeSetup setup_;
  Group tensor_, replicas_, expert_replicas_;
  // What the reduction waits for.
  enum class Waits : std::uint8_t { Nothing, OtherSide, LocalTokens, Replicas, TiedCopy };
  Waits reduction_ = Waits::Nothing;
  bool gathers_ = false;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_REPLICA_EXCHANGE_H_
