// Processes a few pixels at a time: the channels of each are copied to scratch, contiguous and with
// zeros around them, so that windows are sums of shifted vectors. Several pixels, because a shifted
// load of a vector that was just stored would stall.
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

constexpr int64_t kGap = 16;  // zeros between pixels: more than half a window, and whole vectors
static_assert(kMostBlockedLrn / 2 <= kGap);
constexpr int64_t kMostPixels = 16, kMostFloats = 2048;  // of a tile, so that it stays in the cache
constexpr int64_t kGrain = 1 << 12;                      // elements worth a thread

int64_t PixelsAtOnce(int64_t channels) {
  return std::clamp<int64_t>(kMostFloats / (channels + kGap), 1, kMostPixels);
}
int64_t TileFloats(int64_t channels) { return PixelsAtOnce(channels) * (channels + kGap) + kGap; }

// One image.
struct Blocks {
  int64_t channels, block, pixels;
  int64_t At(int64_t channel, int64_t pixel) const {
    return (channel / block * pixels + pixel) * block;
  }
};

// Pieces of the scratch of one thread; each holds some pixels with gaps between them.
struct Tile {
  Tile(float* scratch, int64_t c)
      : channels(c), values(scratch), sums(values + TileFloats(c)), power(sums + TileFloats(c)) {
    std::fill(values, power, 0.0F);
  }
  int64_t At(int64_t pixel) const { return kGap + pixel * (channels + kGap); }
  int64_t channels;
  float* values;  // with zeros in the gaps
  float* sums;
  float* power;
};

// sums = base + factor * the sum of the window, from the first to the last gap; values in the gaps
// are not read.
template <int kHalf>
[[gnu::always_inline]] inline void WindowSumsOf(int64_t begin, int64_t end, float base,
                                                float factor, const float* values, float* sums) {
  for (int64_t c = begin; c < end; ++c) {
    float sum = values[c];
    for (int j = 1; j <= kHalf; ++j) sum += values[c - j] + values[c + j];
    sums[c] = base + factor * sum;
  }
}

[[gnu::always_inline]] inline void WindowSums(int64_t begin, int64_t end, int64_t half, float base,
                                              float factor, const float* values, float* sums) {
  if (half == 1) return WindowSumsOf<1>(begin, end, base, factor, values, sums);
  if (half == 2) return WindowSumsOf<2>(begin, end, base, factor, values, sums);
  WindowSumsOf<0>(begin, end, base, factor, values, sums);
  for (int64_t j = 1; j <= half; ++j) {
    for (int64_t c = begin; c < end; ++c) sums[c] += factor * (values[c - j] + values[c + j]);
  }
}

// Calls body(element of the image, element of the tile) for each block of `count` pixels.
template <int kBlock, typename Body>
[[gnu::always_inline]] inline void ForBlocks(const Blocks& b, int64_t pixel, int64_t count,
                                             const Tile& tile, Body&& body) {
  for (int64_t c = 0; c < b.channels; c += kBlock) {
    for (int64_t i = 0; i < count; ++i) body(b.At(c, pixel + i), tile.At(i) + c);
  }
}

