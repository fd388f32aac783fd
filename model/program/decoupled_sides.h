// The one place where a decoupled pipeline becomes the programs of its two sides, for every world,
// and where it is said how far the forward side may run ahead. A side may have several instances;
// each is a program of its own.
#ifndef MEGATWIN_MODEL_PROGRAM_DECOUPLED_SIDES_H_
#define MEGATWIN_MODEL_PROGRAM_DECOUPLED_SIDES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/program/program_spec.h"
#include "model/units.h"

namespace megatwin::model {

// What is decided of a decoupled plan on its machines before it runs, in whichever world.
struct DecidedSides {
  // By stage, SideCrossing::fed_max; empty: any number.
  std::vector<int> fed_max;
  // Share of the micro-batches whose weight gradients the forward side works out; which ones:
  // LeftWeights. Nothing: nobody decided.
  std::optional<double> weight_share;
  // Then the order of each forward rank, instance by instance and stage by stage; empty: after all
  // forwards.
  std::vector<std::vector<std::string>> forward_orders;
};

struct DecoupledSides {
  // The whole pipeline as the ranks of either side would run it, with one chunk a stage; each side
  // keeps what is its own. The gather of `forward` brings the weights that the other side stepped.
  ProgramSpec forward, backward;
  SideFeed feed = SideFeed::StageInput;
  std::vector<SideCrossing> crossings;  // By stage, or empty.
  SideInstances instances;
  double weight_share = 0;                               // These and …
  std::vector<std::vector<std::string>> forward_orders;  // … these as in DecidedSides.
};

// One spec an instance: the forward ones, then the backward ones. A bound that holds nobody back is
// left out.
// Requires: both are of one pipeline; instance_problems() is empty.
std::vector<ProgramSpec> decoupled_sides(const DecoupledSides& sides);

// Why `micro_batches` cannot be shared out, in words for the user; empty when they can.
std::vector<std::string> instance_problems(std::int64_t micro_batches,
                                           const SideInstances& instances);

// What one rank has for the micro-batches that it keeps. Nothing: its memory is not stated.
struct FeedRoom {
  Bytes free;  // Beside what it holds throughout.
  Bytes each;  // Of one micro-batch.
};

// SideCrossing::fed_max of a stage that is fed activations: as many as its backward rank can keep
// until they are finished, and such that what its forward ranks begin fits there even if nothing of
// it has been sent; at least one. 0 where memory says nothing. More would not fit, and fewer would
// hold back forwards for no reason.
//
// Of the k micro-batches in a row that a backward rank may be fed, a forward rank begins at most
// ⌈k·g/a⌉, g the greatest common divisor of the numbers a and b of instances, and it feeds b/g
// backward ranks.
int fed_max(const SideInstances& instances, const std::optional<FeedRoom>& forward,
            const std::optional<FeedRoom>& backward);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_PROGRAM_DECOUPLED_SIDES_H_
