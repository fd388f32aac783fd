// What the importers make of small files, of the traps that real ones hold, and of what they are
// not meant for.
#include <gtest/gtest.h>

#include "model/topology/router.h"
#include "scenarios/hostlist.h"
#include "scenarios/ibnetdiscover.h"
#include "scenarios/nccl_topology.h"
#include "scenarios/nvidia_smi_topology.h"
#include "scenarios/simgrid_platform.h"
#include "scenarios/slurm_topology.h"
#include "scenarios/xml_reader.h"

namespace megatwin::scenarios {
namespace {

TEST(Xml, RemembersLinesAndRefusesWhatIsNone) {
  const auto root = parse_xml("a.xml", "<!-- c -->\n<a b=\"1\">\n  <c/>\n</a>\n");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->attribute("b"), "1");
  EXPECT_EQ(root->children.at(0).line, 3);
  EXPECT_EQ(root->children.at(0).column, 4);
  const auto broken = parse_xml("a.xml", "<a>\n <b ></a>");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error()[0].line, 2);
  EXPECT_GE(broken.error()[0].column, 5);
  EXPECT_LE(broken.error()[0].column, 9);
  EXPECT_FALSE(parse_xml("a.xml", ""));
  std::string deep;
  for (int i = 0; i < 300; ++i) deep += "<a>";
  for (int i = 0; i < 300; ++i) deep += "</a>";
  EXPECT_EQ(parse_xml("a.xml", deep).error()[0].message, "its elements are nested too deeply");
}

TEST(Hostlist, Expands) {
  const auto hosts = expand_hostlist("a[1-3,7]b[01-02],c");
  ASSERT_TRUE(hosts);
  EXPECT_EQ(*hosts, (std::vector<std::string>{"a1b01", "a1b02", "a2b01", "a2b02", "a3b01", "a3b02",
                                              "a7b01", "a7b02", "c"}));
  EXPECT_TRUE(expand_hostlist("")->empty());
  for (const char* bad : {"a[1-", "a[]", "a[3-1]", "a[1-99999999]", "a[x]"}) {
    EXPECT_FALSE(expand_hostlist(bad)) << bad;
  }
}

// Width · speed / 80: 16 lanes of generation 4 (120) are 24 GB/s; one of generation 1 is 0.1875.
TEST(Nccl, ReckonsPciAsNcclDoes) {
  EXPECT_DOUBLE_EQ(pci_bandwidth("16 GT/s", 16).value, 24e9);
  EXPECT_DOUBLE_EQ(pci_bandwidth("32.0 GT/s PCIe", 16).value, 48e9);
  EXPECT_DOUBLE_EQ(pci_bandwidth("32 GT/s PCIe/s", 8).value, 24e9);
  EXPECT_DOUBLE_EQ(pci_bandwidth("2.5 GT/s", 1).value, 0.1875e9);
  EXPECT_DOUBLE_EQ(pci_bandwidth("", 0).value, 12e9);
}

constexpr const char* kSlowBridge = R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:00:01.0" class="0x060400" link_speed="2.5 GT/s" link_width="1">
      <pci busid="0000:01:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:09:00.0" count="6" tclass="0x068000"/>
          <nvlink target="0000:0a:00.0" count="0x6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:09:00.0" count="12" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" link_speed="16 GT/s" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>)";

// The bridge of a virtual machine, of which NCCL makes 0.19 GB/s, is told of and not hidden.
TEST(Nccl, WarnsOfTheSlowBridge) {
  const auto read = parse_nccl_topology("vm.xml", kSlowBridge);
  ASSERT_TRUE(read) << to_text(read.error());
  ASSERT_EQ(read->warnings.size(), 1U);
  EXPECT_EQ(read->warnings[0].line, 3);
  EXPECT_EQ(read->warnings[0].message,
            "the link of 0000:00:01.0 is '2.5 GT/s' × 1 = 0.19 GB/s, as virtual machines show it: "
            "everything behind it is held to that");
  // 12 lanes of 20 GB/s each way through the NVSwitch.
  model::Router router(read->topology);
  const auto route = router.route({.from = {0}, .to = {1}});
  ASSERT_TRUE(route);
  EXPECT_EQ(to_text(read->topology, *route), "n0/gpu0 -> n0/nvswitch0 -> n0/gpu1");
  EXPECT_DOUBLE_EQ(route->bandwidth.value, 240e9);
}

