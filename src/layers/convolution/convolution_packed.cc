// Convolution by packed panels (math/packed_conv.h): the fast implementation of our own on the CPU.
#include <algorithm>

#include "core/strings.h"
#include "layers/convolution/conv_matmul.h"
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

// Returns the estimated time to pack the weights on one thread, to multiply whole panels, and to
// copy single elements into them if a stride leaves gaps.
double Seconds(const OpDesc& query) {
  constexpr double kPackedPerSecond = 10e9, kApartPerSecond = 2e9;
  constexpr double kProductsPerSecond = 60e9;  // per thread, at the rate of AVX-512
  constexpr int64_t kPanel = 32;               // output positions
  const ConvGeometry g = MakeConvGeometry(query.layer, query.context.inputs[0].shape);
  const int64_t positions = std::max<int64_t>(1, g.batch * g.window.OutSize());
  const int64_t padded = (positions + kPanel - 1) / kPanel * kPanel;
  const double fill = static_cast<double>(positions) / static_cast<double>(padded);
  const bool apart =
      g.window.axes > 0 && g.window.stride[static_cast<size_t>(g.window.axes - 1)] > 1;
  const auto macs = static_cast<double>(query.info.macs);
  const double copied = apart ? macs * static_cast<double>(g.groups) /
                                    static_cast<double>(std::max<int64_t>(1, g.out_channels))
                              : 0;
  return static_cast<double>(ConvWeightCount(g)) / kPackedPerSecond +
         (macs / (kProductsPerSecond * fill) + copied / kApartPerSecond) / query.threads;
}

}  // namespace

ImplementationPtr PackedConvolutionImplementation() {
  return ConvolutionImplementation<PackedMaths>::Make("packed", Supports, Seconds);
}

}  // namespace crema