// power = scale^-beta with scale = k + alpha / size * the sum of x^2 over the window, from the
// first to the last gap.
template <int kBlock, typename T>
[[gnu::always_inline]] inline void ScalePower(const Blocks& b, const LrnParam& p, int64_t pixel,
                                              int64_t count, const T* x, const Tile& t) {
  using L = Lanes<kBlock>;
  const int64_t end = t.At(count) - kGap;
  ForBlocks<kBlock>(b, pixel, count, t, [&](int64_t at, int64_t in_tile) {
    typename L::Floats value;
    L::Load(x + at, &value);
    L::Store(value * value, t.values + in_tile);
  });
  WindowSums(kGap, end, (p.size - 1) / 2, static_cast<float>(p.k),
             static_cast<float>(p.alpha / static_cast<double>(p.size)), t.values, t.sums);
  LrnPower(end - kGap, LrnExponentOf(p.beta), p.beta, t.sums + kGap, t.power + kGap);
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void ForwardTile(const Blocks& b, const LrnParam& p, int64_t pixel,
                                               int64_t count, const T* x, T* y, const Tile& t) {
  using L = Lanes<kBlock>;
  ScalePower<kBlock>(b, p, pixel, count, x, t);
  ForBlocks<kBlock>(b, pixel, count, t, [&](int64_t at, int64_t in_tile) {
    typename L::Floats value, power;
    L::Load(x + at, &value);
    L::Load(t.power + in_tile, &power);
    L::Store(value * power, y + at);
  });
}

// dx = dy * scale^-beta - 2 alpha beta / size * x * sum over the window of dy * y / scale.
template <int kBlock, typename T>
[[gnu::always_inline]] inline void BackwardTile(const Blocks& b, const LrnParam& p, int64_t pixel,
                                                int64_t count, const T* x, const T* dy, T* dx,
                                                const Tile& t) {
  using L = Lanes<kBlock>;
  ScalePower<kBlock>(b, p, pixel, count, x, t);
  ForBlocks<kBlock>(b, pixel, count, t, [&](int64_t at, int64_t in_tile) {
    typename L::Floats value, gradient, power, scale;
    L::Load(dy + at, &gradient);
    L::Load(t.power + in_tile, &power);
    L::Load(x + at, &value);
    L::Load(t.sums + in_tile, &scale);
    gradient *= power;
    L::Store(gradient, t.power + in_tile);
    L::Store(gradient * value / scale, t.values + in_tile);
  });
  const auto factor = static_cast<float>(2 * p.alpha * p.beta / static_cast<double>(p.size));
  WindowSums(kGap, t.At(count) - kGap, (p.size - 1) / 2, 0, factor, t.values, t.sums);
  ForBlocks<kBlock>(b, pixel, count, t, [&](int64_t at, int64_t in_tile) {
    typename L::Floats value, gradient, sum;
    L::Load(t.power + in_tile, &gradient);
    L::Load(t.sums + in_tile, &sum);
    L::Load(x + at, &value);
    L::Store(gradient - sum * value, dx + at);
  });
}

// Multiversioned instances, by block size; bfloat16 has blocks of 16 only.
CREMA_MULTIVERSION void Forward(const Blocks& b, const LrnParam& p, int64_t pixel, int64_t count,
                                const float* x, float* y, const Tile& tile) {
  b.block == 16 ? ForwardTile<16>(b, p, pixel, count, x, y, tile)
                : ForwardTile<8>(b, p, pixel, count, x, y, tile);
}
CREMA_MULTIVERSION void Backward(const Blocks& b, const LrnParam& p, int64_t pixel, int64_t count,
                                 const float* x, const float* dy, float* dx, const Tile& tile) {
  b.block == 16 ? BackwardTile<16>(b, p, pixel, count, x, dy, dx, tile)
                : BackwardTile<8>(b, p, pixel, count, x, dy, dx, tile);
}
CREMA_MULTIVERSION void Forward(const Blocks& b, const LrnParam& p, int64_t pixel, int64_t count,
                                const BFloat16* x, BFloat16* y, const Tile& tile) {
  ForwardTile<16>(b, p, pixel, count, x, y, tile);
}
CREMA_MULTIVERSION void Backward(const Blocks& b, const LrnParam& p, int64_t pixel, int64_t count,
                                 const BFloat16* x, const BFloat16* dy, BFloat16* dx,
                                 const Tile& tile) {
  BackwardTile<16>(b, p, pixel, count, x, dy, dx, tile);
}

// Calls body(first element of the image, first pixel, pixels, tile).
template <typename Body>
void ForTiles(int threads, int64_t batch, const Blocks& b, float* scratch, Body&& body) {
  const int64_t pixels = PixelsAtOnce(b.channels), tiles = (b.pixels + pixels - 1) / pixels;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, pixels * b.channels));
  ParallelFor(threads, batch * tiles, grain, [&](int64_t begin, int64_t end, int worker) {
    const Tile tile(scratch + worker * BlockedLrnScratch(b.channels), b.channels);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % tiles * pixels;
      body(i / tiles * b.channels * b.pixels, first, std::min(pixels, b.pixels - first), tile);
    }
  });
}

}  // namespace

int64_t BlockedLrnScratch(int64_t channels) { return (3 * TileFloats(channels) + 15) / 16 * 16; }

template <typename T>
void BlockedLrn(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                const T* x, T* y, float* scratch) {
  const Blocks b{shape.channels, ChannelBlock(), shape.Plane()};
  ForTiles(threads, batch, b, scratch,
           [&](int64_t at, int64_t pixel, int64_t count, const Tile& tile) {
             Forward(b, param, pixel, count, x + at, y + at, tile);
           });
}

template <typename T>
void BlockedLrnBackward(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                        const T* x, const T* dy, T* dx, float* scratch) {
  const Blocks b{shape.channels, ChannelBlock(), shape.Plane()};
  ForTiles(threads, batch, b, scratch,
           [&](int64_t at, int64_t pixel, int64_t count, const Tile& tile) {
             Backward(b, param, pixel, count, x + at, dy + at, dx + at, tile);
           });
}

template void BlockedLrn(int, int64_t, const LrnShape&, const LrnParam&, const float*, float*,
                         float*);
template void BlockedLrnBackward(int, int64_t, const LrnShape&, const LrnParam&, const float*,
                                 const float*, float*, float*);
template void BlockedLrn(int, int64_t, const LrnShape&, const LrnParam&, const BFloat16*, BFloat16*,
                         float*);
template void BlockedLrnBackward(int, int64_t, const LrnShape&, const LrnParam&, const BFloat16*,
                                 const BFloat16*, BFloat16*, float*);

}  // namespace crema