TEST(Nccl, RefusesOtherXml) {
  const auto hwloc = parse_nccl_topology("topo.xml", "<topology version=\"2.0\"/>");
  ASSERT_FALSE(hwloc);
  EXPECT_EQ(hwloc.error()[0].message, "its root is <topology>, which is hwloc's, not NCCL's");
  EXPECT_FALSE(parse_nccl_graphs("g.xml", "<system/>"));
  const auto bad = parse_nccl_topology(
      "a.xml", "<system><cpu><pci class=\"0x030200\" link_width=\"wide\"/></cpu></system>");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error()[0].message, "'wide' is no whole number");
}

// Colours, glued header, tabs, an empty field, rows that end early.
TEST(NvidiaSmi, ReadsWhatPeoplePaste) {
  const auto read = parse_nvidia_smi_topology(
      "t",
      "$ nvidia-smi topo -m\n\t\x1b[4mGPU0GPU1\tNIC0\tCPU Affinity\tNUMA Affinity\t\tGPU NUMA "
      "ID\x1b[0m\nGPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t16-31\t1\t\tN/A\n"
      "NIC0\tPIX\tSYS\n\nLegend:\n");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->gpus, (std::vector<std::string>{"GPU0", "GPU1"}));
  EXPECT_EQ(read->nics, (std::vector<std::string>{"NIC0"}));
  EXPECT_EQ(read->cpu_affinity[1], "16-31");
  EXPECT_FALSE(read->nvswitch);
  EXPECT_EQ(read->num_nvlinks(0), 4);
  EXPECT_EQ(read->own_nvlinks(0), 4);
  EXPECT_EQ(read->columns.size(), 6U);
}

TEST(NvidiaSmi, SeesLinksThatAreDown) {
  std::string text = " GPU0 GPU1 GPU2 GPU3\n";
  for (int a = 0; a < 4; ++a) {
    text += "GPU" + std::to_string(a);
    for (int b = 0; b < 4; ++b) text += a == b ? " X" : a == 2 ? " NV16" : " NV18";
    text += "\n";
  }
  const auto read = parse_nvidia_smi_topology("t", text);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->nvswitch);
  ASSERT_EQ(read->warnings.size(), 2U);
  EXPECT_EQ(read->warnings[0].message, "GPU2 shows 16 NVLinks of 18: some are down");
  // Behind switches every peer is reached over all of them: a row is no sum.
  EXPECT_EQ(read->num_nvlinks(0), 54);
  EXPECT_EQ(read->own_nvlinks(0), 18);
  EXPECT_EQ(read->own_nvlinks(2), 16);
}

TEST(NvidiaSmi, RefusesPeerStatesAndOtherText) {
  const auto states = parse_nvidia_smi_topology("t", "  GPU0 GPU1\n GPU0 X OK\n GPU1 OK X\n");
  ASSERT_FALSE(states);
  EXPECT_EQ(states.error()[0].message,
            "is the matrix of peer-to-peer states (topo -p2p), which says nothing of links");
  EXPECT_FALSE(parse_nvidia_smi_topology("t", "hello\n"));
  EXPECT_FALSE(parse_nvidia_smi_topology("t", " GPU0 GPU1\nGPU0 X what\n"));
  EXPECT_FALSE(parse_nvidia_smi_topology("t", " GPU0 GPU1\nGPU0 X NV1\n"));
}

