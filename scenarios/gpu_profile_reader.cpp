#include "scenarios/gpu_profile_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "model/compute_cost.h"
#include "model/derived_profile.h"

extern "C" {
#define MEGATWIN_PROFILE(symbol) extern const char symbol##_begin[], symbol##_end[]
MEGATWIN_PROFILE(megatwin_profile_a100_pcie);
MEGATWIN_PROFILE(megatwin_profile_a100_sxm4);
MEGATWIN_PROFILE(megatwin_profile_b200_sxm);
MEGATWIN_PROFILE(megatwin_profile_gb200);
MEGATWIN_PROFILE(megatwin_profile_gh200);
MEGATWIN_PROFILE(megatwin_profile_h200_sxm);
MEGATWIN_PROFILE(megatwin_profile_h200_sxm_attention);
MEGATWIN_PROFILE(megatwin_profile_h200_sxm_gemm);
MEGATWIN_PROFILE(megatwin_profile_mi300x);
MEGATWIN_PROFILE(megatwin_profile_v100_sxm2);
#undef MEGATWIN_PROFILE
}

namespace megatwin::scenarios {
namespace {

using model::Diagnostic;
using model::Diagnostics;
using model::GpuProfile;

struct EmbeddedProfile {
  std::string_view gpu;  // Catalogue name of the part that was measured.
  const char *begin, *end;
};

std::string_view text_of(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

const std::array<EmbeddedProfile, 8>& embedded_profiles() {
  static const std::array<EmbeddedProfile, 8> profiles{{
      {"A100-PCIe-80GB", megatwin_profile_a100_pcie_begin, megatwin_profile_a100_pcie_end},
      {"A100-SXM4-80GB", megatwin_profile_a100_sxm4_begin, megatwin_profile_a100_sxm4_end},
      {"B200-SXM-180GB", megatwin_profile_b200_sxm_begin, megatwin_profile_b200_sxm_end},
      {"GB200-per-GPU", megatwin_profile_gb200_begin, megatwin_profile_gb200_end},
      {"GH200-120GB", megatwin_profile_gh200_begin, megatwin_profile_gh200_end},
      {"H200-SXM-141GB", megatwin_profile_h200_sxm_begin, megatwin_profile_h200_sxm_end},
      {"MI300X", megatwin_profile_mi300x_begin, megatwin_profile_mi300x_end},
      {"V100-SXM2-32GB", megatwin_profile_v100_sxm2_begin, megatwin_profile_v100_sxm2_end},
  }};
  return profiles;
}

// The measured part that an unmeasured GPU is scaled from.
std::string_view sibling_of(const model::Gpu& gpu) {
  switch (gpu.architecture) {
    case model::GpuArchitecture::Volta:
      return "V100-SXM2-32GB";
    case model::GpuArchitecture::Ampere:
    case model::GpuArchitecture::Ada:
    case model::GpuArchitecture::Other:
      return gpu.name.find("PCIe") != std::string::npos ? "A100-PCIe-80GB" : "A100-SXM4-80GB";
    case model::GpuArchitecture::Hopper:
      return "H200-SXM-141GB";
    case model::GpuArchitecture::Blackwell:
      return gpu.name.starts_with("GB") ? "GB200-per-GPU" : "B200-SXM-180GB";
    case model::GpuArchitecture::Cdna3:
      return "MI300X";
  }
  return "A100-SXM4-80GB";
}

model::Result<GpuProfile> load(std::string_view name, bool tables) {
  for (const EmbeddedProfile& embedded : embedded_profiles()) {
    if (embedded.gpu != name) continue;
    MEGATWIN_TRY(GpuProfile profile, parse_gpu_profile(text_of(embedded.begin, embedded.end),
                                                       std::string(name) + ".yaml"));
    if (tables && name == "H200-SXM-141GB") {
      Diagnostics diagnostics = parse_measured_gemms(
          text_of(megatwin_profile_h200_sxm_gemm_begin, megatwin_profile_h200_sxm_gemm_end),
          "h200_sxm_gemm.csv", profile.measured_gemms);
      const Diagnostics more =
          parse_measured_attentions(text_of(megatwin_profile_h200_sxm_attention_begin,
                                            megatwin_profile_h200_sxm_attention_end),
                                    "h200_sxm_attention.csv", profile.measured_attentions);
      diagnostics.insert(diagnostics.end(), more.begin(), more.end());
      if (!diagnostics.empty()) return model::fail(std::move(diagnostics));
    }
    return profile;
  }
  return model::fail(Diagnostic{.key = "gpu", .message = "no profile named " + std::string(name)});
}

model::Result<GpuProfile> profile_of(const model::Gpu& gpu, bool tables) {
  const std::vector<std::string> names = shipped_profile_names();
  const bool shipped = std::find(names.begin(), names.end(), gpu.name) != names.end();
  MEGATWIN_TRY(GpuProfile base,
               load(shipped ? std::string_view(gpu.name) : sibling_of(gpu), tables));
  model::Gpu measured = gpu;
  measured.num_sms = static_cast<int>(base.measured_on.num_sms);
  model::prepare(base, measured);
  if (shipped) {
    model::add_unmeasured_rates(base, base, gpu);
    return base;
  }
  return model::derived_profile(base, gpu);
}

}  // namespace

std::vector<std::string> shipped_profile_names() {
  std::vector<std::string> names;
  for (const EmbeddedProfile& embedded : embedded_profiles()) {
    names.emplace_back(embedded.gpu);
  }
  std::sort(names.begin(), names.end());
  return names;
}

model::Result<GpuProfile> gpu_profile(const model::Gpu& gpu) { return profile_of(gpu, true); }

model::Result<GpuProfile> gpu_profile_without_tables(const model::Gpu& gpu) {
  return profile_of(gpu, false);
}

}  // namespace megatwin::scenarios
