// Smooth correction of a formula by measured residuals: a kernel-weighted mean in the logarithms of
// three sizes, shrunk to zero where no row is near. exp() of it multiplies the formula's time.
// Arithmetic only.
#ifndef MEGATWIN_MODEL_CORRECTION_H_
#define MEGATWIN_MODEL_CORRECTION_H_

#include "model/gpu_profile.h"

namespace megatwin::model {

// Logarithms of the sizes of the shape that is asked for.
struct CorrectionPoint {
  float x = 0, y = 0, z = 0;
  int family = 0;
};

struct CorrectionKernel {
  float radius = 1;          // Weight falls to 0 at this distance in ln(size).
  float family_step = 0.3f;  // Distance between rows of two families (layouts).
  float shrinkage = 0.5f;    // Weight of "no correction", in rows at distance 0.
};

// ln(correction), 0 for an empty table.
double log_correction(const CorrectionTable& table, const CorrectionPoint& point,
                      const CorrectionKernel& kernel);

// Appends one row.
void add_row(CorrectionTable& table, const CorrectionPoint& point, double residual);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_CORRECTION_H_