TEST(NvidiaSmi, RefusesWhatIsNoMatrixOfOneMachine) {
  const auto fault = [](const std::string& rows) {
    const auto read = parse_nvidia_smi_topology("t", " GPU0 GPU1 GPU2\n" + rows);
    return read ? model::Diagnostic{} : read.error().front();
  };
  EXPECT_EQ(fault("GPU0 X NV1 SYS\nGPU1 NV1 X SYS\nGPU2 SOC SYS X\n").message, "");
  const model::Diagnostic other = fault("GPU0 X PIX SYS\nGPU1 SYS X SYS\nGPU2 SYS SYS X\n");
  EXPECT_EQ(other.line, 3);
  EXPECT_EQ(other.message, "GPU1 is SYS to GPU0, which is PIX to it in line 2");
  EXPECT_EQ(fault("GPU0 X NV1 NV2\nGPU1 NV1 X NV1\nGPU2 NV1 NV1 X\n").message,
            "GPU2 is NV1 to GPU0, which is NV2 to it in line 2");
  for (const char* many : {"NV9999999999", "NV19", "NV0"}) {
    const model::Diagnostic none =
        fault("GPU0 X " + std::string(many) + " SYS\nGPU1 NV1 X SYS\nGPU2 SYS SYS X\n");
    EXPECT_EQ(none.line, 2);
    EXPECT_EQ(none.message, "'" + std::string(many) + "' are not as many NVLinks as a GPU has");
    EXPECT_EQ(none.allowed, "NV1 to NV18");
  }
  const model::Diagnostic order = fault("GPU1 NV1 X SYS\nGPU0 X NV1 SYS\nGPU2 SYS SYS X\n");
  EXPECT_EQ(order.line, 2);
  EXPECT_EQ(order.message, "is the row of GPU1 where that of GPU0 is due");
}

TEST(Slurm, RefusesCirclesAndStrangers) {
  const auto circle = parse_slurm_topology(
      "topology.conf",
      "SwitchName=a Switches=b\nswitchname=b Switches=c\nSwitchName=c Switches=a\n");
  ASSERT_FALSE(circle);
  EXPECT_EQ(circle.error()[0].message, "switches hang on each other in a circle: a -> b -> c -> a");
  const auto missing = parse_slurm_topology("t", "SwitchName=a Switches=b\n");
  EXPECT_EQ(missing.error()[0].message, "the switch 'b' under 'a' is not described");
  const auto twice = parse_slurm_topology("t", "SwitchName=a Nodes=x\nSwitchName=a Nodes=y\n");
  EXPECT_EQ(twice.error()[0].message, "the switch 'a' is given twice");
  EXPECT_FALSE(parse_slurm_topology("t", "# only a comment\n"));
  // Thousands of switches in one chain, and in a circle.
  std::string chain;
  for (int n = 0; n < 5000; ++n) {
    chain += "SwitchName=s" + std::to_string(n) + " Switches=s" + std::to_string(n + 1) + "\n";
  }
  const auto deep = parse_slurm_topology("t", chain + "SwitchName=s5000 Nodes=n[0-9]\n");
  ASSERT_TRUE(deep) << to_text(deep.error());
  EXPECT_EQ(deep->roots(), (std::vector<std::string>{"s0"}));
  EXPECT_FALSE(parse_slurm_topology("t", chain + "SwitchName=s5000 Switches=s0\n"));
  EXPECT_FALSE(parse_slurm_topology("t", "VM_hostname vma\n"));
  EXPECT_FALSE(parse_slurm_topology_yaml("t", "provider: {name: dra}\n"));
}

TEST(Infiniband, KnowsItsRates) {
  EXPECT_DOUBLE_EQ(infiniband_rate("4xNDR").value, 50e9);
  EXPECT_DOUBLE_EQ(infiniband_rate("4xHDR").value, 25e9);
  EXPECT_DOUBLE_EQ(infiniband_rate("2xHDR").value, 12.5e9);
  EXPECT_EQ(infiniband_rate("4xQQQ").value, 0);
  EXPECT_FALSE(parse_ibnetdiscover("t", "VM_hostname a\n0ff0\n"));
  const auto bad = parse_ibnetdiscover(
      "t",
      "Switch 41 \"S-1\" # \"s\" enhanced port 0 lid 1 lmc 0\n[1] \"H-2\"[1](2) # \"h\" lid 2 "
      "4xQQQ\n");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error()[0].message, "unknown rate '4xQQQ'");
}

