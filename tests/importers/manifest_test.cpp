// Every shared description beside its line of the manifest: the facts come out, or the file is
// refused with the reason. Skipped where the shared material does not lie beside the checkout
// (MEGATWIN_SHARED, or ../shared).
#include <cstdlib>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "scenarios/csv_reader.h"
#include "scenarios/ibnetdiscover.h"
#include "scenarios/json_reader.h"
#include "scenarios/nccl_topology.h"
#include "scenarios/nvidia_smi_topology.h"
#include "scenarios/simgrid_platform.h"
#include "scenarios/slurm_topology.h"

namespace megatwin::scenarios {
namespace {

std::string shared_files() {
  const char* given = std::getenv("MEGATWIN_SHARED");
  return (given != nullptr ? std::string(given) : "../shared") + "/data/files/";
}

struct Entry {
  std::string file, name, text;
  Document facts;

  const TreeNode* fact(std::string_view key) const { return facts.root.find(key); }
  std::string word(std::string_view key) const {
    const TreeNode* node = fact(key);
    return node == nullptr ? "" : node->text;
  }
  int number(std::string_view key) const { return std::atoi(word(key).c_str()); }
  std::vector<std::string> words(std::string_view key) const {
    std::vector<std::string> all;
    if (const TreeNode* node = fact(key)) {
      for (const TreeNode& item : node->items) all.push_back(item.text);
    }
    return all;
  }
};

class Manifest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(shared_files())) {
      GTEST_SKIP() << "no " << shared_files() << "; set MEGATWIN_SHARED";
    }
    const auto text = read_file(shared_files() + "MANIFEST.csv");
    ASSERT_TRUE(text);
    const auto rows = parse_csv(*text, "MANIFEST.csv");
    ASSERT_TRUE(rows);
    for (const CsvRow& row : *rows) {
      if (row.fields.size() < 7 || row.fields[0] == "file") continue;
      const std::string folder = row.fields[0].substr(0, row.fields[0].find('/'));
      if (folder != "nccl_topo" && folder != "nvidia_smi_topo" && folder != "simgrid_platform" &&
          folder != "cluster_descriptions") {
        continue;
      }
      const auto content = read_file(shared_files() + row.fields[0]);
      const auto facts = parse_json(row.fields[0], row.fields[6]);
      ASSERT_TRUE(content && facts) << row.fields[0];
      entries_[folder].push_back(
          {row.fields[0], row.fields[0].substr(folder.size() + 1), *content, *facts});
    }
  }

  std::map<std::string, std::vector<Entry>> entries_;
};

void expect_graphs(const Entry& entry) {
  const auto graphs = parse_nccl_graphs(entry.file, entry.text);
  ASSERT_TRUE(graphs) << to_text(graphs.error());
  const TreeNode& expected = *entry.fact("graphs");
  ASSERT_EQ(graphs->size(), expected.items.size());
  for (std::size_t i = 0; i < graphs->size(); ++i) {
    const NcclGraph& graph = (*graphs)[i];
    const TreeNode& want = expected.items[i];
    EXPECT_EQ(std::to_string(graph.pattern), want.find("pattern")->text);
    EXPECT_EQ(std::to_string(graph.num_channels), want.find("nchannels")->text);
    EXPECT_EQ(graph.speed_intra, want.find("speedintra")->text);
    EXPECT_EQ(graph.type_inter, want.find("typeinter")->text);
    EXPECT_EQ(std::to_string(graph.channels.size()), want.find("channel_elems")->text);
    std::vector<std::string> first;
    for (const TreeNode& item : want.find("first_channel")->items) first.push_back(item.text);
    EXPECT_EQ(graph.channels.front(), first);
  }
}

