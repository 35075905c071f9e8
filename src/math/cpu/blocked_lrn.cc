// Pixel by pixel: the channels of one lie in memory of their own, one behind the other and with
// zeros around them, so that windows are sums of shifted vectors.
#include "math/blocked_lrn.h"

#include <algorithm>

#include "core/bfloat16.h"
#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/lanes.h"
#include "math/cpu/lrn_power.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kHalf = kMostBlockedLrn / 2;
constexpr int64_t kGrain = 1 << 12;  // elements that pay for a thread

// One image.
struct Blocks {
  int64_t channels, block, pixels;
  int64_t At(int64_t channel, int64_t pixel) const {
    return (channel / block * pixels + pixel) * block;
  }
};

// Pieces of the scratch of one thread.
struct Row {
  Row(float* scratch, int64_t channels)
      : padded(scratch),
        values(scratch + kHalf),
        sums(scratch + channels + 2 * kHalf),
        power(sums + channels),
        other(power + channels) {
    std::fill(padded, sums, 0.0F);
  }
  float* padded;  // `values` with zeros around
  float* values;
  float* sums;
  float* power;
  float* other;
};

[[gnu::always_inline]] inline void WindowSums(int64_t channels, int64_t half, const float* values,
                                              float* sums) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = values[c];
  for (int64_t j = 1; j <= half; ++j) {
    for (int64_t c = 0; c < channels; ++c) sums[c] += values[c - j] + values[c + j];
  }
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void ForwardPixel(const Blocks& b, const LrnParam& p, int64_t pixel,
                                                const T* x, float* scale, T* y, const Row& row) {
  using L = Lanes<kBlock>;
  const int64_t half = (p.size - 1) / 2;
  const auto factor = static_cast<float>(p.alpha / static_cast<double>(p.size));
  const auto k = static_cast<float>(p.k);
  typename L::Floats value, power;
  for (int64_t c = 0; c < b.channels; c += kBlock) {
    L::Load(x + b.At(c, pixel), &value);
    L::Store(value * value, row.values + c);
  }
  WindowSums(b.channels, half, row.values, row.sums);
  for (int64_t c = 0; c < b.channels; ++c) row.sums[c] = k + factor * row.sums[c];
  LrnPower(b.channels, LrnExponentOf(p.beta), p.beta, row.sums, row.power);
  for (int64_t c = 0; c < b.channels; c += kBlock) {
    const int64_t at = b.At(c, pixel);
    if (scale != nullptr) std::copy_n(row.sums + c, kBlock, scale + at);
    L::Load(x + at, &value);
    L::Load(row.power + c, &power);
    L::Store(value * power, y + at);
  }
}

// dx = dy * scale^-beta - 2 alpha beta / size * x * sum over the window of dy * y / scale.
template <int kBlock, typename T>
[[gnu::always_inline]] inline void BackwardPixel(const Blocks& b, const LrnParam& p, int64_t pixel,
                                                 const T* x, const float* scale, const T* dy, T* dx,
                                                 const Row& row) {
  using L = Lanes<kBlock>;
  const int64_t half = (p.size - 1) / 2;
  const auto factor = static_cast<float>(2 * p.alpha * p.beta / static_cast<double>(p.size));
  for (int64_t c = 0; c < b.channels; c += kBlock) {
    std::copy_n(scale + b.At(c, pixel), kBlock, row.sums + c);
  }
  LrnPower(b.channels, LrnExponentOf(p.beta), p.beta, row.sums, row.power);
  typename L::Floats value, gradient, power, sum;
  for (int64_t c = 0; c < b.channels; c += kBlock) {
    const int64_t at = b.At(c, pixel);
    L::Load(dy + at, &gradient);
    L::Load(row.power + c, &power);
    L::Load(x + at, &value);
    L::Load(row.sums + c, &sum);
    gradient *= power;
    L::Store(gradient, row.other + c);
    L::Store(gradient * value / sum, row.values + c);
  }
  WindowSums(b.channels, half, row.values, row.sums);
  for (int64_t c = 0; c < b.channels; c += kBlock) {
    const int64_t at = b.At(c, pixel);
    L::Load(row.other + c, &gradient);
    L::Load(row.sums + c, &sum);
    L::Load(x + at, &value);
    L::Store(gradient - factor * sum * value, dx + at);
  }
}

