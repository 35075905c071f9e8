#include "math/blocked_prelu.h"

#include <algorithm>

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/lanes.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth a thread
constexpr int64_t kMostLanes = 16;
constexpr int64_t kRun = 256;  // pixels that are added in single precision

int64_t BlocksOf(const PReluBlocks& b) {
  return (b.channels + ChannelBlock() - 1) / ChannelBlock();
}

// The slopes of one block; 0 after the last channel.
struct Slopes {
  Slopes(const PReluBlocks& b, int64_t block) {
    const int64_t lanes = ChannelBlock();
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t c = block * lanes + l;
      lane[l] = b.shared ? *b.slope : (c < b.channels ? b.slope[c] : 0);
    }
  }
  float lane[kMostLanes] = {};
};

// Multiplies z by the slope where x <= 0, pixel by pixel.
template <int kLanes>
[[gnu::always_inline]] inline void Bend(const Slopes& slopes, const float* x, const float* z,
                                        float* y, int64_t pixels) {
  using L = Lanes<kLanes>;
  typename L::Floats slope, value, bent;
  L::Load(slopes.lane, &slope);
  for (int64_t i = 0; i < pixels * kLanes; i += kLanes) {
    L::Load(x + i, &value);
    L::Load(z + i, &bent);
    L::Store(value > 0 ? bent : slope * bent, y + i);
  }
}
CREMA_MULTIVERSION void Bend16(const Slopes& s, const float* x, const float* z, float* y,
                               int64_t pixels) {
  Bend<16>(s, x, z, y, pixels);
}
CREMA_MULTIVERSION void Bend8(const Slopes& s, const float* x, const float* z, float* y,
                              int64_t pixels) {
  Bend<8>(s, x, z, y, pixels);
}

// sums[lane] += x * dy where x <= 0.
template <int kLanes>
[[gnu::always_inline]] inline void AddNegative(const float* x, const float* dy, int64_t pixels,
                                               double* sums) {
  using L = Lanes<kLanes>;
  typename L::Floats value, gradient;
  for (int64_t p = 0; p < pixels; p += kRun) {
    typename L::Floats run{};
    for (int64_t i = p * kLanes; i < std::min(pixels, p + kRun) * kLanes; i += kLanes) {
      L::Load(x + i, &value);
      L::Load(dy + i, &gradient);
      run += value > 0 ? typename L::Floats{} : value * gradient;
    }
    for (int l = 0; l < kLanes; ++l) sums[l] += static_cast<double>(run[l]);
  }
}
CREMA_MULTIVERSION void AddNegative16(const float* x, const float* dy, int64_t pixels,
                                      double* sums) {
  AddNegative<16>(x, dy, pixels, sums);
}
CREMA_MULTIVERSION void AddNegative8(const float* x, const float* dy, int64_t pixels,
                                     double* sums) {
  AddNegative<8>(x, dy, pixels, sums);
}

void BendAll(int threads, const PReluBlocks& b, const float* x, const float* z, float* y) {
  const int64_t lanes = ChannelBlock();
  const int64_t blocks = BlocksOf(b);
  const auto bend = lanes == 16 ? Bend16 : Bend8;
  ParallelFor(threads, b.batch * blocks * b.pixels, kGrain / lanes,
              [&](int64_t begin, int64_t end, int) {
                while (begin < end) {
                  const int64_t plane = begin / b.pixels;
                  const int64_t stop = std::min(end, (plane + 1) * b.pixels);
                  bend(Slopes(b, plane % blocks), x + begin * lanes, z + begin * lanes,
                       y + begin * lanes, stop - begin);
                  begin = stop;
                }
              });
}

}  // namespace

void BlockedPRelu(int threads, const PReluBlocks& blocks, const float* x, float* y) {
  BendAll(threads, blocks, x, x, y);
}

void BlockedPReluBackward(int threads, const PReluBlocks& blocks, const float* x, const float* dy,
                          float* dx) {
  BendAll(threads, blocks, x, dy, dx);
}

void BlockedPReluToSlope(int threads, const PReluBlocks& b, const float* x, const float* dy,
                         float* dslope) {
  const int64_t lanes = ChannelBlock();
  const int64_t blocks = BlocksOf(b);
  const auto add = lanes == 16 ? AddNegative16 : AddNegative8;
  // Sums one block over the batch; lanes after the last channel are 0.
  const auto sum_block = [&](int64_t block, double* sums) {
    for (int64_t n = 0; n < b.batch; ++n) {
      const int64_t at = (n * blocks + block) * b.pixels * lanes;
      add(x + at, dy + at, b.pixels, sums);
    }
  };
  if (b.shared) {
    double sums[kMostLanes] = {};
    for (int64_t block = 0; block < blocks; ++block) sum_block(block, sums);
    double total = 0;
    for (double sum : sums) total += sum;
    *dslope += static_cast<float>(total);
    return;
  }
  ParallelFor(threads, blocks, std::max<int64_t>(1, kGrain / (b.batch * b.pixels * lanes + 1)),
              [&](int64_t begin, int64_t end, int) {
                for (int64_t block = begin; block < end; ++block) {
                  double sums[kMostLanes] = {};
                  sum_block(block, sums);
                  const int64_t first = block * lanes;
                  for (int64_t c = first; c < std::min(b.channels, first + lanes); ++c) {
                    dslope[c] += static_cast<float>(sums[c - first]);
                  }
                }
              });
}

}  // namespace crema
