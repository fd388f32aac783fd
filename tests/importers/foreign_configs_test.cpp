// Files of SimAI and ASTRA-sim beside their lines of the manifest, and what is refused.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "model/topology/router.h"
#include "scenarios/astra_sim.h"
#include "scenarios/csv_reader.h"
#include "scenarios/document.h"
#include "scenarios/json_reader.h"
#include "scenarios/simai.h"

namespace megatwin::scenarios {
namespace {

std::string shared_files() {
  const char* given = std::getenv("MEGATWIN_SHARED");
  return (given != nullptr ? std::string(given) : "../shared") + "/data/files/";
}

struct SharedFile {
  std::string name, text;
  Document facts;
};

std::vector<SharedFile> files_of(const std::string& folder) {
  std::vector<SharedFile> files;
  const auto text = read_file(shared_files() + "MANIFEST.csv");
  const auto rows = parse_csv(text ? *text : "", "MANIFEST.csv");
  if (!rows) return files;
  for (const CsvRow& row : *rows) {
    if (row.fields.size() < 7 || !row.fields[0].starts_with(folder + "/")) continue;
    const auto content = read_file(shared_files() + row.fields[0]);
    const auto facts = parse_json(row.fields[0], row.fields[6]);
    if (content && facts) {
      files.push_back({row.fields[0].substr(folder.size() + 1), *content, *facts});
    }
  }
  return files;
}

void expect_workload(const SharedFile& file) {
  const auto read = parse_simai_workload(file.name, file.text);
  ASSERT_TRUE(read) << to_text(read.error());
  const TreeNode& want = file.facts.root;
  EXPECT_EQ(read->policy, want.find("parallelism_policy")->text);
  EXPECT_EQ(std::to_string(read->declared_layers), want.find("declared_layers")->text);
  EXPECT_EQ(std::to_string(read->num_layers), want.find("data_lines")->text);
  for (const TreeEntry& entry : want.find("header")->entries) {
    bool found = false;
    for (const auto& [key, value] : read->header) {
      found = found || (key == entry.key && value == entry.value.text);
    }
    EXPECT_TRUE(found) << entry.key;
  }
  ASSERT_EQ(read->collectives.size(), want.find("comm_type_counts")->entries.size());
  for (const TreeEntry& entry : want.find("comm_type_counts")->entries) {
    EXPECT_EQ(std::to_string(read->collectives.at(entry.key)), entry.value.text) << entry.key;
  }
  for (const TreeEntry& entry : want.find("comm_bytes_by_type")->entries) {
    EXPECT_EQ(std::to_string(static_cast<long long>(read->bytes.at(entry.key).value)),
              entry.value.text)
        << entry.key;
  }
}

// "68 8 4 32 224 H800": 32 GPUs of four servers, an NVSwitch each, 32 switches. A GPU has two
// adapters of 200 Gbit/s; 1,440 Gbit/s of NVLink are 180 GB/s.
void expect_topology(const SharedFile& file) {
  const auto read = parse_simai_topology(file.name, file.text);
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->nodes, 68);
  EXPECT_EQ(read->links, 224);
  EXPECT_EQ(read->gpu_type, "H800");
  EXPECT_TRUE(read->warnings.empty());
  EXPECT_EQ(read->topology.num_gpus(), 32);
  EXPECT_TRUE(read->topology.check().empty());
  model::Router router(read->topology);
  const auto inside = router.route({model::RankId{0}, model::RankId{1}});
  ASSERT_TRUE(inside) << to_text(inside.error());
  EXPECT_DOUBLE_EQ(inside->bandwidth.value, 180e9);
  const auto outside = router.route({model::RankId{0}, model::RankId{8}});
  ASSERT_TRUE(outside) << to_text(outside.error());
  EXPECT_DOUBLE_EQ(outside->bandwidth.value, 25e9);
}

TEST(Simai, FilesGiveTheirFactsOrAreRefused) {
  if (!std::filesystem::exists(shared_files())) GTEST_SKIP() << "no " << shared_files();
  const auto files = files_of("simai");
  ASSERT_GE(files.size(), 8U);
  for (const SharedFile& file : files) {
    SCOPED_TRACE(file.name);
    switch (recognise_simai(file.text)) {
      case SimaiKind::Workload:
        expect_workload(file);
        break;
      case SimaiKind::Topology:
        expect_topology(file);
        break;
      case SimaiKind::BusBandwidth: {
        const auto read = parse_simai_busbw(file.name, file.text);
        ASSERT_TRUE(read) << to_text(read.error());
        EXPECT_DOUBLE_EQ(read->at("TP").at("allreduce").value, 300e9);
        EXPECT_DOUBLE_EQ(read->at("PP").at("busbw").value, 47.5e9);
        EXPECT_FALSE(read->at("DP").contains("allreduce"));  // null
        break;
      }
      case SimaiKind::Timings:
        EXPECT_EQ(file.name, "Example.txt");
        break;
      case SimaiKind::Table:
        EXPECT_TRUE(file.name.ends_with(".csv"));
        break;
      case SimaiKind::None:
        ADD_FAILURE() << "not recognised";
    }
  }
}

TEST(Simai, RefusesBrokenFiles) {
  const std::string head = "HYBRID model_parallel_NPU_group: 8 pp_comm 7\n";
  const auto fine = parse_simai_workload("w", head + "2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n");
  ASSERT_TRUE(fine);
  EXPECT_EQ(fine->header.back(), (std::pair<std::string, std::string>{"pp_comm", "7"}));
  ASSERT_EQ(fine->warnings.size(), 1U);  // Two declared, one there.
  const auto short_line = parse_simai_workload("w", head + "1\na -1 1 NONE 0 1 NONE 0 1 NONE 0\n");
  ASSERT_FALSE(short_line);
  EXPECT_EQ(short_line.error()[0].line, 3);
  EXPECT_FALSE(parse_simai_workload("w", head + "1\na -1 1 NONE 0 1 NONE x 1 NONE 0 1\n"));
  EXPECT_FALSE(parse_simai_topology("t", "2 1 0 0 1 H800\n\n0 1 0Gbps 0ms 0\n"));
  EXPECT_FALSE(parse_simai_topology("t", "3 2 0 1 1 H800\n2\n0 9 1Gbps 0ms 0\n"));
}

// "400.0" of "bandwidth: [ 400.0 ]".
std::string listed(const std::string& text, const std::string& key) {
  const std::size_t at = text.find(key + ": [ ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 4;
  return text.substr(begin, text.find(" ]", begin) - begin);
}

TEST(AstraSim, FilesGiveTheirFacts) {
  if (!std::filesystem::exists(shared_files())) GTEST_SKIP() << "no " << shared_files();
  const auto files = files_of("astra_sim_configs");
  ASSERT_GE(files.size(), 8U);
  for (const SharedFile& file : files) {
    SCOPED_TRACE(file.name);
    EXPECT_TRUE(is_astra_sim(file.text));
    const auto read = parse_astra_sim(file.name, file.text);
    ASSERT_TRUE(read) << to_text(read.error());
    const auto fact = [&](const std::string& key) {
      for (const auto& [name, value] : read->facts) {
        if (name == key) return value;
      }
      return std::string();
    };
    // The manifest's fact of these files is how they begin.
    const TreeNode* content = file.facts.root.find("content");
    ASSERT_NE(content, nullptr);
    EXPECT_TRUE(file.text.starts_with(content->text));
    if (read->kind == "analytical-network") {
      EXPECT_EQ(fact("npus"), listed(content->text, "npus_count"));
      EXPECT_EQ(fact("bandwidth"), listed(content->text, "bandwidth") + " GB/s");
      EXPECT_EQ(fact("latency"), listed(content->text, "latency") + " ns");
    }
    if (file.name.find("HGX-H100") != std::string::npos) {
      EXPECT_EQ(fact("bandwidth"), "400.0 GB/s");
      EXPECT_EQ(fact("latency"), "936.25 ns");
      EXPECT_EQ(fact("npus"), "8");
    }
    if (file.name.find("16nodes_2D") != std::string::npos) {
      EXPECT_EQ(fact("logical-dims"), "8, 2");
      EXPECT_EQ(fact("npus"), "16");
    }
    if (file.name.find("htsim") != std::string::npos) {
      EXPECT_EQ(fact("Nodes"), "8");
      EXPECT_EQ(fact("tier 2 Downlink_speed_Gbps"), "100");
      EXPECT_EQ(fact("tier 2 Bundle"), "2");
    }
    if (read->kind == "system") {
      EXPECT_FALSE(fact("local-mem-bw").empty());
    }
    if (read->kind == "collective") {
      EXPECT_EQ(fact("ngpus"), "8");
      EXPECT_EQ(fact("gpu elements"), "8");
    }
  }
}

// What ships with "tbd" for a bandwidth, or with dimensions that do not match, is no network.
TEST(AstraSim, RefusesWhatIsNoNumber) {
  const auto tbd = parse_astra_sim("n.yml",
                                   "topology: [ Ring, Switch ]\nnpus_count: [ 2, 4 ]\n"
                                   "bandwidth: [ tbd, 50 ]\nlatency: [ 1, 1 ]\n");
  ASSERT_FALSE(tbd);
  EXPECT_NE(tbd.error()[0].message.find("'tbd'"), std::string::npos);
  EXPECT_FALSE(parse_astra_sim("n.yml",
                               "topology: [ Ring ]\nnpus_count: [ 2, 4 ]\nbandwidth: [ 50 ]\n"
                               "latency: [ 1 ]\n"));
  EXPECT_FALSE(parse_astra_sim("t", "Nodes 8\nTiers 2\n\nTier 0\nRadix_Down 2\n"));
  EXPECT_FALSE(parse_astra_sim("x", "hello"));
}

}  // namespace
}  // namespace megatwin::scenarios
