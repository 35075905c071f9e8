// Convolution with one input channel per group, without matrix products (math/depthwise_conv.h).
#include "core/strings.h"
#include "layers/convolution/convolution_implementation.h"
#include "math/depthwise_conv.h"

namespace crema {
namespace {

bool HasGaps(const ConvWindow& w) {
  for (size_t i = 0; i < static_cast<size_t>(w.axes); ++i) {
    if (w.stride[i] > (w.kernel[i] - 1) * w.dilation[i] + 1) return true;
  }
  return false;
}

Support Supports(const OpDesc& query) {
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.groups != g.in_channels || g.groups == 1) {
    return Support::No("is for more than one group, with one input channel each");
  }
  if (g.window.axes < 1 || g.window.axes > 2) {
    return Support::No(StrCat("is for 1 or 2 spatial axes, not ", g.window.axes));
  }
  if (HasGaps(g.window)) return Support::No("a stride skips inputs");
  if (!PaddedViewIsReasonable(g)) {
    return Support::No("pad, stride or dilation reach far beyond the image");
  }
  return {};
}

struct DepthwiseMaths {
  static DepthwiseShape ShapeOf(const ConvGeometry& g) {
    return DepthwiseShape(g.window, g.in_channels, g.out_channels);
  }
  static constexpr auto kForward = DepthwiseForward;
  static constexpr auto kBackward = DepthwiseBackward;
  static constexpr auto kForwardScratch = DepthwiseForwardScratch;
  static constexpr auto kBackwardScratch = [](const DepthwiseShape& shape, int64_t /*batch*/,
                                              int threads, FusedRelu) {
    return DepthwiseBackwardScratch(shape, threads);
  };
};

// Returns the estimated time to copy the planes and to multiply, at the rates of AVX-512. Larger
// strides copy single elements.
double Seconds(const OpDesc& query) {
  constexpr double kProductsPerSecond = 90e9;  // per thread, as the others
  constexpr double kElementsPerSecond = 10e9, kApartPerSecond = 5e9;
  constexpr double kPlaneSeconds = 30e-9, kPlaneSecondsApart = 100e-9;
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const bool apart = g.window.stride[static_cast<size_t>(g.window.axes - 1)] > 1;
  const auto elements = static_cast<double>(g.batch * (g.InImage() + g.OutImage()));
  const auto planes = static_cast<double>(g.batch * g.out_channels);
  return (static_cast<double>(query.info.macs) / kProductsPerSecond +
          elements / (apart ? kApartPerSecond : kElementsPerSecond) +
          planes * (apart ? kPlaneSecondsApart : kPlaneSeconds)) /
         query.threads;
}

}  // namespace

ImplementationPtr DepthwiseConvolutionImplementation() {
  return ConvolutionImplementation<DepthwiseMaths>::Make("depthwise", Supports, Seconds);
}

}  // namespace crema
