// Deconvolution in single precision on blocked blobs (core/memory_format.h), by oneDNN's way back
// of a convolution. Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "math/blocked_conv.h"
#include "math/conv_grads.h"

namespace crema {

struct BlockedDeconvConfig {
  // Of the convolution from y to x: its input is the output here.
  BlockedConvShape shape;
  bool bias = false;
  FusedRelu relu;
  bool backward = false;
  int threads = 1;
};

// Thread safety: one thread at a time, on at most `threads` threads.
class BlockedDeconv {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  explicit BlockedDeconv(const BlockedDeconvConfig& config);
  ~BlockedDeconv();
  BlockedDeconv(const BlockedDeconv&) = delete;
  BlockedDeconv& operator=(const BlockedDeconv&) = delete;

  // Whether oneDNN has no more than its slow reference for one of the passes.
  bool IsReference() const;
  // Bytes that the calls below need as scratch, and that this keeps for packed weights.
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  size_t PackedBytes() const;

  // y = relu(transposed convolution of x + bias). `keep_weights`: learned values are those of the
  // call before, if that said so too.
  void Forward(const float* x, const float* weight, const float* bias, float* y, bool keep_weights,
               std::span<std::byte> scratch);
  // `grads` in the words of the deconvolution.
  void Backward(const ConvGrads& grads, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
