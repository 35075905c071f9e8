// Copies and runs of the depthwise convolution; see DepthwiseShape.
#pragma once

#include "math/depthwise_conv.h"

namespace crema {

// Splits one plane into its phases. Writes only the elements that are inputs: the others must be 0.
void SplitPhases(const DepthwiseShape& shape, const float* plane, float* phases);
// The inverse of SplitPhases; 0 where no window reads.
void JoinPhases(const DepthwiseShape& shape, const float* phases, float* plane);

// Converts outputs to rows as long as those of a phase, with zeros between.
void WidenRows(const DepthwiseShape& shape, const float* plane, float* run);

// Floats after the phases that ConvolvePlane reads; they must not be denormal.
inline constexpr int64_t kDepthwiseSlack = 16;

// The outputs of a plane in vectors, in the order of their addresses. A vector extends beyond the
// end of a row that is shorter; the next row then overwrites its end.
struct DepthwiseVectors {
  int64_t count;
  int64_t taps;
  const int64_t* from;  // offsets in the phases
  const int64_t* to;    // offsets in the outputs
  const int64_t* tap_offsets;
};
int64_t DepthwiseVectorCount(const DepthwiseShape& shape);
// `memory` has two elements for each vector, and one for each tap.
DepthwiseVectors MakeDepthwiseVectors(const DepthwiseShape& shape, int64_t* memory);

struct DepthwisePlane {
  const float* phases;
  const float* weight;
  float bias;
  FusedRelu relu;
  float* y;
  int64_t room;  // floats from y on that may be overwritten
};
// y = relu(bias + the sum over taps of weight[tap] * phases[offset(tap) + ...]).
void ConvolvePlane(const DepthwiseShape& shape, const DepthwiseVectors& vectors,
                   const DepthwisePlane& plane);

// phases[offset(tap) + i] += weight[tap] * run[i] for all taps.
void SpreadTaps(const DepthwiseShape& shape, const float* run, const float* weight, float* phases);
// sums[tap] += the sum of run[i] * phases[offset(tap) + i].
void AddTapProducts(const DepthwiseShape& shape, const float* run, const float* phases,
                    double* sums);

}  // namespace crema