// Two pairs of switches that no cable joins, and a ring of 3,000 in one piece.
TEST(Infiniband, SeesIslands) {
  const auto block = [](int from, int to) {
    const auto name = [](int n) { return "\"S-" + std::to_string(n) + "\""; };
    return "Switch 41 " + name(from) + " # \"s" + std::to_string(from) +
           "\" enhanced port 0 lid 1 lmc 0\n[1] " + name(to) + "[1] # \"s" + std::to_string(to) +
           "\" lid 2 4xHDR\n\n";
  };
  const auto islands =
      parse_ibnetdiscover("t", block(1, 2) + block(2, 1) + block(3, 4) + block(4, 3));
  ASSERT_TRUE(islands) << to_text(islands.error());
  ASSERT_EQ(islands->warnings.size(), 1U);
  EXPECT_EQ(islands->warnings[0].message,
            "the switches are 2 islands that no cable joins, those of s1, s3");
  std::string ring;
  for (int n = 0; n < 3000; ++n) ring += block(n, (n + 1) % 3000);
  const auto whole = parse_ibnetdiscover("t", ring);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->num_switches, 3000);
  EXPECT_TRUE(whole->warnings.empty());
}

TEST(Nccl, TellsOfAdaptersWithoutSpeed) {
  const auto read = parse_nccl_topology(
      "a.xml",
      "<system><cpu><pci busid=\"1\" class=\"0x020700\" link_speed=\"16 GT/s\" "
      "link_width=\"16\"><nic><net name=\"m\" speed=\"0\"/></nic></pci></cpu></system>");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->warnings.front().message,
            "the adapter m has no speed: 10 Gbit/s is taken, as NCCL does");
  EXPECT_EQ(read->nets.front().megabits_per_second, 0);
  EXPECT_DOUBLE_EQ(read->nets.front().rate.value, 1.25e9);
}

std::string one_gpu(const std::string& pci, const std::string& link) {
  return "<system><cpu>\n  <pci busid=\"0:1\" class=\"0x030200\" " + pci +
         ">\n    <gpu dev=\"0\" sm=\"90\">\n      <nvlink target=\"0:9\" " + link +
         " tclass=\"0x068000\"/></gpu></pci></cpu></system>";
}

// With the place, of NVLinks the element in line 4, column 8, of slots that in line 2, column 4.
TEST(Nccl, RefusesNumbersThatNoMachineHas) {
  const std::string slot = "link_speed=\"16 GT/s\" link_width=\"16\"";
  for (const char* count : {"-1", "65", "9999999999", "-0x10"}) {
    const auto read =
        parse_nccl_topology("a.xml", one_gpu(slot, "count=\"" + std::string(count) + "\""));
    ASSERT_FALSE(read) << count;
    ASSERT_EQ(read.error().size(), 1U);
    const model::Diagnostic& fault = read.error().front();
    EXPECT_EQ(fault.line, 4);
    EXPECT_EQ(fault.column, 8);
    EXPECT_EQ(fault.key, "nvlink.count");
    EXPECT_NE(fault.message.find(" links are not what a GPU has"), std::string::npos);
    EXPECT_EQ(fault.allowed, "0 to 64");
  }
  for (const char* width : {"-1", "33"}) {
    const auto read = parse_nccl_topology(
        "a.xml", one_gpu("link_speed=\"16 GT/s\" link_width=\"" + std::string(width) + "\"",
                         "count=\"18\""));
    ASSERT_FALSE(read) << width;
    EXPECT_EQ(read.error().front().line, 2);
    EXPECT_EQ(read.error().front().column, 4);
    EXPECT_EQ(read.error().front().key, "pci.link_width");
  }
  EXPECT_TRUE(parse_nccl_topology("a.xml", one_gpu(slot, "count=\"18\""))->warnings.empty());
}

// What is not told is taken as NCCL takes it, and said once.
TEST(Nccl, TellsOfSlotsWithoutSpeedOrWidth) {
  const auto messages = [](const std::string& pci) {
    const auto read = parse_nccl_topology("a.xml", one_gpu(pci, "count=\"18\""));
    std::vector<std::string> all;
    for (const model::Diagnostic& warning : read->warnings) {
      EXPECT_EQ(warning.line, 2);
      EXPECT_EQ(warning.column, 4);
      all.push_back(warning.message);
    }
    return all;
  };
  using Messages = std::vector<std::string>;
  EXPECT_EQ(messages("link_speed=\"0 GT/s\" link_width=\"16\""),
            Messages{"'0 GT/s' is no speed of PCIe: 8 GT/s is taken, as NCCL does"});
  EXPECT_EQ(messages("link_speed=\"16 GT/s\" link_width=\"0\""),
            Messages{"a link tells no width: 16 lanes are taken, as NCCL does"});
  EXPECT_EQ(messages("link_speed=\"\" link_width=\"0\""),
            (Messages{"a link tells no speed: 8 GT/s is taken, as NCCL does",
                      "a link tells no width: 16 lanes are taken, as NCCL does"}));
}

