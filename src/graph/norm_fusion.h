// What the rows of convolutions and of the normalisations next to them hand to each other besides
// blobs; plan/passes/fuse_batch_norm.h decides it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema {

// The part of an implementation in the fusion.
enum class NormRole : uint8_t { kNone, kConvolution, kNorm };

struct NormFusion {
  // A convolution gives, and a normalisation takes, the sums of the channels of the blob between
  // them, and of their squares.
  bool emits_sums = false;
  bool consumes_sums = false;
  // A normalisation leaves its output 0 as its input is and gives what normalises it, its factors;
  // the convolution behind it takes them, and gives the gradient behind the ReLU.
  bool emits_factors = false;
  bool consumes_factors = false;

  bool any() const { return emits_sums || consumes_sums || emits_factors || consumes_factors; }
  // Behind all other inputs, or outputs, of the layer.
  size_t inputs() const { return consumes_sums || consumes_factors ? 1 : 0; }
  size_t outputs() const { return emits_sums || emits_factors ? 1 : 0; }
};

// Rows of the sums, f32, one number a channel in each; the channels of a convolution's output as it
// is stored.
enum SumsRow : int64_t { kSumsRow, kSquaresRow, kSumsRows };

// Rows of the factors: f32, but the last two of the type of the blob, each at the start of its row:
// the output would be relu(x * factor + offset).
enum FactorsRow : int64_t {
  kMeanRow,
  kInverseRow,  // 1 / deviation
  kScaleRow,
  kShiftRow,
  kFactorRow,
  kOffsetRow,
  kFactorsRows
};
// Rows of the gradient of the factors, f32: sums of the gradient behind the ReLU times the
// normalised input, and of it alone; the others have room for what a library gives besides.
enum FactorsGradientRow : int64_t { kScaleGradientRow, kShiftGradientRow, kRestRow };

}  // namespace crema
