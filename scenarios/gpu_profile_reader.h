// Hardware profiles: the shipped ones are embedded in the program; a GPU without one is scaled from
// its nearest measured sibling. The format of the files is gpu_profile_format.h.
#ifndef MEGATWIN_SCENARIOS_GPU_PROFILE_READER_H_
#define MEGATWIN_SCENARIOS_GPU_PROFILE_READER_H_

#include <string>
#include <vector>

#include "model/gpu_profile.h"
#include "model/hardware.h"
#include "model/result.h"
#include "scenarios/gpu_profile_format.h"

namespace megatwin::scenarios {

// The profile of a GPU: its own where one ships, else one derived from a measured sibling of its
// architecture; `sources["derived"]` then says from which. Correction tables are prepared.
// Errors: an embedded file that does not parse (a bug of ours, caught by a test).
model::Result<model::GpuProfile> gpu_profile(const model::Gpu& gpu);

// Same, without the measured shapes: formula only. For tests that hold rows out.
model::Result<model::GpuProfile> gpu_profile_without_tables(const model::Gpu& gpu);

// Names of the shipped profiles, sorted.
std::vector<std::string> shipped_profile_names();

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_GPU_PROFILE_READER_H_
