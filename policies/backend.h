// What a world must offer so that an Executor can run in it. Every world implements this: virtual
// time, threads, streams, or a log. All calls return at once; what they start ends in an event that
// the world hands to the Executor of the rank concerned.
//
// A world keeps the lanes of a rank: compute, sends of activations, sends of gradients and
// data-parallel traffic each run one thing at a time, in the order of issue.
#ifndef MEGATWIN_POLICIES_BACKEND_H_
#define MEGATWIN_POLICIES_BACKEND_H_

#include "model/ids.h"

namespace megatwin::policies {

class Backend {
 public:
  virtual ~Backend() = default;

  // Runs the task in the compute lane. Its messages and parameters are there; tasks of this rank
  // that it needs run before it in the lane. Ends in TaskDone.
  virtual void issue_task(model::RankId rank, model::TaskId task) = 0;

  // Sends what `producer` makes, when it is done. Without overlap in the compute lane right behind
  // it, otherwise in the send lane of its direction. Ends in MessageArrived at the receiver.
  virtual void issue_send(model::RankId rank, model::TaskId producer) = 0;

  // Decoupled: sends across to the rank of the stage on the other side, in a lane of its own. A
  // forward's stage input goes when the task begins, its activations when it ends; what a
  // BackwardInput leaves to the forward side when it ends, and behind that the message without
  // content of a backward. Each ends in MessageArrived there.
  virtual void issue_crossing(model::RankId rank, model::TaskId producer) = 0;

  // Data-parallel collectives of one chunk; all replicas of the stage join. They end in GatherDone
  // and ReduceDone. Of a forward side: the gather brings the weights that the backward side has
  // stepped; its reduction sends them the gradients that it worked out, if it did any, and there is
  // nothing to step.
  virtual void issue_gather(model::RankId rank, model::ChunkId chunk) = 0;
  virtual void issue_reduce(model::RankId rank, model::ChunkId chunk) = 0;

  // Steps the optimizer in the compute lane. Ends in OptimizerDone.
  virtual void issue_optimizer(model::RankId rank) = 0;

  // The receive slot of the message that `consumer` waited for is free again. Ends in
  // CreditReturned at the sender. Only called when slots are limited.
  virtual void return_credit(model::RankId rank, model::TaskId consumer) = 0;

  // Tells the followers of this rank's tensor-, context- or expert-parallel group what its policy
  // has picked. Ends in OrderAnnounced at each.
  virtual void announce(model::RankId rank, model::TaskId task) = 0;
};

}  // namespace megatwin::policies

#endif  // MEGATWIN_POLICIES_BACKEND_H_
