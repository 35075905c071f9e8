#include "math/blocked_bias.h"

#include <algorithm>

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/lanes.h"
#include "math/relu_rule.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 10;  // pixels of a block worth a thread
constexpr int64_t kMostLanes = 16;
constexpr int64_t kRun = 64;  // pixels that are added in single precision

template <int kLanes>
[[gnu::always_inline]] inline void AddBias(const float* bias, float slope, int64_t pixels,
                                           float* y) {
  using L = Lanes<kLanes>;
  typename L::Floats shift, value;
  L::Load(bias, &shift);
  for (int64_t i = 0; i < pixels * kLanes; i += kLanes) {
    L::Load(y + i, &value);
    value += shift;
    ApplyRelu(slope, &value);
    L::Store(value, y + i);
  }
}
CREMA_MULTIVERSION void AddBias16(const float* bias, float slope, int64_t pixels, float* y) {
  AddBias<16>(bias, slope, pixels, y);
}
CREMA_MULTIVERSION void AddBias8(const float* bias, float slope, int64_t pixels, float* y) {
  AddBias<8>(bias, slope, pixels, y);
}

template <int kLanes, typename T>
[[gnu::always_inline]] inline void AddPlane(int64_t pixels, const T* x, double* sums) {
  using L = Lanes<kLanes>;
  typename L::Floats value;
  for (int64_t p = 0; p < pixels; p += kRun) {
    typename L::Floats run{};
    for (int64_t i = p * kLanes; i < std::min(pixels, p + kRun) * kLanes; i += kLanes) {
      L::Load(x + i, &value);
      run += value;
    }
    for (int l = 0; l < kLanes; ++l) sums[l] += static_cast<double>(run[l]);
  }
}
CREMA_MULTIVERSION void AddPlane16(int64_t pixels, const float* x, double* sums) {
  AddPlane<16>(pixels, x, sums);
}
CREMA_MULTIVERSION void AddPlane16(int64_t pixels, const BFloat16* x, double* sums) {
  AddPlane<16>(pixels, x, sums);
}
CREMA_MULTIVERSION void AddPlane8(int64_t pixels, const float* x, double* sums) {
  AddPlane<8>(pixels, x, sums);
}
CREMA_MULTIVERSION void AddPlane8(int64_t pixels, const BFloat16* x, double* sums) {
  AddPlane<8>(pixels, x, sums);
}

int64_t BlocksOf(int64_t channels) { return (channels + ChannelBlock() - 1) / ChannelBlock(); }

}  // namespace

void AddBlockedBiasRelu(int threads, int64_t batch, int64_t channels, int64_t pixels,
                        const float* bias, FusedRelu relu, float* y) {
  const int64_t lanes = ChannelBlock(), blocks = BlocksOf(channels);
  const auto add = lanes == 16 ? AddBias16 : AddBias8;
  const float slope = relu.on ? relu.slope : 1;
  ParallelFor(threads, batch * blocks * pixels, kGrain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t plane = begin / pixels;
      const int64_t stop = std::min(end, (plane + 1) * pixels);
      const int64_t first = plane % blocks * lanes;
      float shift[kMostLanes] = {};
      if (bias != nullptr) {
        std::copy_n(bias + first, std::min(lanes, channels - first), shift);
      }
      add(shift, slope, stop - begin, y + begin * lanes);
      begin = stop;
    }
  });
}

template <typename T>
void AddBlockedChannelSums(int threads, int64_t batch, int64_t channels, int64_t pixels, const T* x,
                           float* sums) {
  const int64_t lanes = ChannelBlock(), blocks = BlocksOf(channels);
  ParallelFor(threads, blocks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      double total[kMostLanes] = {};
      for (int64_t n = 0; n < batch; ++n) {
        const T* plane = x + (n * blocks + block) * pixels * lanes;
        lanes == 16 ? AddPlane16(pixels, plane, total) : AddPlane8(pixels, plane, total);
      }
      const int64_t first = block * lanes;
      for (int64_t c = first; c < std::min(channels, first + lanes); ++c) {
        sums[c] += static_cast<float>(total[c - first]);
      }
    }
  });
}
template void AddBlockedChannelSums(int, int64_t, int64_t, int64_t, const float*, float*);
template void AddBlockedChannelSums(int, int64_t, int64_t, int64_t, const BFloat16*, float*);

}  // namespace crema
