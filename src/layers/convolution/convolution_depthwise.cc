// Convolution with one input channel per group, without matrix products (math/depthwise_conv.h).
#include <algorithm>

#include "core/strings.h"
#include "layers/convolution/convolution_implementation.h"
#include "math/depthwise_conv.h"
#include "plan/copy_cost.h"

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

double Seconds(const OpDesc& query) {
  constexpr double kProductsPerSecond = 12e9;  // per thread, at the rate of AVX-512
  const double products = static_cast<double>(query.info.macs) / query.threads;
  return std::max(CopySeconds(query), products / kProductsPerSecond);
}

}  // namespace

ImplementationPtr DepthwiseConvolutionImplementation() {
  return ConvolutionImplementation<DepthwiseMaths>::Make("depthwise", Supports, Seconds);
}

}  // namespace crema
