#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/tensor.h"
#include "math/blocked_conv.h"
#include "math/cpu/onednn/conv_rates.h"

namespace crema::onednn {
namespace {

// Small enough for the second-level cache: the comparison is of products, not of memory.
constexpr BlockedConvShape kShape = {.batch = 1,
                                     .groups = 1,
                                     .in_channels = 128,
                                     .out_channels = 128,
                                     .h = {.in = 16, .out = 16, .kernel = 3, .pad = 1},
                                     .w = {.in = 16, .out = 16, .kernel = 3, .pad = 1}};
constexpr int kRounds = 8;

// One convolution with its memory; blobs are zeros, which take as long as other numbers.
class Trial {
 public:
  explicit Trial(bool bfloat16, bool channels_last = false)
      : conv_({.shape = kShape, .channels_last = channels_last, .bfloat16 = bfloat16, .relu = {}}),
        weight_(Shape{kShape.WeightCount()}, DType::kF32),
        x_(Shape{kShape.in_channels * kShape.h.in * kShape.w.in}, DType::kF32),
        y_(Shape{kShape.out_channels * kShape.h.out * kShape.w.out}, DType::kF32),
        scratch_(conv_.ForwardScratch() + 64) {}

  double Seconds() {
    const auto start = std::chrono::steady_clock::now();
    const ConvParameters parameters{.weight = weight_.view().data<float>()};
    conv_.Forward(x_.view().raw(), parameters, nullptr, y_.view().raw(), true, scratch_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  BlockedConv conv_;
  Tensor weight_, x_, y_;
  std::vector<std::byte> scratch_;
};

// Returns the seconds of a convolution in single precision divided by those of the same in
// bfloat16, in turns, rounded to a power of 2^(1 / steps); 0 if oneDNN has none.
double GainOf(bool channels_last, double steps) {
  try {
    Trial single(false), half(true, channels_last);
    double least_single = single.Seconds(), least_half = half.Seconds();  // with the packing
    for (int round = 0; round < kRounds; ++round) {
      const double a = single.Seconds(), b = half.Seconds();
      least_single = std::min(least_single, a);
      least_half = std::min(least_half, b);
    }
    return std::exp2(std::round(std::log2(least_single / least_half) * steps) / steps);
  } catch (const Error&) {
    return 0;
  }
}

BFloat16Gains Measure() {
  if (!HasBFloat16()) return {};
  BFloat16Gains gains{.blocked = GainOf(false, 4), .channels_last = GainOf(true, 1)};
  if (gains.channels_last < 2 * std::max(gains.blocked, 1.0)) gains.channels_last = 0;
  return gains;
}

}  // namespace

BFloat16Gains MeasuredBFloat16Gains() {
  static const BFloat16Gains gains = Measure();
  return gains;
}

}  // namespace crema::onednn
