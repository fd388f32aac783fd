#include "model/link_share.h"

#include <algorithm>

#include "model/collective_forms.h"

namespace megatwin::model {

double busiest_part(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const GroupTopology& topology) {
  if (kind == CollectiveKind::AllToAll) return 1.0 / topology.ranks;
  // Over two machines a tree sends everything once each way, see collective_cost.cpp.
  const bool tree = algorithm == CollectiveAlgorithm::Tree ||
                    algorithm == CollectiveAlgorithm::NvlsTree ||
                    algorithm == CollectiveAlgorithm::CollNetDirect;
  return tree && topology.nodes == 2 ? 1 : busbw_factor(kind, topology.ranks);
}

Seconds shared_time(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                    BytesPerSecond left) {
  const CollectiveTime alone = collective_time(kind, bytes, topology);
  if (left.value <= 0 || topology.ranks < 2) return alone.time;
  return std::max(alone.time, busiest_part(kind, alone.algorithm, topology) * bytes / left);
}

}  // namespace megatwin::model