// The versions for the processors, by block; bfloat16 comes in blocks of 16 only.
CREMA_MULTIVERSION void Forward(const Blocks& b, const LrnParam& p, int64_t pixel, const float* x,
                                float* scale, float* y, const Row& row) {
  b.block == 16 ? ForwardPixel<16>(b, p, pixel, x, scale, y, row)
                : ForwardPixel<8>(b, p, pixel, x, scale, y, row);
}
CREMA_MULTIVERSION void Backward(const Blocks& b, const LrnParam& p, int64_t pixel, const float* x,
                                 const float* scale, const float* dy, float* dx, const Row& row) {
  b.block == 16 ? BackwardPixel<16>(b, p, pixel, x, scale, dy, dx, row)
                : BackwardPixel<8>(b, p, pixel, x, scale, dy, dx, row);
}
CREMA_MULTIVERSION void Forward(const Blocks& b, const LrnParam& p, int64_t pixel,
                                const BFloat16* x, float* scale, BFloat16* y, const Row& row) {
  ForwardPixel<16>(b, p, pixel, x, scale, y, row);
}
CREMA_MULTIVERSION void Backward(const Blocks& b, const LrnParam& p, int64_t pixel,
                                 const BFloat16* x, const float* scale, const BFloat16* dy,
                                 BFloat16* dx, const Row& row) {
  BackwardPixel<16>(b, p, pixel, x, scale, dy, dx, row);
}

// body(first element of the image, pixel, row)
template <typename Body>
void ForPixels(int threads, int64_t batch, const Blocks& b, float* scratch, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, b.channels));
  ParallelFor(threads, batch * b.pixels, grain, [&](int64_t begin, int64_t end, int worker) {
    const Row row(scratch + worker * BlockedLrnScratch(b.channels), b.channels);
    for (int64_t i = begin; i < end; ++i) {
      body(i / b.pixels * b.channels * b.pixels, i % b.pixels, row);
    }
  });
}

}  // namespace

int64_t BlockedLrnScratch(int64_t channels) { return (4 * channels + 2 * kHalf + 15) / 16 * 16; }

template <typename T>
void BlockedLrn(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                const T* x, float* scale, T* y, float* scratch) {
  const Blocks b{shape.channels, ChannelBlock(), shape.Plane()};
  ForPixels(threads, batch, b, scratch, [&](int64_t at, int64_t pixel, const Row& row) {
    Forward(b, param, pixel, x + at, scale == nullptr ? nullptr : scale + at, y + at, row);
  });
}

template <typename T>
void BlockedLrnBackward(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                        const T* x, const float* scale, const T* dy, T* dx, float* scratch) {
  const Blocks b{shape.channels, ChannelBlock(), shape.Plane()};
  ForPixels(threads, batch, b, scratch, [&](int64_t at, int64_t pixel, const Row& row) {
    Backward(b, param, pixel, x + at, scale + at, dy + at, dx + at, row);
  });
}

template void BlockedLrn(int, int64_t, const LrnShape&, const LrnParam&, const float*, float*,
                         float*, float*);
template void BlockedLrnBackward(int, int64_t, const LrnShape&, const LrnParam&, const float*,
                                 const float*, const float*, float*, float*);
template void BlockedLrn(int, int64_t, const LrnShape&, const LrnParam&, const BFloat16*, float*,
                         BFloat16*, float*);
template void BlockedLrnBackward(int, int64_t, const LrnShape&, const LrnParam&, const BFloat16*,
                                 const float*, const BFloat16*, BFloat16*, float*);

}  // namespace crema
