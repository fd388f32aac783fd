// Hardware profiles: the shipped ones are embedded in the program, users' files are read from disk.
// A profile is a YAML subset of nested maps and scalars with units, plus CSV tables of measured
// shapes beside it. The only code that knows these formats.
#ifndef MEGATWIN_SCENARIOS_GPU_PROFILE_READER_H_
#define MEGATWIN_SCENARIOS_GPU_PROFILE_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/result.h"

namespace megatwin::scenarios {

// The profile of a GPU: its own where one ships, else one derived from a measured sibling of its
// architecture; `sources["derived"]` then says from which. Correction tables are prepared.
// Errors: an embedded file that does not parse (a bug of ours, caught by a test).
model::Result<model::GpuProfile> gpu_profile(const model::Gpu& gpu);

// Same, without the measured shapes: formula only. For tests that hold rows out.
model::Result<model::GpuProfile> gpu_profile_without_tables(const model::Gpu& gpu);

// A profile file's text. `file` names it in diagnostics.
// Errors: unknown key, missing or wrong unit, not a number; all of them at once.
model::Result<model::GpuProfile> parse_gpu_profile(std::string_view text, const std::string& file);

// Rows "layout,dtype,m,n,k,us" after a header line, added to the profile.
model::Diagnostics parse_measured_gemms(std::string_view text, const std::string& file,
                                        std::vector<model::MeasuredGemm>& rows);

// Rows "causal,batch,heads,kv_heads,s,d,forward_us,backward_us" after a header line.
model::Diagnostics parse_measured_attentions(std::string_view text, const std::string& file,
                                             std::vector<model::MeasuredAttention>& rows);

// Names of the shipped profiles, sorted.
std::vector<std::string> shipped_profile_names();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_GPU_PROFILE_READER_H_
