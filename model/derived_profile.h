// The profile of a GPU that nobody measured: a measured sibling's, scaled by the data sheet. Rates
// go with the peak and with the power that is left for each FLOP, streams with the memory
// bandwidth, corrections stay. Says so in `sources`. Arithmetic only.
#ifndef MEGATWIN_MODEL_DERIVED_PROFILE_H_
#define MEGATWIN_MODEL_DERIVED_PROFILE_H_

#include "model/gpu_profile.h"
#include "model/hardware.h"

namespace megatwin::model {

// Factor on the sustained rate of a chip whose power cap is `power_ratio` times, and whose peak is
// `peak_ratio` times, that of the measured one. Dynamic power is f · V²: with the voltage fixed the
// clock would go with the power, with the voltage proportional to the clock as its cube root; parts
// sit between, at about the square root. Never above 1.12: the boost clock ends it.
double power_factor(double power_ratio, double peak_ratio);

// Adds the rates of fp32 and tf32 products, which no profile has measured, by the data sheet's peak
// at the share of it that a large product reaches (0.65); shaped as the products of `base` where
// the profile has none. Leaves alone what the profile has.
void add_unmeasured_rates(GpuProfile& profile, const GpuProfile& base, const Gpu& gpu);

// The peak that fused attention computes at: of 16-bit products, or of fp32 where the part has no
// others.
FlopPerSecond attention_peak(const Gpu& gpu);

// Requires: `base.measured_on` filled and `base` prepared.
GpuProfile derived_profile(const GpuProfile& base, const Gpu& gpu);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_DERIVED_PROFILE_H_
