#include "math/blocked_scale.h"

#include <algorithm>

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/lanes.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth a thread
constexpr int64_t kMostLanes = 16;
constexpr int64_t kRun = 64;  // pixels that are added in single precision

template <int kLanes, typename T>
[[gnu::always_inline]] inline void ScalePixels(const float* factors, const T* x, T* y,
                                               int64_t pixels) {
  using L = Lanes<kLanes>;
  typename L::Floats factor, value;
  L::Load(factors, &factor);
  for (int64_t i = 0; i < pixels * kLanes; i += kLanes) {
    L::Load(x + i, &value);
    L::Store(value * factor, y + i);
  }
}
template <typename T>
CREMA_MULTIVERSION void ScalePixels16(const float* factors, const T* x, T* y, int64_t pixels) {
  ScalePixels<16>(factors, x, y, pixels);
}
template <typename T>
CREMA_MULTIVERSION void ScalePixels8(const float* factors, const T* x, T* y, int64_t pixels) {
  ScalePixels<8>(factors, x, y, pixels);
}

// sums[lane] += x * z.
template <int kLanes, typename T>
[[gnu::always_inline]] inline void AddProducts(const T* x, const T* z, int64_t pixels,
                                               double* sums) {
  using L = Lanes<kLanes>;
  typename L::Floats a, b;
  for (int64_t p = 0; p < pixels; p += kRun) {
    typename L::Floats run{};
    for (int64_t i = p * kLanes; i < std::min(pixels, p + kRun) * kLanes; i += kLanes) {
      L::Load(x + i, &a);
      L::Load(z + i, &b);
      run += a * b;
    }
    for (int l = 0; l < kLanes; ++l) sums[l] += static_cast<double>(run[l]);
  }
}
template <typename T>
CREMA_MULTIVERSION void AddProducts16(const T* x, const T* z, int64_t pixels, double* sums) {
  AddProducts<16>(x, z, pixels, sums);
}
template <typename T>
CREMA_MULTIVERSION void AddProducts8(const T* x, const T* z, int64_t pixels, double* sums) {
  AddProducts<8>(x, z, pixels, sums);
}

int64_t BlocksOf(const ScaledBlocks& b) {
  return (b.channels + ChannelBlock() - 1) / ChannelBlock();
}

}  // namespace

template <typename T>
void ScaleBlockedChannels(int threads, const ScaledBlocks& b, const T* x, const float* factors,
                          T* y) {
  const int64_t lanes = ChannelBlock(), blocks = BlocksOf(b);
  const auto scale = lanes == 16 ? ScalePixels16<T> : ScalePixels8<T>;
  ParallelFor(threads, b.batch * blocks * b.pixels, kGrain / lanes,
              [&](int64_t begin, int64_t end, int) {
                while (begin < end) {
                  const int64_t plane = begin / b.pixels;
                  const int64_t stop = std::min(end, (plane + 1) * b.pixels);
                  const int64_t image = b.per_image ? plane / blocks : 0;
                  const int64_t first = plane % blocks * lanes;
                  float lane[kMostLanes] = {};
                  std::copy_n(factors + image * b.channels + first,
                              std::min(lanes, b.channels - first), lane);
                  scale(lane, x + begin * lanes, y + begin * lanes, stop - begin);
                  begin = stop;
                }
              });
}

template <typename T>
void BlockedChannelDots(int threads, const ScaledBlocks& b, const T* x, const T* z, float* sums) {
  const int64_t lanes = ChannelBlock(), blocks = BlocksOf(b);
  const auto add = lanes == 16 ? AddProducts16<T> : AddProducts8<T>;
  const int64_t groups = b.per_image ? b.batch : 1, images = b.per_image ? 1 : b.batch;
  const int64_t grain = std::max<int64_t>(1, kGrain / (images * b.pixels * lanes + 1));
  ParallelFor(threads, groups * blocks, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / blocks, block = i % blocks;
      double total[kMostLanes] = {};
      for (int64_t n = group * images; n < (group + 1) * images; ++n) {
        const int64_t at = (n * blocks + block) * b.pixels * lanes;
        add(x + at, z + at, b.pixels, total);
      }
      const int64_t first = block * lanes;
      for (int64_t c = first; c < std::min(b.channels, first + lanes); ++c) {
        sums[group * b.channels + c] = static_cast<float>(total[c - first]);
      }
    }
  });
}

template void ScaleBlockedChannels(int, const ScaledBlocks&, const float*, const float*, float*);
template void ScaleBlockedChannels(int, const ScaledBlocks&, const BFloat16*, const float*,
                                   BFloat16*);
template void BlockedChannelDots(int, const ScaledBlocks&, const float*, const float*, float*);
template void BlockedChannelDots(int, const ScaledBlocks&, const BFloat16*, const BFloat16*,
                                 float*);

}  // namespace crema