TEST_F(Manifest, NcclFiles) {
  ASSERT_GE(entries_["nccl_topo"].size(), 11U);
  for (const Entry& entry : entries_["nccl_topo"]) {
    SCOPED_TRACE(entry.file);
    if (entry.word("root") == "graphs") {
      expect_graphs(entry);
      continue;
    }
    const auto read = parse_nccl_topology(entry.file, entry.text);
    ASSERT_TRUE(read) << to_text(read.error());
    EXPECT_EQ(read->version, entry.word("version"));
    ASSERT_EQ(static_cast<int>(read->cpus.size()), entry.number("cpu_numa_nodes"));
    std::vector<std::string> numa;
    for (const auto& cpu : read->cpus) numa.push_back(cpu.numa_id);
    EXPECT_EQ(numa, entry.words("numaids"));
    const auto& cpu = read->cpus.front();
    EXPECT_EQ(cpu.arch + "/" + cpu.vendor + "/fam" + cpu.family + "/mod" + cpu.model,
              entry.words("cpu").front());
    EXPECT_EQ(read->num_gpu_elements, entry.number("gpu_elements"));
    EXPECT_EQ(read->num_gpu_devices,
              entry.number("gpu_pci_devices(class 0x0302xx/0x0300xx/0x1200xx/0x0380xx)"));
    EXPECT_EQ(static_cast<int>(read->nets.size()), entry.number("net_elements"));
    EXPECT_EQ(read->max_pci_nesting, entry.number("max_pci_nesting"));
    EXPECT_EQ(read->pci_by_class.size(), entry.fact("pci_by_class")->entries.size());
    for (const TreeEntry& kind : entry.fact("pci_by_class")->entries) {
      EXPECT_EQ(std::to_string(read->pci_by_class.at(kind.key)), kind.value.text) << kind.key;
    }
    if (const TreeNode* lanes = entry.fact("nvlink_or_xgmi_total_lanes_per_gpu")) {
      for (const TreeEntry& gpu : lanes->entries) {
        EXPECT_EQ(std::to_string(read->lanes_by_gpu.at(gpu.key)), gpu.value.text) << gpu.key;
      }
    }
    if (read->num_gpu_devices > 0) {
      EXPECT_TRUE(read->topology.check().empty());
    }
  }
}

