#include "math/blocked_batch_norm.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/lanes.h"
#include "math/relu_rule.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements worth a thread
constexpr size_t kMostLanes = 16;
constexpr int64_t kChunk = 64;  // pixels that are summed in single precision

// Returns the elements from one pixel to the next.
int64_t StepOf(const ChannelBlocks& b) { return b.channels_last ? b.channels : ChannelBlock(); }

// Returns the offset of a plane.
int64_t StartOf(const ChannelBlocks& b, int64_t plane) {
  const int64_t block = ChannelBlock(), blocks = b.channels / block;
  if (!b.channels_last) return plane * b.pixels * block;
  return plane / blocks * b.pixels * b.channels + plane % blocks * block;
}

// body(plane, first channel of its block); a plane is one block of one image.
template <typename Body>
void ForPlanes(int threads, const ChannelBlocks& b, Body&& body) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0 && b.channels % block == 0);
  const int64_t blocks = b.channels / block;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, b.pixels * block));
  ParallelFor(threads, b.batch * blocks, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t plane = begin; plane < end; ++plane) body(plane, plane % blocks * block);
  });
}

// Computes two sums for each channel of one plane.
template <int kBlock, typename Terms>
[[gnu::always_inline]] inline void SumTerms(int64_t pixels, int64_t step, double* first,
                                            double* second, Terms&& terms) {
  using L = Lanes<kBlock>;
  std::fill(first, first + kBlock, 0.0);
  std::fill(second, second + kBlock, 0.0);
  for (int64_t begin = 0; begin < pixels; begin += kChunk) {
    typename L::Floats a{}, b{};
    const int64_t end = std::min(pixels, begin + kChunk);
    for (int64_t p = begin; p < end; ++p) terms(p * step, &a, &b);
    for (int i = 0; i < kBlock; ++i) {
      first[i] += static_cast<double>(a[i]);
      second[i] += static_cast<double>(b[i]);
    }
  }
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void MomentsPlane(int64_t pixels, int64_t step, const T* x,
                                                const float* origin, double* first,
                                                double* second) {
  using L = Lanes<kBlock>;
  typename L::Floats zero;
  L::Load(origin, &zero);
  SumTerms<kBlock>(pixels, step, first, second,
                   [&](int64_t at, typename L::Floats* a, typename L::Floats* b) {
                     typename L::Floats value;
                     L::Load(x + at, &value);
                     value -= zero;
                     *a += value;
                     *b += value * value;
                   });
}

// Returns (x - center) * factor + shift: forward and backward must agree on its sign.
template <int kBlock>
struct Affine {
  using Floats = typename Lanes<kBlock>::Floats;
  [[gnu::always_inline]] Affine(const float* center, const float* factor, const float* shift) {
    Lanes<kBlock>::Load(center, &c);
    Lanes<kBlock>::Load(factor, &f);
    Lanes<kBlock>::Load(shift, &s);
  }
  [[gnu::always_inline]] void Apply(Floats* x) const { *x = (*x - c) * f + s; }
  Floats c, f, s;
};

// Returns d of one pixel.
template <int kBlock>
struct ReluMask {
  using Floats = typename Lanes<kBlock>::Floats;
  template <typename T>
  [[gnu::always_inline]] ReluMask(const NormalizedGradsOf<T>& g, int64_t channel)
      : relu(g.relu),
        affine(g.center + channel, (relu.on ? g.factor : g.center) + channel,
               (relu.on ? g.shift : g.center) + channel) {}
  [[gnu::always_inline]] void Apply(const Floats& x, Floats* d) const {
    if (!relu.on) return;
    Floats y = x;
    affine.Apply(&y);
    MaskByRelu(relu.slope, y, d);
  }
  const FusedRelu relu;
  const Affine<kBlock> affine;
};

template <int kBlock, typename T>
[[gnu::always_inline]] inline void GradSumsPlane(const NormalizedGradsOf<T>& g, int64_t pixels,
                                                 int64_t step, int64_t start, int64_t channel,
                                                 double* first, double* second) {
  using L = Lanes<kBlock>;
  const ReluMask<kBlock> mask(g, channel);
  typename L::Floats middle;
  L::Load(g.center + channel, &middle);
  SumTerms<kBlock>(pixels, step, first, second,
                   [&](int64_t at, typename L::Floats* a, typename L::Floats* b) {
                     typename L::Floats d, x;
                     L::Load(g.dy + start + at, &d);
                     L::Load(g.x + start + at, &x);
                     mask.Apply(x, &d);
                     *a += d;
                     *b += d * (x - middle);
                   });
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void NormalizePlane(int64_t pixels, int64_t step, const T* x,
                                                  const float* center, const float* factor,
                                                  const float* shift, FusedRelu relu, T* y) {
  using L = Lanes<kBlock>;
  const Affine<kBlock> affine(center, factor, shift);
  for (int64_t p = 0; p < pixels; ++p) {
    typename L::Floats value;
    L::Load(x + p * step, &value);
    affine.Apply(&value);
    if (relu.on) ApplyRelu(relu.slope, &value);
    L::Store(value, y + p * step);
  }
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void ToInputPlane(const NormalizedGradsOf<T>& g, int64_t pixels,
                                                int64_t step, int64_t start, int64_t channel,
                                                const float* factor, const float* offset,
                                                const float* slope, T* dx) {
  using L = Lanes<kBlock>;
  typename L::Floats c, f, o, s;
  L::Load(g.center + channel, &c);
  L::Load(factor + channel, &f);
  L::Load(offset + channel, &o);
  L::Load(slope + channel, &s);
  const ReluMask<kBlock> mask(g, channel);
  for (int64_t at = start; at < start + pixels * step; at += step) {
    typename L::Floats d, x;
    L::Load(g.dy + at, &d);
    L::Load(g.x + at, &x);
    mask.Apply(x, &d);
    L::Store(f * d - o - s * (x - c), dx + at);
  }
}

// One version for each processor level, and for both block sizes; bfloat16 has blocks of 16 only.
CREMA_MULTIVERSION void Moments(int64_t block, int64_t pixels, int64_t step, const float* x,
                                const float* origin, double* first, double* second) {
  block == 16 ? MomentsPlane<16>(pixels, step, x, origin, first, second)
              : MomentsPlane<8>(pixels, step, x, origin, first, second);
}
CREMA_MULTIVERSION void GradSums(int64_t block, const NormalizedGradsOf<float>& g, int64_t pixels,
                                 int64_t step, int64_t start, int64_t channel, double* first,
                                 double* second) {
  block == 16 ? GradSumsPlane<16>(g, pixels, step, start, channel, first, second)
              : GradSumsPlane<8>(g, pixels, step, start, channel, first, second);
}
CREMA_MULTIVERSION void Normalize(int64_t block, int64_t pixels, int64_t step, const float* x,
                                  const float* center, const float* factor, const float* shift,
                                  FusedRelu relu, float* y) {
  block == 16 ? NormalizePlane<16>(pixels, step, x, center, factor, shift, relu, y)
              : NormalizePlane<8>(pixels, step, x, center, factor, shift, relu, y);
}
CREMA_MULTIVERSION void ToInput(int64_t block, const NormalizedGradsOf<float>& g, int64_t pixels,
                                int64_t step, int64_t start, int64_t channel, const float* factor,
                                const float* offset, const float* slope, float* dx) {
  block == 16 ? ToInputPlane<16>(g, pixels, step, start, channel, factor, offset, slope, dx)
              : ToInputPlane<8>(g, pixels, step, start, channel, factor, offset, slope, dx);
}
CREMA_MULTIVERSION void Moments(int64_t, int64_t pixels, int64_t step, const BFloat16* x,
                                const float* origin, double* first, double* second) {
  MomentsPlane<16>(pixels, step, x, origin, first, second);
}
CREMA_MULTIVERSION void GradSums(int64_t, const NormalizedGradsOf<BFloat16>& g, int64_t pixels,
                                 int64_t step, int64_t start, int64_t channel, double* first,
                                 double* second) {
  GradSumsPlane<16>(g, pixels, step, start, channel, first, second);
}
CREMA_MULTIVERSION void Normalize(int64_t, int64_t pixels, int64_t step, const BFloat16* x,
                                  const float* center, const float* factor, const float* shift,
                                  FusedRelu relu, BFloat16* y) {
  NormalizePlane<16>(pixels, step, x, center, factor, shift, relu, y);
}
CREMA_MULTIVERSION void ToInput(int64_t, const NormalizedGradsOf<BFloat16>& g, int64_t pixels,
                                int64_t step, int64_t start, int64_t channel, const float* factor,
                                const float* offset, const float* slope, BFloat16* dx) {
  ToInputPlane<16>(g, pixels, step, start, channel, factor, offset, slope, dx);
}

// Adds the two sums of each plane, adjacent in `partial`, to those of the channels.
void AddImages(const ChannelBlocks& b, const double* partial, double* first, double* second) {
  const int64_t block = ChannelBlock();
  std::fill_n(first, b.channels, 0.0);
  std::fill_n(second, b.channels, 0.0);
  for (int64_t plane = 0; plane < b.batch * b.channels / block; ++plane) {
    const double* sums = partial + plane * 2 * block;
    const int64_t channel = plane * block % b.channels;
    for (int64_t i = 0; i < block; ++i) {
      first[channel + i] += sums[i];
      second[channel + i] += sums[block + i];
    }
  }
}

}  // namespace

int64_t ChannelSumsScratch(const ChannelBlocks& blocks) {
  return 2 * blocks.batch * blocks.channels;
}

template <typename T>
void ChannelMoments(int threads, const ChannelBlocks& b, const T* x, double* mean, double* variance,
                    double* scratch) {
  const int64_t block = ChannelBlock();
  // Returns the first value of the channels of a block, in the first image.
  const auto origin = [&](int64_t channel) { return x + StartOf(b, channel / block); };
  ForPlanes(threads, b, [&](int64_t plane, int64_t channel) {
    double* sums = scratch + plane * 2 * block;
    std::array<float, kMostLanes> first;
    std::copy_n(origin(channel), block, first.begin());
    Moments(block, b.pixels, StepOf(b), x + StartOf(b, plane), first.data(), sums, sums + block);
  });
  AddImages(b, scratch, mean, variance);
  const auto values = static_cast<double>(b.Values());
  for (int64_t c = 0; c < b.channels; ++c) {
    const double off = mean[c] / values;
    mean[c] = double{Compute<T>{origin(c)[c % block]}} + off;
    variance[c] = std::max(0.0, variance[c] / values - off * off);
  }
}

template <typename T>
void NormalizeChannels(int threads, const ChannelBlocks& b, const T* x, const float* center,
                       const float* factor, const float* shift, FusedRelu relu, T* y) {
  const int64_t block = ChannelBlock();
  ForPlanes(threads, b, [&](int64_t plane, int64_t channel) {
    const int64_t at = StartOf(b, plane);
    Normalize(block, b.pixels, StepOf(b), x + at, center + channel, factor + channel,
              shift + channel, relu, y + at);
  });
}

template <typename T>
void NormalizedSums(int threads, const ChannelBlocks& b, const NormalizedGradsOf<T>& grads,
                    double* sums, double* products, double* scratch) {
  const int64_t block = ChannelBlock();
  ForPlanes(threads, b, [&](int64_t plane, int64_t channel) {
    double* partial = scratch + plane * 2 * block;
    GradSums(block, grads, b.pixels, StepOf(b), StartOf(b, plane), channel, partial,
             partial + block);
  });
  AddImages(b, scratch, sums, products);
}

template <typename T>
void NormalizedToInput(int threads, const ChannelBlocks& b, const NormalizedGradsOf<T>& grads,
                       const float* factor, const float* offset, const float* slope, T* dx) {
  const int64_t block = ChannelBlock();
  ForPlanes(threads, b, [&](int64_t plane, int64_t channel) {
    ToInput(block, grads, b.pixels, StepOf(b), StartOf(b, plane), channel, factor, offset, slope,
            dx);
  });
}

template void ChannelMoments(int, const ChannelBlocks&, const float*, double*, double*, double*);
template void NormalizeChannels(int, const ChannelBlocks&, const float*, const float*, const float*,
                                const float*, FusedRelu, float*);
template void NormalizedSums(int, const ChannelBlocks&, const NormalizedGradsOf<float>&, double*,
                             double*, double*);
template void NormalizedToInput(int, const ChannelBlocks&, const NormalizedGradsOf<float>&,
                                const float*, const float*, const float*, float*);
template void ChannelMoments(int, const ChannelBlocks&, const BFloat16*, double*, double*, double*);
template void NormalizeChannels(int, const ChannelBlocks&, const BFloat16*, const float*,
                                const float*, const float*, FusedRelu, BFloat16*);
template void NormalizedSums(int, const ChannelBlocks&, const NormalizedGradsOf<BFloat16>&, double*,
                             double*, double*);
template void NormalizedToInput(int, const ChannelBlocks&, const NormalizedGradsOf<BFloat16>&,
                                const float*, const float*, const float*, BFloat16*);

}  // namespace crema
