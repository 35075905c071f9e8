// Convolution by packed panels (math/packed_conv.h): the fast implementation of our own on the CPU.
#include "core/strings.h"
#include "layers/convolution/convolution_implementation.h"
#include "math/packed_conv.h"

namespace crema {
namespace {

Support Supports(const OpDesc& query) {
  if (!HavePackedConv()) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  if (g.window.axes > 2) {
    return Support::No(StrCat("is for at most 2 spatial axes, not ", g.window.axes));
  }
  if (!PaddedViewIsReasonable(g)) {
    return Support::No("pad, stride or dilation reach far beyond the image");
  }
  return {};
}

struct PackedMaths {
  static PackedConvShape ShapeOf(const ConvGeometry& g) {
    return PackedConvShape(g.window, g.groups, g.in_channels, g.out_channels);
  }
  static constexpr auto kForward = PackedConvForward;
  static constexpr auto kBackward = PackedConvBackward;
  static constexpr auto kForwardScratch = PackedConvForwardScratch;
  static constexpr auto kBackwardScratch = PackedConvBackwardScratch;
};

}  // namespace

ImplementationPtr PackedConvolutionImplementation() {
  return ConvolutionImplementation<PackedMaths>::Make("packed", Supports, [](const OpDesc& query) {
    constexpr double kProductsPerSecond = 60e9;  // per thread, at the rate of AVX-512
    return static_cast<double>(query.info.macs) / (kProductsPerSecond * query.threads);
  });
}

}  // namespace crema
