#include "scenarios/hardware_catalogue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

namespace megatwin::scenarios {
namespace {

TEST(HardwareCatalogue, T) {
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto c = load_hardware_catalogue();
    const std::chrono::duration<double, std::milli> t = std::chrono::steady_clock::now() - start;
    std::printf("%zu gpus %zu nodes %f ms\n", c.gpus.size(), c.nodes.size(), t.count());
    if (i == 0) {
      for (const auto& [name, g] : c.gpus)
        std::printf("%s sms %d %g MHz bf16 %g mem %g usable %g GiB bw %g nvl %d %d %g pcie %g tdp %g src %zu\n",
                    name.c_str(), g.num_sms, g.boost_clock.value / 1e6, g.peak.bf16.value / 1e12,
                    g.memory.value / 1e9, g.memory_usable.value / (1 << 30),
                    g.memory_bandwidth.value / 1e9, g.nvlink_generation, g.nvlink_links,
                    g.nvlink_per_direction.value / 1e9, g.pcie_per_direction.value / 1e9,
                    g.power_max.value, g.sources.size());
      for (const auto& [name, n] : c.nodes)
        std::printf("%s %s x%d nics %d x %g %s lat %g us power %g price %g mesh %zu\n",
                    name.c_str(), n.gpu_name.c_str(), n.num_gpus, n.num_nics,
                    n.nic_per_direction.value / 1e9, n.nic_type.c_str(), n.nic_latency.value * 1e6,
                    n.power_max.value, n.price_per_hour.value, n.nvlink_matrix.size());
    }
  }
}

}  // namespace
}  // namespace megatwin::scenarios
