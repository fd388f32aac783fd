// Scores every group with the constants that its own rows had a part in set to their neutral
// values: what the model would say of rows that it has not seen.
#ifndef MEGATWIN_SIM_LEAVE_OUT_H_
#define MEGATWIN_SIM_LEAVE_OUT_H_

#include <vector>

#include "model/hardware.h"
#include "scenarios/measured_rows.h"
#include "sim/validate.h"

namespace megatwin::sim {

// `baseline` is the validation of the same rows and options with nothing left out. Fills
// `baseline.left_out`, one entry a scored group that is not apart, and its mean.
void leave_each_out(const std::vector<scenarios::MeasuredRow>& rows,
                    const model::HardwareCatalogue& catalogue, const ValidateOptions& options,
                    Validation& baseline);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_LEAVE_OUT_H_
