// Convolution in single precision where each output channel has one input channel, with one or two
// spatial axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "math/bias_activation.h"
#include "math/conv_grads.h"
#include "math/conv_window.h"

namespace crema {

// One plane, padded and split by the residues of its rows and columns modulo the strides
// ("phases"): there the inputs of neighbouring outputs are neighbours for any stride, and one
// filter element for a whole plane of outputs reads one contiguous run. The runs are as long as the
// rows of a phase; the elements between the outputs of two rows are computed and discarded.
struct DepthwiseShape {
  // Requires: window.axes is 1 or 2; no stride is larger than the dilated kernel.
  DepthwiseShape(const ConvWindow& window, int64_t in_channels, int64_t out_channels);

  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
    int64_t phase = 1;  // size of a phase
  } h, w;
  int64_t channels;
  int64_t multiplier;  // outputs of a channel

  int64_t Taps() const { return h.kernel * w.kernel; }
  int64_t InPlane() const { return h.in * w.in; }
  int64_t OutPlane() const { return h.out * w.out; }
  int64_t Phases() const { return h.stride * w.stride * h.phase * w.phase; }  // elements
  int64_t Run() const { return (h.out - 1) * w.phase + w.out; }
  // Returns the offset of the run of a filter element.
  int64_t Offset(int64_t tap) const;
};

// y = relu(weight * x + bias); `bias` may be null. Thread safety: any, with scratch of its own.
size_t DepthwiseForwardScratch(const DepthwiseShape& shape, int64_t batch, int threads);
void DepthwiseForward(const DepthwiseShape& shape, int64_t batch, int threads, const float* x,
                      const float* weight, const float* bias, FusedRelu relu, float* y,
                      std::span<std::byte> scratch);

size_t DepthwiseBackwardScratch(const DepthwiseShape& shape, int threads);
// The same bits for any number of threads.
void DepthwiseBackward(const DepthwiseShape& shape, int64_t batch, int threads, FusedRelu relu,
                       const ConvGrads& grads, std::span<std::byte> scratch);

}  // namespace crema
