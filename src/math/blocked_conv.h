// Convolution on blocked blobs (core/memory_format.h), by oneDNN, in single precision or with x, y
// and their gradients in bfloat16; sums are in single precision in both.
// Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/bias_activation.h"
#include "math/packed_weights.h"

namespace crema {

struct BlockedConvShape {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of all groups
  int64_t out_channels = 0;  // of all groups
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
  } h, w;

  int64_t WeightCount() const {
    return out_channels * (in_channels / groups) * h.kernel * w.kernel;
  }
};

struct BlockedConvConfig {
  BlockedConvShape shape;
  bool plain_input = false;  // x is N x C x H x W, row-major, and float
  // Blocked blobs hold bfloat16, what is added too; weights are rounded to it.
  bool bfloat16 = false;
  bool bias = false;
  bool affine = false;  // ConvLearned::factor and shift are given
  bool sum = false;     // another blob is added before the ReLU
  FusedRelu relu;
  bool backward = false;
  bool backward_to_input = false;
  // Elements from one image of y to the next in Forward, each of whole blocks of channels; 0:
  // dense. oneDNN has its reference only for such a y, so images are computed one by one, each by
  // one thread.
  int64_t y_stride = 0;
  int threads = 1;
};

// y = relu((weight * x + bias) * factor + shift + added), factor and shift by output channel.
struct ConvLearned {
  const float* weight = nullptr;  // out channels x in channels of a group x height x width
  const float* bias = nullptr;
  const float* factor = nullptr;
  const float* shift = nullptr;
};

// What the backward pass reads and writes; dx and dy are of the types of x and y.
struct BlockedConvGrads {
  const void* x = nullptr;  // may be null where dweight is
  const void* y = nullptr;  // read where a ReLU is fused
  const void* dy = nullptr;
  int64_t y_stride = 0;  // elements from one image to the next; 0: dense
  int64_t dy_stride = 0;
  const float* weight = nullptr;
  void* dx = nullptr;        // null: not wanted; overwritten
  float* dweight = nullptr;  // null: not wanted; added to
  float* dbias = nullptr;    // null: not wanted; added to
};

// Thread safety: one thread at a time, on at most `threads` threads.
class BlockedConv {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  explicit BlockedConv(const BlockedConvConfig& config);
  ~BlockedConv();
  BlockedConv(const BlockedConv&) = delete;
  BlockedConv& operator=(const BlockedConv&) = delete;

  // Whether oneDNN has no more than its reference for one of the passes, which takes hundreds of
  // times longer.
  bool IsReference() const;
  // Bytes that the calls below need as scratch, and that this keeps for packed weights.
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  size_t PackedBytes() const;

  // Makes what running needs; Forward and Backward call it when it was not.
  void Prepare();
  // What Forward keeps of the weights, null before it does; and the same of another one, for the
  // same learned values, instead of its own: false where it is in another order.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

  // `keep_weights`: learned values are those of the call before, if that said so too.
  void Forward(const void* x, const ConvLearned& learned, const void* added, void* y,
               bool keep_weights, std::span<std::byte> scratch);
  // Requires: neither affine nor sum; no dx of a plain input with bfloat16.
  void Backward(const BlockedConvGrads& grads, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
