// The data-parallel traffic of one model chunk: all ranks that hold it, over tensor- and
// data-parallel members, join without waiting; the last to join does the work for all and posts the
// event that ends it to each. So the order in which ranks join different chunks does not matter.
// Sums run over the members in ascending order.
#ifndef MEGATWIN_EXEC_REPLICA_EXCHANGE_H_
#define MEGATWIN_EXEC_REPLICA_EXCHANGE_H_

#include <mutex>
#include <span>
#include <vector>

#include "exec/host_world.h"
#include "exec/parameter_table.h"
#include "model/ids.h"

namespace megatwin::exec {

// The part of `size` numbers that one of `count` replicas steps under ZeRO stage 1 (Rajbhandari et
// al., arXiv:1910.02054, section 5.1).
Slice shard_of(std::int64_t size, int replica, int count);

struct ReplicaExchangeSetup {
  model::ChunkId chunk;
  int tensor = 1;
  int data = 1;
  bool shard_optimizer = false;  // ZeRO stage 1.
};

class ReplicaExchange {
 public:
  // The world is borrowed.
  ReplicaExchange(HostWorld& world, const ReplicaExchangeSetup& setup)
      : world_(world),
        setup_(setup),
        members_(static_cast<std::size_t>(setup.tensor * setup.data)) {}

  struct Member {
    model::RankId rank;
    std::span<float> weights, gradients;
    const ParameterTable* table = nullptr;
  };
  // Before the threads start. The spans are borrowed.
  void add(int tensor_member, int replica, const Member& member) {
    at(tensor_member, replica) = member;
  }

  // Until ReduceDone the gradients of the member belong to the exchange. Afterwards they hold the
  // sum over the replicas: everywhere, or in the member's own shard.
  void join_reduce();
  // Until GatherDone the weights belong to the exchange. Afterwards every replica has all shards.
  void join_gather();

 private:
  Member& at(int tensor_member, int replica) {
    return members_[static_cast<std::size_t>(replica * setup_.tensor + tensor_member)];
  }
  void sum_local_tokens();
  void sum_replicas();
  void copy_shards();
  void post_to_all(model::ExecutorEventKind kind);

  HostWorld& world_;
  ReplicaExchangeSetup setup_;
  std::vector<Member> members_;
  std::mutex mutex_;
  int reduces_joined_ = 0;
  int gathers_joined_ = 0;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_REPLICA_EXCHANGE_H_
