// Collectives over links that others have a part of: never faster than their bytes through what is
// left to them.
#ifndef MEGATWIN_MODEL_LINK_SHARE_H_
#define MEGATWIN_MODEL_LINK_SHARE_H_

#include <array>

#include "model/collective_cost.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

// What the busiest machine of a group (on one machine, the busiest GPU) sends of a collective, as a
// part of its bytes: for rings the bus factor, so that rates are bus bandwidths; 1 where switches
// add; of an all-to-all what one rank sends another.
double busiest_part(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const GroupTopology& topology);

// What links let the busiest machine of a group send, in the same terms.
struct LinkShare {
  BytesPerSecond alone;  // While bytes flow, nobody else there.
  BytesPerSecond left;   // Zero: as much as alone.
  friend bool operator==(const LinkShare&, const LinkShare&) = default;
};

// Of the worst group of each kind.
struct LinkShares {
  std::array<LinkShare, 7> by_kind{};  // By GroupKind.

  LinkShare& operator[](GroupKind kind) { return by_kind[static_cast<std::size_t>(kind)]; }
  const LinkShare& operator[](GroupKind kind) const {
    return by_kind[static_cast<std::size_t>(kind)];
  }
};

// The rate at which a collective's bytes flow when it runs alone: what an endless one reaches, for
// what a shorter one lacks is taken for latency, which no link changes. In
// the terms of busiest_part(). Zero for a single rank.
BytesPerSecond flowing_rate(CollectiveKind kind, CollectiveAlgorithm algorithm,
                            const GroupTopology& topology);

// collective_time(), and what its bytes take longer over what is left: latency + bytes / rate, of
// which the links change the rate.
Seconds shared_time(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                    const LinkShare& share);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_LINK_SHARE_H_
