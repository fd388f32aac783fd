// The data-parallel traffic of one model chunk: all ranks of its stage join without waiting; the
// last to join does the work for all and posts the event that ends it to each. So the order in
// which ranks join different chunks does not matter. Sums run over the members in ascending order.
#ifndef MEGATWIN_EXEC_REPLICA_EXCHANGE_H_
#define MEGATWIN_EXEC_REPLICA_EXCHANGE_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "exec/chunk_parameters.h"
#include "exec/host_world.h"
#include "exec/parameter_table.h"
#include "model/ids.h"
#include "model/rank_layout.h"

namespace megatwin::exec {

struct ReplicaExchangeSetup {
  const model::RankLayout& layout;  // Borrowed.
  model::StageId stage;
  model::ChunkId chunk;
  int zero_stage = 0;
};

class ReplicaExchange {
 public:
  // The world is borrowed.
  ReplicaExchange(HostWorld& world, const ReplicaExchangeSetup& setup);

  struct Member {
    model::RankId rank;
    std::span<HeldUnit> units;
    const ParameterTable* table = nullptr;
  };
  // Before the threads start, each rank of the stage. The spans are borrowed.
  void add(const Member& member);

  // The embedding and the head of a model that ties them, when they are different chunks: their
  // gradients are summed, so that both copies take the same steps. Before the threads start.
  static void tie(ReplicaExchange& embedding, ReplicaExchange& head);

  // Until ReduceDone the gradients of the member belong to the exchange. Afterwards they hold the
  // sum over the replicas: everywhere, or in the part that the member steps.
  void join_reduce();
  // Until GatherDone the weights belong to the exchange. Afterwards every replica has those that
  // the others stepped.
  void join_gather();

 private:
  using Group = std::vector<std::size_t>;  // Indices of members, by ascending rank.
  struct Tie {
    std::mutex mutex;
    bool one_is_done = false;
    ReplicaExchange* embedding = nullptr;
    ReplicaExchange* head = nullptr;
  };

  std::vector<Group> groups_of(model::GroupKind kind) const;
  const std::vector<Group>& replicas_of(std::size_t unit) const;
  void sum_local_tokens();
  void sum_replicas(std::size_t unit);
  void copy_stepped(std::size_t unit);
  static void sum_tied(Tie& tie);
  void post_to_all(model::ExecutorEventKind kind);

  HostWorld& world_;
  ReplicaExchangeSetup setup_;
  std::vector<Member> members_;  // By ascending rank.
  std::vector<Group> tensor_groups_, replicas_, expert_replicas_;
  std::shared_ptr<Tie> tie_;
  std::mutex mutex_;
  int reduces_joined_ = 0;
  int gathers_joined_ = 0;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_REPLICA_EXCHANGE_H_
