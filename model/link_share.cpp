#include "model/link_share.h"

#include <algorithm>

#include "model/collective_forms.h"

namespace megatwin::model {

double busiest_part(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const GroupTopology& topology) {
  if (kind == CollectiveKind::AllToAll) return 1.0 / topology.ranks;
  if (kind == CollectiveKind::AllReduce) {
    // Switches add: everything goes up once.
    const bool in_switches =
        algorithm == CollectiveAlgorithm::Nvls || algorithm == CollectiveAlgorithm::CollNetDirect;
    // Over two machines a tree sends everything once each way, see collective_cost.cpp.
    const bool tree =
        algorithm == CollectiveAlgorithm::Tree || algorithm == CollectiveAlgorithm::NvlsTree;
    if (in_switches || (tree && topology.nodes == 2)) return 1;
  }
  return busbw_factor(kind, topology.ranks);
}

BytesPerSecond flowing_rate(CollectiveKind kind, CollectiveAlgorithm algorithm,
                            const GroupTopology& topology) {
  constexpr Bytes kEndless{1e15};
  if (topology.ranks < 2) return {};
  const CollectiveTime alone =
      kind == CollectiveKind::AllToAll
          ? collective_time(kind, kEndless, topology)
          : collective_time(kind, kEndless, topology, {.algorithm = algorithm});
  return busiest_part(kind, algorithm, topology) * kEndless / alone.time;
}

Seconds shared_time(CollectiveKind kind, Bytes bytes, const GroupTopology& topology,
                    const LinkShare& share) {
  const CollectiveTime alone = collective_time(kind, bytes, topology);
  if (share.left.value <= 0 || topology.ranks < 2) return alone.time;
  const Bytes sent = busiest_part(kind, alone.algorithm, topology) * bytes;
  return alone.time + (sent / share.left - sent / share.alone);
}

}  // namespace megatwin::model