TEST_F(Manifest, NvidiaSmiFiles) {
  ASSERT_GE(entries_["nvidia_smi_topo"].size(), 6U);
  for (const Entry& entry : entries_["nvidia_smi_topo"]) {
    SCOPED_TRACE(entry.file);
    const auto read = parse_nvidia_smi_topology(entry.file, entry.text);
    if (entry.name.find("NOT_TOPO") != std::string::npos) {
      ASSERT_FALSE(read);
      EXPECT_NE(read.error()[0].message.find("peer-to-peer"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(read) << to_text(read.error());
    EXPECT_EQ(static_cast<int>(read->gpus.size()), entry.number("gpus"));
    EXPECT_EQ(read->nics, entry.words("nics"));
    EXPECT_EQ(read->columns, entry.words("columns"));
    EXPECT_EQ(read->cells[0], entry.words("GPU0_row"));
    std::map<std::string, int> count;
    for (std::size_t a = 0; a < read->gpus.size(); ++a) {
      for (std::size_t b = 0; b < read->gpus.size(); ++b) {
        if (a != b) ++count[read->cells[a][b]];
      }
    }
    for (const TreeEntry& cell : entry.fact("gpu_gpu_cell_counts_directed")->entries) {
      EXPECT_EQ(std::to_string(count[cell.key]), cell.value.text) << cell.key;
    }
    const TreeNode* sums =
        entry.fact("sum_NV_per_gpu_row(hybrid mesh = total links; NVSwitch = n-1 times links)");
    for (std::size_t a = 0; a < read->gpus.size(); ++a) {
      EXPECT_EQ(std::to_string(read->num_nvlinks(a)), sums->find(read->gpus[a])->text);
    }
    EXPECT_EQ(read->nvswitch, read->num_nvlinks(0) > 18);
    EXPECT_TRUE(read->topology.check().empty());
  }
}

TEST_F(Manifest, SimgridFiles) {
  ASSERT_GE(entries_["simgrid_platform"].size(), 10U);
  for (const Entry& entry : entries_["simgrid_platform"]) {
    SCOPED_TRACE(entry.file);
    const auto read = parse_simgrid_platform(entry.file, entry.text);
    ASSERT_TRUE(read) << to_text(read.error());
    if (entry.fact("params") != nullptr) {
      EXPECT_EQ(read->num_hosts_in_all(), entry.number("hosts"));
      EXPECT_EQ(read->clusters.at(0).parameters, entry.word("params"));
      if (entry.fact("limiter") != nullptr) {
        EXPECT_EQ(read->clusters[0].limiter.value, simgrid_bandwidth(entry.word("limiter"))->value);
      }
      continue;
    }
    EXPECT_EQ(static_cast<int>(read->clusters.size()), entry.number("clusters"));
    EXPECT_EQ(read->num_hosts, entry.number("hosts"));
    EXPECT_EQ(read->num_links, entry.number("links"));
    EXPECT_EQ(read->num_routes, entry.number("routes"));
    std::vector<std::string> radicals = read->radicals();
    const auto expected = entry.words("radicals");  // At most the first eight.
    radicals.resize(std::min(radicals.size(), expected.size()));
    EXPECT_EQ(radicals, expected);
  }
}

void expect_ibnetdiscover(const Entry& entry) {
  const auto read = parse_ibnetdiscover(entry.file, entry.text);
  if (entry.number("switch_blocks") == 0) {
    ASSERT_FALSE(read);
    EXPECT_NE(read.error()[0].message.find("no switch"), std::string::npos);
    return;
  }
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->num_switches, entry.number("switch_blocks"));
  EXPECT_EQ(read->num_adapters, entry.number("ca_blocks"));
  EXPECT_EQ(read->num_port_lines, entry.number("port_lines"));
  EXPECT_EQ(read->num_to_switch, entry.number("port_lines_to_switch"));
  EXPECT_EQ(read->num_to_adapter, entry.number("port_lines_to_hca"));
  for (const TreeEntry& rate : entry.fact("link_width_speed_counts")->entries) {
    EXPECT_EQ(std::to_string(read->rates.at(rate.key)), rate.value.text);
  }
  for (const auto& device : read->devices) {
    if (!device.is_switch) continue;
    const auto first = entry.words("first_switch");
    EXPECT_EQ((std::vector<std::string>{std::to_string(device.ports), device.guid, device.name}),
              first);
    break;
  }
}

void expect_slurm(const Entry& entry) {
  if (entry.name.find("gres") != std::string::npos) {
    const auto gres = parse_slurm_gres(entry.file, entry.text);
    ASSERT_TRUE(gres) << to_text(gres.error());
    EXPECT_EQ(static_cast<int>(gres->size()), entry.number("gpu_lines"));
    std::size_t devices = 0;
    for (const SlurmGres& line : *gres) devices += line.files.size();
    EXPECT_EQ(devices, 8U);
    return;
  }
  if (entry.name == "slurm_topology.yaml") {
    const auto all = parse_slurm_topology_yaml(entry.file, entry.text);
    ASSERT_TRUE(all) << to_text(all.error());
    std::vector<std::string> names;
    for (const SlurmTopology& topology : *all) {
      names.push_back(topology.name);
      EXPECT_EQ(topology.is_default, topology.name == entry.word("default"));
    }
    EXPECT_EQ(names, entry.words("topologies"));
    return;
  }
  const auto topology = parse_slurm_topology(entry.file, entry.text);
  ASSERT_TRUE(topology) << to_text(topology.error());
  if (topology->kind == "block") {
    EXPECT_EQ(entry.number("switch_lines"), 0);
    EXPECT_EQ(topology->num_nodes(), 4 * static_cast<int>(topology->switches.size()));
    return;
  }
  EXPECT_EQ(static_cast<int>(topology->switches.size()), entry.number("switch_lines"));
  EXPECT_EQ(topology->num_leaves(), entry.number("leaf_lines"));
  for (std::size_t i = 0; i < entry.fact("example")->items.size(); ++i) {
    EXPECT_EQ(topology->switches[i].name, entry.fact("example")->items[i].items[0].text);
  }
}

TEST_F(Manifest, ClusterDescriptions) {
  ASSERT_GE(entries_["cluster_descriptions"].size(), 19U);
  for (const Entry& entry : entries_["cluster_descriptions"]) {
    SCOPED_TRACE(entry.file);
    if (entry.name.starts_with("ibnetdiscover")) {
      expect_ibnetdiscover(entry);
    } else if (entry.name.starts_with("slurm")) {
      expect_slurm(entry);
    } else if (entry.name.starts_with("ibstat")) {
      EXPECT_FALSE(parse_ibnetdiscover(entry.file, entry.text));
    } else if (entry.name.find("__models__") != std::string::npos) {
      const auto all = parse_slurm_topology_yaml(entry.file, entry.text);
      ASSERT_TRUE(all) << to_text(all.error());
      EXPECT_EQ(all->front().num_nodes(), 96);  // Twelve leaves of eight.
      EXPECT_EQ(all->front().roots(), (std::vector<std::string>{"core"}));
    } else {
      const auto refused = parse_slurm_topology_yaml(entry.file, entry.text);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error()[0].message, "is YAML, but describes no topology");
    }
  }
}

}  // namespace
}  // namespace megatwin::scenarios
