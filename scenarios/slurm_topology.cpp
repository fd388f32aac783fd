#include "scenarios/slurm_topology.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "model/topology/graph_search.h"
#include "scenarios/hostlist.h"
#include "scenarios/map_reader.h"
#include "scenarios/quantity.h"
#include "scenarios/yaml_reader.h"

namespace megatwin::scenarios {
namespace {

using Names = std::vector<std::string>;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

struct ConfLine {
  int number = 0;
  std::string text;
  std::vector<std::pair<std::string, std::string>> values;  // Keys in lower case.

  std::optional<std::string> value(std::string_view key) const {
    for (const auto& [name, text_of] : values) {
      if (name == key) return text_of;
    }
    return std::nullopt;
  }
};

// Key=value words of the lines that are not empty and no comment.
model::Result<std::vector<ConfLine>> read_conf(const std::string& file, std::string_view text) {
  if (model::Diagnostics faults = check_text(file, text); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  std::vector<ConfLine> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ConfLine line{.number = ++number, .text = std::string(text.substr(0, end))};
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string_view rest = line.text;
    rest = rest.substr(0, rest.find('#'));
    while (true) {
      const std::size_t start = rest.find_first_not_of(" \t\r");
      if (start == std::string_view::npos) break;
      rest.remove_prefix(start);
      const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r"));
      rest.remove_prefix(word.size());
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return model::fail({.file = file,
                            .line = line.number,
                            .message = quoted(word) + " is no key=value of Slurm",
                            .allowed = "lines such as SwitchName=leaf1 Nodes=node[1-8]",
                            .source_line = line.text});
      }
      line.values.emplace_back(lower(word.substr(0, equals)), std::string(word.substr(equals + 1)));
    }
    if (!line.values.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

model::Result<Names> hosts_of(const std::string& file, int line, const std::string& text) {
  auto hosts = expand_hostlist(text);
  if (hosts) return hosts;
  model::Diagnostics faults = hosts.error();
  faults.front().file = file;
  faults.front().line = line;
  return model::fail(std::move(faults));
}

// Every switch once, every child known, no circle.
model::Diagnostics check_tree(const std::string& file, const SlurmTopology& topology) {
  std::map<std::string, int> index;
  model::Diagnostics faults;
  for (const SlurmSwitch& s : topology.switches) {
    if (!index.emplace(s.name, static_cast<int>(index.size())).second) {
      faults.push_back(
          {.file = file, .message = "the switch " + quoted(s.name) + " is given twice"});
    }
  }
  if (!faults.empty()) return faults;
  std::vector<std::pair<int, int>> edges;
  for (const SlurmSwitch& s : topology.switches) {
    for (const std::string& child : s.switches) {
      const auto found = index.find(child);
      if (found == index.end()) {
        faults.push_back({.file = file,
                          .message = "the switch " + quoted(child) + " under " + quoted(s.name) +
                                     " is not described"});
        continue;
      }
      edges.emplace_back(index.at(s.name), found->second);
    }
  }
  const auto cycle = model::find_cycle(static_cast<int>(topology.switches.size()), edges);
  if (cycle.empty()) return faults;
  std::string members;
  for (const int at : cycle)
    members += topology.switches[static_cast<std::size_t>(at)].name + " -> ";
  members += topology.switches[static_cast<std::size_t>(cycle.front())].name;
  faults.push_back({.file = file,
                    .message = "switches hang on each other in a circle: " + members,
                    .allowed = "a tree, or several"});
  return faults;
}

model::Result<std::vector<int>> sizes_of(const std::string& file, int line,
                                         const std::string& text) {
  std::vector<int> sizes;
  for (const std::string& word : expand_hostlist(text).value_or(Names{})) {
    const auto size = parse_integer(word);
    if (!size) {
      return model::fail({.file = file, .line = line, .message = size.error().front().message});
    }
    sizes.push_back(static_cast<int>(*size));
  }
  return sizes;
}

// A word or a list of words, each a host list.
Names names_of(MapReader& reader, std::string_view key) {
  const TreeNode* node = reader.find(key);
  Names names;
  if (node == nullptr) return names;
  const auto take = [&](const TreeNode& word) {
    if (word.kind != TreeKind::Scalar) return reader.error_at(word, key, "is no name");
    const auto hosts = expand_hostlist(word.text);
    if (!hosts) return reader.error_at(word, key, hosts.error().front().message);
    names.insert(names.end(), hosts->begin(), hosts->end());
  };
  if (node->kind == TreeKind::Sequence) {
    for (const TreeNode& item : node->items) take(item);
  } else {
    take(*node);
  }
  return names;
}

// Blocks, rings or tori: a list of maps with a name and nodes.
void read_members(MapReader& reader, std::string_view list, std::string_view name,
                  SlurmTopology& topology) {
  const TreeNode* node = reader.find(list);
  if (node == nullptr || node->kind != TreeKind::Sequence) return;
  for (const TreeNode& item : node->items) {
    MapReader member(reader.context(), item, reader.path_of(list));
    SlurmSwitch& added = topology.switches.emplace_back();
    added.name = member.text(name).value_or("");
    added.nodes = names_of(member, "nodes");
    added.switches = names_of(member, "children");
  }
}

SlurmTopology read_yaml_topology(ReadContext& context, const TreeNode& node) {
  MapReader reader(context, node, "");
  SlurmTopology topology;
  topology.name = reader.text("topology").value_or("");
  topology.is_default = reader.boolean("cluster_default").value_or(false);
  struct Kind {
    const char *name, *list, *member;
  };
  for (const Kind& kind : {Kind{"tree", "switches", "switch"}, Kind{"block", "blocks", "block"},
                           Kind{"ring", "rings", "ring"}, Kind{"torus3d", "toruses", "name"}}) {
    const TreeNode* body = reader.find(kind.name);
    if (body == nullptr) continue;
    topology.kind = kind.name;
    MapReader inside(context, *body, kind.name);
    read_members(inside, kind.list, kind.member, topology);
    if (const auto sizes = inside.integers("block_sizes")) {
      for (const std::int64_t size : *sizes) topology.block_sizes.push_back(static_cast<int>(size));
    }
  }
  if (reader.find("flat") != nullptr) topology.kind = "flat";
  return topology;
}

// topograph: switches by name with the switches below; blocks of nodes on leaves.
SlurmTopology read_topograph(ReadContext& context, const TreeNode& root) {
  SlurmTopology topology{.kind = "tree"};
  const TreeNode* switches = root.find("switches");
  for (const TreeEntry& entry : switches->entries) {
    MapReader reader(context, entry.value, entry.key);
    topology.switches.push_back({.name = entry.key, .switches = names_of(reader, "switches")});
  }
  const TreeNode* blocks = root.find("blocks");
  if (blocks == nullptr) return topology;
  for (const TreeNode& block : blocks->items) {
    MapReader reader(context, block, "blocks");
    topology.switches.push_back(
        {.name = reader.text("switch").value_or(""), .nodes = names_of(reader, "nodes")});
  }
  return topology;
}

}  // namespace

int SlurmTopology::num_leaves() const {
  return static_cast<int>(std::count_if(switches.begin(), switches.end(),
                                        [](const SlurmSwitch& s) { return !s.nodes.empty(); }));
}

int SlurmTopology::num_nodes() const {
  std::size_t count = 0;
  for (const SlurmSwitch& s : switches) count += s.nodes.size();
  return static_cast<int>(count);
}

Names SlurmTopology::roots() const {
  std::map<std::string, bool> below;
  for (const SlurmSwitch& s : switches) {
    for (const std::string& child : s.switches) below[child] = true;
  }
  Names names;
  for (const SlurmSwitch& s : switches) {
    if (below.count(s.name) == 0) names.push_back(s.name);
  }
  return names;
}

model::Result<SlurmTopology> parse_slurm_topology(const std::string& file, std::string_view text) {
  MEGATWIN_TRY(const std::vector<ConfLine> lines, read_conf(file, text));
  SlurmTopology topology{.kind = "tree"};
  for (const ConfLine& line : lines) {
    const auto switch_name = line.value("switchname");
    const auto block_name = line.value("blockname");
    const auto sizes = line.value("blocksizes");
    if (block_name || sizes) topology.kind = "block";
    if (sizes) {
      MEGATWIN_TRY(topology.block_sizes, sizes_of(file, line.number, *sizes));
      continue;
    }
    if (!switch_name && !block_name) {
      return model::fail({.file = file,
                          .line = line.number,
                          .message = "the line describes no switch and no block",
                          .allowed = "SwitchName=, BlockName= or BlockSizes=",
                          .source_line = line.text});
    }
    SlurmSwitch& added = topology.switches.emplace_back();
    added.name = switch_name ? *switch_name : *block_name;
    MEGATWIN_TRY(added.switches, hosts_of(file, line.number, line.value("switches").value_or("")));
    MEGATWIN_TRY(added.nodes, hosts_of(file, line.number, line.value("nodes").value_or("")));
  }
  if (topology.switches.empty()) {
    return model::fail({.file = file, .message = "describes no switch and no block"});
  }
  if (model::Diagnostics faults = check_tree(file, topology); !faults.empty()) {
    return model::fail(std::move(faults));
  }
  return topology;
}

model::Result<std::vector<SlurmTopology>> parse_slurm_topology_yaml(const std::string& file,
                                                                    std::string_view text) {
  MEGATWIN_TRY(const Document document, parse_yaml(file, text));
  ReadContext context(document.sources);
  std::vector<SlurmTopology> topologies;
  const TreeNode& root = document.root;
  const TreeNode* switches = root.kind == TreeKind::Map ? root.find("switches") : nullptr;
  if (root.kind == TreeKind::Sequence) {
    for (const TreeNode& item : root.items) {
      topologies.push_back(read_yaml_topology(context, item));
      if (topologies.back().kind.empty()) {
        return model::fail({.file = file,
                            .line = item.position.line,
                            .message = "is no topology of Slurm",
                            .allowed = "tree, block, flat, ring or torus3d"});
      }
    }
  } else if (switches != nullptr && switches->kind == TreeKind::Map) {
    topologies.push_back(read_topograph(context, root));
  } else {
    return model::fail({.file = file,
                        .message = "is YAML, but describes no topology",
                        .allowed = "a list of topologies (topology.yaml), or switches and blocks"});
  }
  if (context.has_error()) return model::fail(context.diagnostics());
  for (const SlurmTopology& topology : topologies) {
    if (model::Diagnostics faults = check_tree(file, topology); !faults.empty()) {
      return model::fail(std::move(faults));
    }
  }
  return topologies;
}

model::Result<std::vector<SlurmGres>> parse_slurm_gres(const std::string& file,
                                                       std::string_view text) {
  MEGATWIN_TRY(const std::vector<ConfLine> lines, read_conf(file, text));
  std::vector<SlurmGres> all;
  for (const ConfLine& line : lines) {
    const auto name = line.value("name");
    if (!name) {
      if (line.value("autodetect")) continue;
      return model::fail({.file = file,
                          .line = line.number,
                          .message = "the line names no resource",
                          .allowed = "Name=gpu File=/dev/nvidia[0-3] …",
                          .source_line = line.text});
    }
    SlurmGres& gres = all.emplace_back();
    gres.name = *name;
    gres.type = line.value("type").value_or("");
    gres.cores = line.value("cores").value_or("");
    MEGATWIN_TRY(gres.files, hosts_of(file, line.number, line.value("file").value_or("")));
    MEGATWIN_TRY(gres.nodes, hosts_of(file, line.number, line.value("nodename").value_or("")));
  }
  return all;
}

}  // namespace megatwin::scenarios
