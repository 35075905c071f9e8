// Separable resampling of blobs: each output element along an axis is a weighted sum of a few input
// elements. Weights are computed once for all planes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/axis_list.h"
#include "graph/layer.h"
#include "math/scratch.h"

namespace crema {

enum class SamplingMethod { kNearest, kLinear, kCubic };
// The element that kNearest takes at a position: of two equally near ones the later or the earlier,
// or the one at or before, or at or after it.
enum class NearestMode { kPreferCeil, kPreferFloor, kFloor, kCeil };

// One axis: the part [start, start + length) of the input is mapped to `out` elements. Output
// element o is at (o + before) * num / den + after, in elements from `start`.
struct SampledAxis {
  // Returns an axis of this size that is copied.
  static SampledAxis Unchanged(int64_t size) { return {.in = size, .length = size, .out = size}; }

  // Aligns the centres of the corner elements. `wide` is the output size before it is rounded.
  void AlignCorners(double wide);
  // Elements are areas with their centres at 1/2. Outputs are num / den input elements apart.
  void AlignAreas(double input_step, double output_step);

  int64_t in = 1;  // whole input size
  int64_t start = 0;
  int64_t length = 1;
  int64_t out = 1;
  double before = 0, num = 1, den = 1, after = 0;
  int taps = 1;            // input elements of one output element
  double narrowing = 1;    // up to 1: factor on distances in the kernel (antialias)
  bool cuts = false;       // positions outside of the axis are extrapolated
  bool resampled = false;  // not copied
};

// Axes from the outermost to the innermost; surplus ones, which come first, have size 1.
struct Sampling {
  static constexpr int kAxes = 4;

  int64_t InSize() const;
  int64_t OutSize() const;
  // Sets `taps` of the resampled axes, after everything else.
  void SetTaps();

  SampledAxis axes[kAxes];
  SamplingMethod interpolation = SamplingMethod::kLinear;
  NearestMode nearest = NearestMode::kPreferCeil;
  double cubic_a = -0.75;        // of Keys' kernel
  bool exclude_outside = false;  // no weight outside; false: border elements are repeated
  float extrapolation = 0;       // value of outputs outside of an axis that cuts
};

// Returns the scratch bytes of ForwardResample and BackwardResample.
size_t ResampleScratch(const Sampling& sampling, int threads);

// Resample `planes` consecutive planes; T is float or double. BackwardResample overwrites the
// input's gradient, with 0 outside of the sampled part. Thread safety: any, with separate scratch.
template <typename T>
void ForwardResample(int threads, const Sampling& sampling, int64_t planes, const T* x, T* y,
                     std::span<std::byte> scratch);
template <typename T>
void BackwardResample(int threads, const Sampling& sampling, int64_t planes, const T* dy, T* dx,
                      std::span<std::byte> scratch);

struct ResamplePlan {
  Sampling sampling;
  Shape output;
  AxisList<SampledAxis> axes;  // of the input, without `taps`
  bool mixes_samples = false;  // axis 0 is resampled
};

// A layer that resamples axes of its first input. A further input only gives the size.
class ResampleLayer : public Layer {
 public:
  using Layer::Layer;
  LayerInfo Infer(const InferContext& context) const final;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info,
                        int threads) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const final;

  // Returns the plan for an input of this shape. Throws like FailField or FailInputs.
  virtual ResamplePlan Plan(const Shape& input, const Shape* reference) const = 0;

 protected:
  // Throws unless the input has 4 axes and its planes are not empty.
  void CheckPlanes(const Shape& input) const;
};

}  // namespace crema