TEST(Nccl, TellsOfWhatIsThereTwice) {
  const auto read = parse_nccl_topology(
      "a.xml",
      "<system><cpu>\n"
      "<pci busid=\"0:1\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu "
      "dev=\"0\"/></pci>\n"
      "<pci busid=\"0:1\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu "
      "dev=\"0\"/></pci>\n"
      "<nic><net name=\"m\" speed=\"100\"/><net name=\"m\" speed=\"100\" port=\"2\"/>\n"
      "<net name=\"m\" speed=\"100\"/></nic></cpu></system>");
  ASSERT_TRUE(read) << to_text(read.error());
  ASSERT_EQ(read->warnings.size(), 3U);
  EXPECT_EQ(read->warnings[0].message,
            "<pci> with busid '0:1' is in line 2 already: NVLinks that name it lead to the last");
  EXPECT_EQ(read->warnings[0].line, 3);
  EXPECT_EQ(read->warnings[1].message,
            "<gpu> with dev '0' is in line 2 already: GPUs are taken in the order of the file");
  EXPECT_EQ(read->warnings[2].message, "<net> with name 'm' is in line 4 already: both are taken");
  EXPECT_EQ(read->warnings[2].line, 5);
}

TEST(Simgrid, RefusesDeadLinksAndTellsOfHostsWithoutRoute) {
  const auto platform = [](const std::string& bandwidth, const std::string& crossed) {
    return parse_simgrid_platform(
        "p.xml",
        "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">\n<host id=\"a\"/><host "
        "id=\"b\"/><host id=\"c\"/>\n<link id=\"l\" bandwidth=\"" +
            bandwidth + "\" latency=\"1us\"/>\n<route src=\"a\" dst=\"b\"><link_ctn id=\"" +
            crossed + "\"/></route></zone></platform>");
  };
  const auto dead = platform("0Bps", "l");
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error()[0].line, 3);
  EXPECT_EQ(dead.error()[0].message, "the link 'l' has no bandwidth");
  const auto missing = platform("1GBps", "m");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error()[0].message, "a route crosses the link 'm', which is not described");
  const auto cut_off = platform("1GBps", "l_UP");
  ASSERT_TRUE(cut_off) << to_text(cut_off.error());
  ASSERT_EQ(cut_off->warnings.size(), 1U);
  EXPECT_EQ(cut_off->warnings[0].message, "1 hosts of the zone 'z' have no route, such as 'c'");
}

TEST(Simgrid, KnowsItsUnits) {
  EXPECT_DOUBLE_EQ(simgrid_bandwidth("125MBps")->value, 125e6);
  EXPECT_DOUBLE_EQ(simgrid_bandwidth("1Gbps")->value, 125e6);
  EXPECT_DOUBLE_EQ(simgrid_bandwidth("2KiBps")->value, 2048);
  EXPECT_DOUBLE_EQ(simgrid_bandwidth("1.25E9Bps")->value, 1.25e9);
  EXPECT_DOUBLE_EQ(simgrid_bandwidth("7")->value, 7);
  EXPECT_FALSE(simgrid_bandwidth("7 GB/s"));
  EXPECT_DOUBLE_EQ(simgrid_latency("50us")->value, 50e-6);
  EXPECT_DOUBLE_EQ(simgrid_latency("0")->value, 0);
  EXPECT_FALSE(simgrid_latency("3 fortnights"));
  EXPECT_EQ(*simgrid_radical("0-15,20"), 17);
  EXPECT_FALSE(simgrid_radical("5-1"));
  const auto wrong = parse_simgrid_platform(
      "p.xml",
      "<platform version=\"4.1\"><cluster id=\"c\" topology=\"TORUS\" "
      "topo_parameters=\"3,2,2\" radical=\"0-10\" bw=\"1GBps\" lat=\"1us\"/></platform>");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error()[0].message, "TORUS '3,2,2' holds 12 hosts, the radical names 11");
}

}  // namespace
}  // namespace megatwin::scenarios
