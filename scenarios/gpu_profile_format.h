// The text of a hardware profile: a YAML subset of nested maps and scalars with units, and CSV
// tables of measured shapes beside it. The only code that knows these formats.
#ifndef MEGATWIN_SCENARIOS_GPU_PROFILE_FORMAT_H_
#define MEGATWIN_SCENARIOS_GPU_PROFILE_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/gpu_profile.h"
#include "model/result.h"

namespace megatwin::scenarios {

// A profile file's text. `file` names it in diagnostics.
// Errors: unknown key, missing or wrong unit, not a number; all of them at once.
model::Result<model::GpuProfile> parse_gpu_profile(std::string_view text, const std::string& file);

// Rows "layout,dtype,m,n,k,us" after a header line, added to the profile.
model::Diagnostics parse_measured_gemms(std::string_view text, const std::string& file,
                                        std::vector<model::MeasuredGemm>& rows);

// Rows "causal,batch,heads,kv_heads,s,d,forward_us,backward_us" after a header line.
model::Diagnostics parse_measured_attentions(std::string_view text, const std::string& file,
                                             std::vector<model::MeasuredAttention>& rows);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_GPU_PROFILE_FORMAT_H_
