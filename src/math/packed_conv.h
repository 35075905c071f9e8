// Convolution in single precision with one or two spatial axes, as products of packed panels: the
// patches of 32 pixels are packed just before they are multiplied, so no column matrix is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "math/bias_activation.h"
#include "math/conv_grads.h"
#include "math/conv_window.h"

namespace crema {

// Sizes of one image and one filter bank; a missing axis has size 1.
struct PackedConvShape {
  // Requires: window.axes is at most 2.
  PackedConvShape(const ConvWindow& window, int64_t groups, int64_t in_channels,
                  int64_t out_channels);

  int64_t groups;
  int64_t channels;  // inputs of a group
  int64_t outputs;   // of a group
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
    int64_t reach = 1;  // input pixels that the windows cover, padding included
  } h, w;

  int64_t Pixels() const { return h.out * w.out; }
  int64_t Depth() const { return channels * h.kernel * w.kernel; }
  int64_t InImage() const { return groups * channels * h.in * w.in; }
  int64_t OutImage() const { return groups * outputs * Pixels(); }
  int64_t WeightCount() const { return groups * outputs * Depth(); }
  // Patches are read from a padded copy of the image, unless it would equal the image.
  bool NeedsCopy() const { return h.pad != 0 || w.pad != 0 || h.reach != h.in || w.reach != w.in; }
  int64_t ViewImage() const { return groups * channels * h.reach * w.reach; }
  bool IsPointwise() const {
    return h.kernel == 1 && w.kernel == 1 && h.stride == 1 && w.stride == 1 && !NeedsCopy();
  }
};

// Returns true if this processor has the vector units; the functions below require them.
bool HavePackedConv();

// y = relu(weight * x + bias); `bias` may be null. Thread safety: any, with scratch of its own.
size_t PackedConvForwardScratch(const PackedConvShape& shape, int64_t batch, int threads);
void PackedConvForward(const PackedConvShape& shape, int64_t batch, int threads, const float* x,
                       const float* weight, const float* bias, FusedRelu relu, float* y,
                       std::span<std::byte> scratch);

size_t PackedConvBackwardScratch(const PackedConvShape& shape, int64_t batch, int threads,
                                 FusedRelu relu);
void PackedConvBackward(const PackedConvShape& shape, int64_t batch, int threads, FusedRelu relu,
                        const ConvGrads& grads, std::span<std::byte> scratch);

}  // namespace crema
