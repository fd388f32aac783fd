// Data-parallel work of a job: the gather of parameters and the reduction of gradients under every
// ZeRO stage, what of it hides behind compute, the optimizer, and the bytes of a stage's model
// state.
#ifndef MEGATWIN_MODEL_PROGRAM_DATA_PARALLEL_H_
#define MEGATWIN_MODEL_PROGRAM_DATA_PARALLEL_H_

#include <utility>
#include <vector>

#include "model/job.h"
#include "model/program/group_topology.h"
#include "model/program/job_program.h"

namespace megatwin::model {

// The groups beyond one machine that a stage's model state travels over.
struct StateLinks {
  GroupTopology data;  // Replicas of a dense parameter.
  // The first and the last stage, which exchange the gradients of a token table that both hold.
  GroupTopology ends;
};
StateLinks state_links(const Job& job);

// Traffic of `layers` buckets beside a pass over them: all but one bucket can hide, and slow what
// they hide behind by `slowdown`.
struct OverlappedTraffic {
  Seconds traffic, compute;
  double layers = 1;
  double slowdown = 0;
  bool overlapped = false;
};
Seconds exposed_part(const OverlappedTraffic& pass);

// How replicas add up their gradients: by which collective, and bytes of one parameter's.
struct GradientReduction {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Bytes per_parameter;
};
GradientReduction gradient_reduction(const Job& job);

// Weight, gradient and optimizer state of one parameter, wherever they are kept.
Bytes state_per_parameter(const Job& job);

// One collective of a chunk's model state.
struct StateCall {
  GroupKind group = GroupKind::Data;
  CollectiveKind kind = CollectiveKind::AllGather;
  Bytes bytes;
  double count = 1;
};

class DataParallelTraffic {
 public:
  DataParallelTraffic(const Job& job, const PricedEffects& effects);
  // With links of a cluster that `job` shows one kind of machine of.
  DataParallelTraffic(const Job& job, const PricedEffects& effects, const StateLinks& links);

  // The same, with links that others have a part of.
  DataParallelTraffic with(const LinkShares& shares) const {
    DataParallelTraffic traffic = *this;
    traffic.shares_ = shares;
    return traffic;
  }

  // The collectives that gather and reduce of a chunk are made of.
  std::vector<StateCall> calls(const ChunkContent& content) const;
  // Fills gather, reduce and their exposed parts of a chunk whose tasks are priced.
  void price(const ChunkContent& content, PricedChunk& chunk) const;
  // Fills optimizer_ops, optimizer, table_exchange and optimizer_exposed of a stage whose
  // parameters are there.
  void price_optimizer(const LoweringInput& input, const TaskPricer& pricer,
                       const std::vector<ChunkContent>& contents, PricedStage& stage) const;
  RankParameters stage_parameters(const std::vector<ChunkContent>& contents) const;
  // Fills parameters, gradients, optimizer_state, buffers and overhead of a stage.
  void fill_memory(const RankParameters& parameters, const std::vector<ChunkContent>& contents,
                   StageCost& cost) const;

 private:
  struct UnitTraffic {
    Seconds gather, reduce;     // On the links.
    Seconds copy_in, copy_out;  // Kernels that pack and unpack the buffers.
  };
  UnitTraffic unit_traffic(const RankParameters& parameters) const;
  // What is gathered and reduced by itself, and how many of it a chunk has.
  std::vector<std::pair<RankParameters, double>> units(const ChunkContent& content) const;
  RankParameters chunk_parameters(const ChunkContent& content) const;
  Seconds gather_time(const RankParameters& parameters) const;
  Seconds reduce_time(const RankParameters& parameters) const;
  void price_sharded(const ChunkContent& content, PricedChunk& chunk) const;
  WeightSharding sharding() const;
  void price_table_exchange(const std::vector<ChunkContent>& contents, PricedStage& stage) const;

  const Job& job_;
  PricedEffects effects_;
  GroupTopology dense_group_, expert_group_, ends_;
  LinkShares shares_;
  bool table_at_both_ends_ = false;  // Embedding and head or MTP use one table …
  bool ends_on_one_rank_ = false;    // … which then is there once.
  double parameter_bytes_ = 2;       // Of one parameter as gathered,
  double gradient_bytes_ = 4;        // of one gradient as reduced.
};

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_DATA_PARALLEL_H_
