// Convolution on blobs of bytes (DType::kU8 in Layout::kNHWC) by oneDNN: bytes times bytes, summed
// exactly in 32 bits. Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
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
  // Bytes of this scale; otherwise y is float and N x H x W x C.
  bool bytes_out = false;
  Int8Scale y;
  bool bias = false;
  bool affine = false;  // ConvLearned::factor and shift are given
  bool sum = false;     // bytes of scale `added` are added before the ReLU; for bytes_out
  Int8Scale added;
  FusedRelu relu;
  int threads = 1;
};

// y = relu((weight * x + bias) * factor + shift + added), weights by QuantizeRows for each output
// channel. Thread safety: one thread at a time, on at most `threads` threads.
class Int8Conv {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  explicit Int8Conv(const Int8ConvConfig& config);
  ~Int8Conv();
  Int8Conv(const Int8Conv&) = delete;
  Int8Conv& operator=(const Int8Conv&) = delete;

  bool IsReference() const;
  size_t Scratch() const;
  size_t PackedBytes() const;  // packed weights and numbers by channel

  void Prepare();
  // `keep_weights`: learned values are those of the call before, if that said so too.
  void Forward(const void* x, const ConvLearned& learned, const void* added, void* y,
               bool keep_weights, std::span<std::byte> scratch);

  // What is kept of the weights, null before that; and the same of another one, for the same
  // weights, instead of its own: false where that does not fit.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
