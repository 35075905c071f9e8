// Convolution on int8 blobs (DType::kU8 in Layout::kNHWC) by oneDNN, with exact sums in 32 bits.
// Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "math/blocked_conv.h"
#include "math/int8_copy.h"
#include "math/packed_weights.h"

namespace crema {

struct Int8ConvConfig {
  BlockedConvShape shape;
  Int8Scale x;
  // y has int8 elements of this scale; otherwise it is float and N x H x W x C.
  bool bytes_out = false;
  Int8Scale y;
  bool bias = false;
  bool affine = false;  // ConvParameters::factor and shift are given
  bool sum = false;     // int8 elements of scale `added` are added before the ReLU; for bytes_out
  Int8Scale added;
  FusedRelu relu;
  int threads = 1;
};

// y = relu((weight * x + bias) * factor + shift + added), with the weights quantized by
// QuantizeRows for each output channel. Thread safety: one thread at a time, on at most `threads`
// threads.
class Int8Conv {
 public:
  // Throws kUnsupported if oneDNN has no implementation.
  explicit Int8Conv(const Int8ConvConfig& config);
  ~Int8Conv();
  Int8Conv(const Int8Conv&) = delete;
  Int8Conv& operator=(const Int8Conv&) = delete;

  bool IsReference() const;
  size_t Scratch() const;
  size_t PackedBytes() const;  // packed weights and values per channel

  void Prepare();
  // `keep_weights`: the parameters have not changed since the previous call, which had keep_weights
  // too.
  void Forward(const void* x, const ConvParameters& parameters, const void* added, void* y,
               bool keep_weights, std::span<std::byte> scratch);

  // ExportPacked returns the packed weights, null before Forward. ImportPacked uses those of
  // another object for the same weights instead; it returns false if they do not fit.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
