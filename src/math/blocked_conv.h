// Convolution on blocked or channels-last blobs (core/memory_format.h), by oneDNN, in single
// precision or with x, y and their gradients in bfloat16; sums are in single precision in both.
// Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/bias_activation.h"
#include "math/fused_activation.h"
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
  bool plain_input = false;    // x is N x C x H x W, row-major, and float
  bool channels_last = false;  // all blobs are N x H x W x C instead of blocked; without y_stride
  // The blobs, including the added one, hold bfloat16; weights are rounded to it.
  bool bfloat16 = false;
  bool bias = false;
  bool affine = false;  // ConvParameters::factor and shift are given
  bool sum = false;     // another blob is added before the ReLU or the activation
  FusedRelu relu;
  FusedActivation activation = {};  // only without ReLU and backward
  bool backward = false;
  bool backward_to_input = false;
  // Elements from one image of y to the next in Forward, each of whole blocks of channels; 0:
  // dense. For such a y oneDNN has only its reference code, so images are computed one by one, each
  // by one thread.
  int64_t y_stride = 0;
  int threads = 1;
};

// y = activation((weight * x + bias) * factor + shift + added), factor and shift by output channel.
struct ConvParameters {
  const float* weight = nullptr;  // out channels x in channels of a group x height x width
  const float* bias = nullptr;
  const float* factor = nullptr;
  const float* shift = nullptr;
};

// Inputs and outputs of the backward pass; dx and dy have the types of x and y.
struct BlockedConvGrads {
  const void* x = nullptr;  // may be null where dweight is
  const void* y = nullptr;  // read where a ReLU is fused
  const void* dy = nullptr;
  int64_t y_stride = 0;  // elements from one image to the next; 0: dense
  int64_t dy_stride = 0;
  const float* weight = nullptr;
  void* dx = nullptr;        // null: not needed; overwritten
  float* dweight = nullptr;  // null: not needed; added to
  float* dbias = nullptr;    // null: not needed; added to
};

// Thread safety: one thread at a time, on at most `threads` threads.
class BlockedConv {
 public:
  // Throws kUnsupported if oneDNN has no implementation.
  explicit BlockedConv(const BlockedConvConfig& config);
  ~BlockedConv();
  BlockedConv(const BlockedConv&) = delete;
  BlockedConv& operator=(const BlockedConv&) = delete;

  // Returns true if oneDNN has only its reference code for one of the passes, which takes hundreds
  // of times longer.
  bool IsReference() const;
  // Returns the bytes of scratch for the calls below, and of the packed weights that this object
  // keeps.
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  size_t PackedBytes() const;

  // Creates the primitives; otherwise the first Forward or Backward does.
  void Prepare();
  // ExportPacked returns the packed weights that Forward keeps, null before. ImportPacked uses
  // those of another object for the same parameters instead; it returns false if their layout
  // differs.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

  // `keep_weights`: the parameters have not changed since the previous call, which had keep_weights
  // too.
  void Forward(const void* x, const ConvParameters& parameters, const void* added, void* y,
               bool keep_weights, std::span<std::byte> scratch);
  // Requires: neither affine nor sum; no dx of a plain input with bfloat16.
  void Backward(const BlockedConvGrads& grads, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
