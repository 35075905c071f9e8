// Deconvolution in single precision on blocked blobs (core/memory_format.h), by oneDNN's backward
// pass of a convolution. Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "math/blocked_conv.h"
#include "math/conv_grads.h"

namespace crema {

struct BlockedDeconvConfig {
  // The shape of the convolution from y to x: its input is the output here.
  BlockedConvShape shape;
  bool bias = false;
  FusedRelu relu;
  bool backward = false;
  int threads = 1;
};

// Thread safety: one thread at a time, on at most `threads` threads.
class BlockedDeconv {
 public:
  // Throws kUnsupported if oneDNN has no implementation.
  explicit BlockedDeconv(const BlockedDeconvConfig& config);
  ~BlockedDeconv();
  BlockedDeconv(const BlockedDeconv&) = delete;
  BlockedDeconv& operator=(const BlockedDeconv&) = delete;

  // Returns true if oneDNN has only its slow reference code for one of the passes.
  bool IsReference() const;
  // Returns the bytes of scratch for the calls below, and of the packed weights that this object
  // keeps.
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  size_t PackedBytes() const;

  // y = relu(transposed convolution of x + bias). `keep_weights`: the parameters have not changed
  // since the previous call, which had keep_weights too.
  void Forward(const float* x, const float* weight, const float* bias, float* y, bool keep_weights,
               std::span<std::byte> scratch);
  // In `grads`, x and y are the input and the output of the deconvolution.
  void Backward(const ConvGrads& grads, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
