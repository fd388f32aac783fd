// Where Slurm's administrators say how nodes hang on switches: topology.conf (tree or block),
// topology.yaml (several of them), the model files of topograph, and the GPUs of gres.conf.
#ifndef MEGATWIN_SCENARIOS_SLURM_TOPOLOGY_H_
#define MEGATWIN_SCENARIOS_SLURM_TOPOLOGY_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"

namespace megatwin::scenarios {

struct SlurmSwitch {
  std::string name;
  std::vector<std::string> switches, nodes;  // What hangs on it, by name.
};

// Tree, block, flat, ring or torus3d. In a tree the switches, else the blocks, rings or tori.
struct SlurmTopology {
  std::string name, kind;
  bool is_default = false;
  std::vector<SlurmSwitch> switches;
  std::vector<int> block_sizes;

  int num_leaves() const;  // Switches with nodes.
  int num_nodes() const;
  std::vector<std::string> roots() const;  // Switches that hang on none.
};

// Errors: a line that is none of Slurm's, a switch named twice or missing, switches in a circle.
model::Result<SlurmTopology> parse_slurm_topology(const std::string& file, std::string_view text);

// All topologies of a topology.yaml, or the one of a topograph model. Errors: another kind of YAML.
model::Result<std::vector<SlurmTopology>> parse_slurm_topology_yaml(const std::string& file,
                                                                    std::string_view text);

struct SlurmGres {
  std::string name, type;          // "gpu", and which.
  std::vector<std::string> files;  // Device files.
  std::vector<std::string> nodes;
  std::string cores;
};
model::Result<std::vector<SlurmGres>> parse_slurm_gres(const std::string& file,
                                                       std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SLURM_TOPOLOGY_H_
