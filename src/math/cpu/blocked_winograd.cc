#include "math/blocked_winograd.h"

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/blocked_winograd_plan.h"
#include "math/cpu/blocked_winograd_products.h"
#include "math/cpu/blocked_winograd_tiles.h"

namespace crema {

using namespace blocked_winograd;  // NOLINT: this file is a part of it

namespace {

Pass PassOf(const PackedConvShape& s, WinogradPass pass) {
  return pass == WinogradPass::kDataGradient ? DataGradientPass(s) : ForwardPass(s);
}

struct Filters {
  const float* weight;  // of one group
  const float* factor;  // null, or one for each output channel of the convolution
  bool flipped;

  // Sets the factors of output channels [first, first + kLanes) of a pass for one of its inputs.
  void SetFactors(const Pass& p, int64_t from, int64_t first, float* factors) const {
    for (int64_t l = 0; l < kLanes; ++l) {
      const int64_t output = flipped ? from : first + l;
      const bool given = factor != nullptr && output < (flipped ? p.from : p.to);
      factors[l] = given ? factor[output] : 1;
    }
  }
};

// Transforms the filters of one pair of output blocks, all points.
void TransformPair(const Pass& p, const Filters& filters, int64_t block, float* to) {
  const int64_t end = std::min(block + kMaxVectors, p.ToBlocks());
  const int64_t width = (end - block) * kLanes;
  const int64_t point = FilterPoint(p, end - block);
  const int64_t from_stride = filters.flipped ? p.to * 9 : 9;
  const int64_t to_stride = filters.flipped ? 9 : p.from * 9;
  alignas(64) float factors[kMaxVectors][kLanes];
  for (int64_t c = 0; c < p.FromBlocks() * kLanes; ++c) {
    for (int64_t b = block; b < end; ++b) {
      const int64_t first = b * kLanes;
      float* block_factors = factors[b - block];
      if (c == 0 || filters.flipped) filters.SetFactors(p, c, first, block_factors);
      // After the last channel there is nothing to read, and products are with 0.
      const int64_t count = c < p.from ? std::min(kLanes, p.to - first) : 0;
      const float* weight = filters.weight + c * from_stride + first * to_stride;
      TransformFilters({weight, to_stride, count, filters.flipped, block_factors},
                       to + c * width + (b - block) * kLanes, point);
    }
  }
}

}  // namespace

bool HaveBlockedWinograd() { return ChannelBlock() == kLanes; }

bool IsBlockedWinogradShape(const PackedConvShape& s) {
  const auto fits = [](const PackedConvShape::Axis& a) {
    return a.kernel == 3 && a.stride == 1 && a.dilation == 1 && a.pad >= 0 && a.pad <= 2 &&
           a.out > 0;
  };
  const bool whole = s.channels % kLanes == 0 && s.outputs % kLanes == 0;
  return fits(s.h) && fits(s.w) && (s.groups == 1 || whole);
}

size_t BlockedWinogradWeightBytes(const PackedConvShape& s, WinogradPass pass) {
  return static_cast<size_t>(s.groups * FilterGroup(PassOf(s, pass))) * sizeof(float);
}

void BlockedWinogradWeights(const PackedConvShape& s, WinogradPass pass, int threads,
                            const float* weight, const float* factor, float* transformed) {
  const Pass p = PassOf(s, pass);
  const int64_t pairs = DivideUp(p.ToBlocks(), kMaxVectors);
  ParallelFor(threads, p.groups * pairs, 1, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) {
      const int64_t group = i / pairs, pair = i % pairs;
      const Filters filters{weight + group * p.from * p.to * 9,
                            factor == nullptr ? nullptr : factor + group * s.outputs,
                            pass == WinogradPass::kDataGradient};
      TransformPair(p, filters, pair * kMaxVectors,
                    transformed + group * FilterGroup(p) + pair * FilterPair(p));
    }
  });
}

size_t BlockedWinogradForwardScratch(const PackedConvShape& s, int64_t batch, int threads) {
  return ConvolveScratch(ForwardPass(s), batch, threads);
}

void BlockedWinogradForward(const PackedConvShape& s, int64_t batch, int threads, const float* x,
                            const float* transformed, const WinogradEpilogue& epilogue, float* y,
                            std::span<std::byte> scratch) {
  Convolve(ForwardPass(s), batch, threads, x, transformed, epilogue, y, scratch);
}

size_t BlockedWinogradDataGradientScratch(const PackedConvShape& s, int64_t batch, int threads) {
  return ConvolveScratch(DataGradientPass(s), batch, threads);
}

void BlockedWinogradDataGradient(const PackedConvShape& s, int64_t batch, int threads,
                                 const float* dy, const float* transformed, float* dx,
                                 std::span<std::byte> scratch) {
  Convolve(DataGradientPass(s), batch, threads, dy, transformed, {}, dx, scratch);
}

}  // namespace crema
