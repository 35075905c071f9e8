// Copies and runs of the depthwise convolution; see DepthwiseShape.
#pragma once

#include "math/depthwise_conv.h"

namespace crema {

// Splits one plane into its phases.
void SplitPhases(const DepthwiseShape& shape, const float* plane, float* phases);
// The inverse of SplitPhases; 0 where no window reads.
void JoinPhases(const DepthwiseShape& shape, const float* phases, float* plane);

// Converts outputs to rows as long as those of a phase, and back.
void WidenRows(const DepthwiseShape& shape, const float* plane, float* run);  // zeros between
void NarrowRows(const DepthwiseShape& shape, const float* run, FusedRelu relu, float* plane);

// run[i] += the sum over taps of weight[tap] * phases[offset(tap) + i].
void AddTaps(const DepthwiseShape& shape, const float* phases, const float* weight, float* run);
// phases[offset(tap) + i] += weight[tap] * run[i] for all taps.
void SpreadTaps(const DepthwiseShape& shape, const float* run, const float* weight, float* phases);
// sums[tap] += the sum of run[i] * phases[offset(tap) + i].
void AddTapProducts(const DepthwiseShape& shape, const float* run, const float* phases,
                    double* sums);

}  // namespace crema
