// Conv-BatchNorm fusion: values that a convolution and the BatchNorm before or after it exchange in
// training, besides blobs. plan/passes/fuse_batch_norm.h decides which layers do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema {

// The part of an implementation in the fusion.
enum class NormRole : uint8_t { kNone, kConvolution, kNorm };

// The parts of one layer. A value of sums or factors comes after all other inputs, or outputs.
struct NormFusion {
  // The convolution sums each channel of its output, and its squares; the BatchNorm after it reads
  // these sums instead of the blob.
  bool emits_sums = false;
  bool consumes_sums = false;
  // The BatchNorm leaves its output 0 as its input is and emits the factors that normalise it. The
  // convolution after it normalises what it reads, and its gradient is that after the ReLU.
  bool emits_factors = false;
  bool consumes_factors = false;

  bool any() const { return emits_sums || consumes_sums || emits_factors || consumes_factors; }
  // Numbers of inputs and outputs that are sums or factors.
  size_t inputs() const { return consumes_sums || consumes_factors ? 1 : 0; }
  size_t outputs() const { return emits_sums || emits_factors ? 1 : 0; }
};

// Axis 0 of the sums. Axis 1 has the channels of the convolution's output as it is stored. f32.
enum SumsRow : int64_t { kSumsRow, kSquaresRow, kSumsRows };

// Axis 0 of the factors. The output of the BatchNorm would be relu(x * factor + offset). f32, but
// the last two have the type of the blob, from the start of their part of the memory.
enum FactorsRow : int64_t {
  kMeanRow,
  kInverseRow,  // 1 / deviation
  kScaleRow,
  kShiftRow,
  kFactorRow,
  kOffsetRow,
  kFactorsRows
};
// Axis 0 of the gradient of the factors: the sums of the gradient after the ReLU times the
// normalised input, and of this gradient alone. A library may write other numbers to the rest. f32.
enum FactorsGradientRow : int64_t { kScaleGradientRow, kShiftGradientRow, kRestRow };

}  // namespace crema
