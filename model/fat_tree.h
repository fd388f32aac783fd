// Sizes of full-bisection folded Clos networks built of k-port switches.
#ifndef MEGATWIN_MODEL_FAT_TREE_H_
#define MEGATWIN_MODEL_FAT_TREE_H_

#include <cstdint>

namespace megatwin::model {

// Endpoints: k²/2 with two tiers, k³/4 with three; 2·(k/2)^tiers in general.
constexpr std::int64_t fat_tree_hosts(std::int64_t ports, int tiers) {
  std::int64_t hosts = 2;
  for (int tier = 0; tier < tiers; ++tier) hosts *= ports / 2;
  return hosts;
}

// Switches: (2·tiers − 1)·(k/2)^(tiers−1): 3k/2 with two tiers, 5k²/4 with three.
constexpr std::int64_t fat_tree_switches(std::int64_t ports, int tiers) {
  std::int64_t column = 1;
  for (int tier = 1; tier < tiers; ++tier) column *= ports / 2;
  return (2 * tiers - 1) * column;
}

// Tiers that `hosts` endpoints need.
constexpr int fat_tree_tiers(std::int64_t ports, std::int64_t hosts) {
  if (hosts <= ports) return 1;
  int tiers = 2;
  while (fat_tree_hosts(ports, tiers) < hosts) ++tiers;
  return tiers;
}

static_assert(fat_tree_hosts(64, 2) == 2048 && fat_tree_hosts(64, 3) == 65536);
static_assert(fat_tree_switches(64, 2) == 96 && fat_tree_switches(64, 3) == 5120);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_FAT_TREE_H_
