// Resampling of planes, axis by axis: each output row (and column) is a weighted sum of a few input
// rows (columns), which are worked out once for all planes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/layer.h"
#include "math/scratch.h"

namespace crema {

enum class Interpolation { kNearest, kLinear, kCubic };

// One axis: the input's part [start, start + length) is spread over `out` places.
struct SampledAxis {
  int64_t in = 0;  // whole extent of the input
  int64_t start = 0;
  int64_t length = 0;
  int64_t out = 0;
};

struct Sampling {
  SampledAxis h;
  SampledAxis w;
  Interpolation interpolation = Interpolation::kLinear;
  // Corner lies on corner; false: pixels are areas, with the centre at half.
  bool align_corners = false;

  int64_t InSize() const { return h.in * w.in; }
  int64_t OutSize() const { return h.out * w.out; }
};

// Bytes that ForwardResample and BackwardResample need.
size_t ResampleScratch(const Sampling& sampling);

// `planes` planes one after the other; T is float or double. The gradient of the input is
// overwritten; it is 0 outside of the part. Thread safety: any, with scratch of its own.
template <typename T>
void ForwardResample(int threads, const Sampling& sampling, int64_t planes, const T* x, T* y,
                     std::span<std::byte> scratch);
template <typename T>
void BackwardResample(int threads, const Sampling& sampling, int64_t planes, const T* dy, T* dx,
                      std::span<std::byte> scratch);

// A layer that resamples the last two axes of its first input. Further inputs give sizes only.
class ResampleLayer : public Layer {
 public:
  using Layer::Layer;
  LayerInfo Infer(const InferContext& context) const final;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info, int) const final;

  // The sampling for an input of this shape, of 4 axes and without empty planes; `out` is filled in
  // for Infer. Throws FailField or FailInputs.
  virtual Sampling Plan(const Shape& input, const Shape* reference) const = 0;
};

}  // namespace crema
