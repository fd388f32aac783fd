// Collectives over links that others have a part of: never faster than their bytes through what is
// left to them.
#ifndef MEGATWIN_MODEL_LINK_SHARE_H_
#define MEGATWIN_MODEL_LINK_SHARE_H_

#include <array>

#include "model/collective_cost.h"
#include "model/micro_op.h"
#include "model/units.h"

namespace megatwin::model {

// What the busiest machine of a group sends of a collective, as a part of its bytes: for rings the
// bus factor, so that rates are bus bandwidths; of an all-to-all what one rank sends another.
double busiest_part(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const GroupTopology& topology);

// What is left to the busiest machine of the worst group of each kind, in the same terms; zero: as
// much as a collective can use.
struct LinkShares {
  std::array<BytesPerSecond, 7> by_kind{};  // By GroupKind.

  BytesPerSecond& operator[](GroupKind kind) { return by_kind[static_cast<std::size_t>(kind)]; }
  BytesPerSecond operator[](GroupKind kind) const {
    return by_kind[static_cast<std::size_t>(kind)];
  }
  friend bool operator==(const LinkShares&, const LinkShares&) = default;
};

// collective_time(), or, where that is longer, the bytes of the busiest machine over what is left.
Seconds shared_time(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                    BytesPerSecond left);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_LINK_SHARE_H_
