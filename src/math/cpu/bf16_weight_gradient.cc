#include "math/bf16_weight_gradient.h"

#include "core/error.h"
#include "math/cpu/bf16_gradient_driver.h"

namespace crema {

using namespace bf16_gradient;  // NOLINT: this file is a part of it

bool HasBF16Unit(BF16Unit unit) {
  return HasBFloat16() && (unit == BF16Unit::kVectors || HasTiles());
}

bool IsBF16GradientShape(const BlockedConvShape& s) {
  const bool whole =
      s.in_channels / s.groups % kLanes == 0 && s.out_channels / s.groups % kLanes == 0;
  return s.groups == 1 || whole;
}

// Compares the products with padding, plus the cost of packing, to the time of all other products.
// The constants are from bf16_gradient_bench, with vectors of a processor that multiplies bfloat16
// twice as fast as single precision. oneDNN's products are as fast; with few places per sum, its
// work after the products matters, which takes ours a third of the time. Tiles are not measured.
bool BF16GradientPays(BF16Unit unit, const BlockedConvShape& shape) {
  constexpr double kPacking = 0.15;  // of a block, in products of one with another
  constexpr double kMost = 1.06, kMostOfFew = 1.25, kMostByTiles = 2;
  constexpr int64_t kFewPlaces = 512;
  const Plan p(shape);
  const auto real = [](int64_t count) { return static_cast<double>(count); };
  const double halo = real(p.h.reach * p.pitch + p.w.reach) / real(p.chunk);
  const double inputs = real(p.Phases() * p.from_blocks * p.to_slabs) * (1 + halo);
  const double gradients = real(p.to_blocks * p.from_slabs);
  const double products = real(p.from_blocks * p.to_blocks * p.Filter());
  const double padding = real(p.pitch) / real(shape.w.out);
  const double share = padding * (1 + kPacking * (inputs + gradients) / products);
  if (unit == BF16Unit::kTiles) return share < kMostByTiles;
  const bool few = shape.batch * shape.h.out * shape.w.out <= kFewPlaces;
  return share < (few ? kMostOfFew : kMost);
}

size_t BF16WeightGradientScratch(const BlockedConvShape& shape, int threads) {
  return GradientScratch(Plan(shape), threads);
}

void BF16WeightGradient(BF16Unit unit, const BlockedConvShape& shape, int threads,
                        const BFloat16* x, const BFloat16* dy, float* dweight,
                        std::span<std::byte> scratch) {
  CREMA_CHECK(IsBF16GradientShape(shape));
  const GradientFunction run = unit == BF16Unit::kTiles ? TileGradient : VectorGradient;
  run(shape, threads, x, dy, dweight, scratch);
}

}  // namespace crema
