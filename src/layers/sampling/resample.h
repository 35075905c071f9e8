// Separable resampling of planes: each output row (and column) is a weighted sum of a few input
// rows (columns). Weights are computed once for all planes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/layer.h"
#include "math/scratch.h"

namespace crema {

enum class Interpolation { kNearest, kLinear, kCubic };

// One axis: the part [start, start + length) of the input is mapped to `out` elements.
struct SampledAxis {
  int64_t in = 0;  // whole input size
  int64_t start = 0;
  int64_t length = 0;
  int64_t out = 0;
};

struct Sampling {
  SampledAxis h;
  SampledAxis w;
  Interpolation interpolation = Interpolation::kLinear;
  // Aligns the centres of corner pixels; if false, pixels are areas with their centre at 1/2.
  bool align_corners = false;

  int64_t InSize() const { return h.in * w.in; }
  int64_t OutSize() const { return h.out * w.out; }
};

// Returns the scratch bytes of ForwardResample and BackwardResample.
size_t ResampleScratch(const Sampling& sampling);

// Resample `planes` consecutive planes; T is float or double. BackwardResample overwrites the
// input's gradient, with 0 outside of the sampled part. Thread safety: any, with separate scratch.
template <typename T>
void ForwardResample(int threads, const Sampling& sampling, int64_t planes, const T* x, T* y,
                     std::span<std::byte> scratch);
template <typename T>
void BackwardResample(int threads, const Sampling& sampling, int64_t planes, const T* dy, T* dx,
                      std::span<std::byte> scratch);

// A layer that resamples the last two axes of its first input. A further input only gives the size.
class ResampleLayer : public Layer {
 public:
  using Layer::Layer;
  LayerInfo Infer(const InferContext& context) const final;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info, int) const final;

  // Returns the sampling for an input of this shape, which has 4 axes and no empty planes; Infer
  // uses its `out` sizes. Throws like FailField or FailInputs.
  virtual Sampling Plan(const Shape& input, const Shape* reference) const = 0;
};

}  // namespace crema
