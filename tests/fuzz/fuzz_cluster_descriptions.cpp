// Every importer of a cluster's description reads the same bytes: each must take them or say why
// not.
#include "model/assert.h"
#include "scenarios/ibnetdiscover.h"
#include "scenarios/nccl_topology.h"
#include "scenarios/nvidia_smi_topology.h"
#include "scenarios/simgrid_platform.h"
#include "scenarios/slurm_topology.h"
#include "tests/fuzz/fuzz_targets.h"

namespace megatwin::fuzz {
namespace {

template <class Value>
void check(const model::Result<Value>& result, const char* importer) {
  MEGATWIN_ASSERT(result || model::has_error(result.error()), importer, ": no reason");
}

}  // namespace

void cluster_descriptions(std::string_view text) {
  check(scenarios::parse_nccl_topology("fuzz.xml", text), "NCCL topology");
  check(scenarios::parse_nccl_graphs("fuzz.xml", text), "NCCL graphs");
  check(scenarios::parse_nvidia_smi_topology("fuzz.txt", text), "nvidia-smi");
  check(scenarios::parse_slurm_topology("topology.conf", text), "Slurm");
  check(scenarios::parse_slurm_topology_yaml("topology.yaml", text), "Slurm YAML");
  check(scenarios::parse_slurm_gres("gres.conf", text), "Slurm gres");
  check(scenarios::parse_ibnetdiscover("fuzz.txt", text), "ibnetdiscover");
  check(scenarios::parse_simgrid_platform("fuzz.xml", text), "SimGrid");
  check(scenarios::simgrid_bandwidth(text), "SimGrid bandwidth");
  check(scenarios::simgrid_latency(text), "SimGrid latency");
  check(scenarios::simgrid_radical(text), "SimGrid radical");
}

}  // namespace megatwin::fuzz

MEGATWIN_FUZZ_ENTRY(cluster_descriptions);
