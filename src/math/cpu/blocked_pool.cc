#include "math/blocked_pool.h"

#include <algorithm>
#include <cfloat>
#include <cstring>
#include <type_traits>

#include "core/error.h"
#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/cpu/lanes.h"
#include "math/scratch.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
constexpr bool kStoresFloat = std::is_same_v<T, float>;
constexpr int64_t kGrain = 1 << 11;  // windows' cells, of a block each, worth a thread

template <typename Index, int kBlock>
struct Places {
  typedef Index Narrow __attribute__((vector_size(kBlock * sizeof(Index))));
  using Ints = typename Lanes<kBlock>::Ints;

  [[gnu::always_inline]] static void Store(const Ints& places, Index* to) {
    const Narrow narrow = __builtin_convertvector(places, Narrow);
    std::memcpy(to, &narrow, sizeof(narrow));
  }
  // "None" is no cell of a window in either type.
  [[gnu::always_inline]] static void Load(const Index* from, Ints* places) {
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    *places = __builtin_convertvector(narrow, Ints);
  }
};

// Pools one row of windows of one plane.
template <int kBlock, typename T, typename Index>
[[gnu::always_inline]] inline void MaxRow(const PoolWindow& w, int64_t oh, int64_t step, const T* x,
                                          T* y, Index* index) {
  using L = Lanes<kBlock>;
  for (int64_t ow = 0; ow < w.w.out; ++ow) {
    typename L::Floats best = typename L::Floats{} - FLT_MAX;
    typename L::Ints place = typename L::Ints{} - 1;
    for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
      const int64_t row = (ih - w.h.Start(oh)) * w.w.kernel - w.w.Start(ow);
      for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
        typename L::Floats value;
        L::Load(x + (ih * w.w.in + iw) * step, &value);
        const typename L::Ints larger = value > best;
        best = larger ? value : best;
        place = larger ? typename L::Ints{} + static_cast<int32_t>(row + iw) : place;
      }
    }
    L::Store(best, y + ow * step);
    if (index != nullptr) Places<Index, kBlock>::Store(place, index + ow * kBlock);
  }
}

template <int kBlock, typename T, typename Index>
[[gnu::always_inline]] inline void MaxBackwardPlane(const PoolWindow& w, const Index* index,
                                                    const T* dy, float* dx) {
  using L = Lanes<kBlock>;
  std::fill(dx, dx + w.InSize() * kBlock, 0.0F);
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    for (int64_t ow = 0; ow < w.w.out; ++ow) {
      const int64_t o = (oh * w.w.out + ow) * kBlock;
      typename L::Ints place;
      Places<Index, kBlock>::Load(index + o, &place);
      typename L::Floats gradient;
      L::Load(dy + o, &gradient);
      for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
        const int64_t row = (ih - w.h.Start(oh)) * w.w.kernel - w.w.Start(ow);
        for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
          float* cell = dx + (ih * w.w.in + iw) * kBlock;
          const typename L::Ints taken =
              place == typename L::Ints{} + static_cast<int32_t>(row + iw);
          const typename L::Floats none{};
          typename L::Floats sum;
          L::Load(cell, &sum);
          sum += taken ? gradient : none;
          L::Store(sum, cell);
        }
      }
    }
  }
}

inline float Divisor(const PoolWindow& w, bool exclude_pad, int64_t oh, int64_t ow) {
  const int64_t cells = exclude_pad ? (w.h.End(oh) - w.h.Begin(oh)) * (w.w.End(ow) - w.w.Begin(ow))
                                    : w.h.Padded(oh) * w.w.Padded(ow);
  return static_cast<float>(cells);
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void AverageRow(const PoolWindow& w, bool exclude_pad, int64_t oh,
                                              int64_t step, const T* x, T* y) {
  using L = Lanes<kBlock>;
  for (int64_t ow = 0; ow < w.w.out; ++ow) {
    typename L::Floats sum{};
    for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
      for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
        typename L::Floats value;
        L::Load(x + (ih * w.w.in + iw) * step, &value);
        sum += value;
      }
    }
    L::Store(sum / Divisor(w, exclude_pad, oh, ow), y + ow * step);
  }
}

template <int kBlock, typename T>
[[gnu::always_inline]] inline void AverageBackwardPlane(const PoolWindow& w, bool exclude_pad,
                                                        const T* dy, float* dx) {
  using L = Lanes<kBlock>;
  std::fill(dx, dx + w.InSize() * kBlock, 0.0F);
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    for (int64_t ow = 0; ow < w.w.out; ++ow) {
      typename L::Floats share;
      L::Load(dy + (oh * w.w.out + ow) * kBlock, &share);
      share /= Divisor(w, exclude_pad, oh, ow);
      for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
        for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
          float* cell = dx + (ih * w.w.in + iw) * kBlock;
          typename L::Floats sum;
          L::Load(cell, &sum);
          sum += share;
          L::Store(sum, cell);
        }
      }
    }
  }
}

// Multiversioned instances, by block size: templates cannot be multiversioned. bfloat16 has blocks
// of 16 only.
// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define CREMA_MAX_OF(Index)                                                                       \
  CREMA_MULTIVERSION void MaxOf(int64_t block, const PoolWindow& w, int64_t oh, int64_t step,     \
                                const float* x, float* y, Index* index) {                         \
    block == 16 ? MaxRow<16>(w, oh, step, x, y, index) : MaxRow<8>(w, oh, step, x, y, index);     \
  }                                                                                               \
  CREMA_MULTIVERSION void MaxOf(int64_t, const PoolWindow& w, int64_t oh, int64_t step,           \
                                const BFloat16* x, BFloat16* y, Index* index) {                   \
    MaxRow<16>(w, oh, step, x, y, index);                                                         \
  }                                                                                               \
  CREMA_MULTIVERSION void MaxBackwardOf(int64_t block, const PoolWindow& w, const Index* index,   \
                                        const float* dy, float* dx) {                             \
    block == 16 ? MaxBackwardPlane<16>(w, index, dy, dx) : MaxBackwardPlane<8>(w, index, dy, dx); \
  }                                                                                               \
  CREMA_MULTIVERSION void MaxBackwardOf(int64_t, const PoolWindow& w, const Index* index,         \
                                        const BFloat16* dy, float* dx) {                          \
    MaxBackwardPlane<16>(w, index, dy, dx);                                                       \
  }
// NOLINTEND(bugprone-macro-parentheses)
CREMA_MAX_OF(uint8_t)
CREMA_MAX_OF(int32_t)
CREMA_MULTIVERSION void AverageOf(int64_t block, const PoolWindow& w, bool exclude_pad, int64_t oh,
                                  int64_t step, const float* x, float* y) {
  block == 16 ? AverageRow<16>(w, exclude_pad, oh, step, x, y)
              : AverageRow<8>(w, exclude_pad, oh, step, x, y);
}
CREMA_MULTIVERSION void AverageOf(int64_t, const PoolWindow& w, bool exclude_pad, int64_t oh,
                                  int64_t step, const BFloat16* x, BFloat16* y) {
  AverageRow<16>(w, exclude_pad, oh, step, x, y);
}
CREMA_MULTIVERSION void AverageBackwardOf(int64_t block, const PoolWindow& w, bool exclude_pad,
                                          const float* dy, float* dx) {
  block == 16 ? AverageBackwardPlane<16>(w, exclude_pad, dy, dx)
              : AverageBackwardPlane<8>(w, exclude_pad, dy, dx);
}
CREMA_MULTIVERSION void AverageBackwardOf(int64_t, const PoolWindow& w, bool exclude_pad,
                                          const BFloat16* dy, float* dx) {
  AverageBackwardPlane<16>(w, exclude_pad, dy, dx);
}
CREMA_MULTIVERSION void Round(int64_t count, const float* from, BFloat16* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

int64_t GrainFor(int64_t cells) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cells));
}

// Calls body(plane, oh, row of outputs counted over all planes).
template <typename Body>
void ForRows(int threads, const PoolWindow& w, int64_t planes, Body&& body) {
  const int64_t cells = w.w.out * w.h.kernel * w.w.kernel;
  ParallelFor(threads, planes * w.h.out, GrainFor(cells), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) body(row / w.h.out, row % w.h.out, row);
  });
}

// Calls body(plane, sums of its gradient), and rounds the sums for BFloat16.
template <typename T, typename Body>
void ForPlanes(int threads, const PoolWindow& w, int64_t planes, T* dx,
               std::span<std::byte> scratch, Body&& body) {
  const int64_t size = w.InSize() * ChannelBlock();
  const int64_t cells = w.OutSize() * w.h.kernel * w.w.kernel;
  float* sums = ScratchCutter(scratch).Take<float>(kStoresFloat<T> ? 0 : threads * size);
  ParallelFor(threads, planes, GrainFor(cells), [&](int64_t begin, int64_t end, int worker) {
    for (int64_t plane = begin; plane < end; ++plane) {
      if constexpr (kStoresFloat<T>) {
        body(plane, dx + plane * size);
      } else {
        body(plane, sums + worker * size);
        Round(size, sums + worker * size, dx + plane * size);
      }
    }
  });
}

}  // namespace

template <typename T, typename Index>
void BlockedMaxPool(int threads, const PoolWindow& w, const BlockedPoolPlanes& planes, const T* x,
                    T* y, Index* index) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0);
  ForRows(threads, w, planes.count, [&](int64_t plane, int64_t oh, int64_t row) {
    const int64_t at = row * w.w.out * block;
    const int64_t step = planes.PixelStep();
    MaxOf(block, w, oh, step, x + planes.InputBefore(plane, w.InSize()),
          y + planes.OutputBefore(plane, w.OutSize()) + oh * w.w.out * step,
          index == nullptr ? nullptr : index + at);
  });
}

size_t BlockedPoolBackwardScratch(int threads, const PoolWindow& w) {
  return ScratchBytes<float>(threads * w.InSize() * ChannelBlock()) + kScratchSlack;
}

template <typename T, typename Index>
void BlockedMaxPoolBackward(int threads, const PoolWindow& w, const BlockedPoolPlanes& planes,
                            const Index* index, const T* dy, T* dx, std::span<std::byte> scratch) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0);
  ForPlanes(threads, w, planes.count, dx, scratch, [&](int64_t plane, float* sums) {
    const int64_t out = plane * w.OutSize() * block;
    const int64_t before = planes.OutputBefore(plane, w.OutSize());
    MaxBackwardOf(block, w, index + out, dy + before, sums);
  });
}

template <typename T>
void BlockedAveragePool(int threads, const PoolWindow& w, bool exclude_pad,
                        const BlockedPoolPlanes& planes, const T* x, T* y) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0);
  ForRows(threads, w, planes.count, [&](int64_t plane, int64_t oh, int64_t) {
    const int64_t step = planes.PixelStep();
    AverageOf(block, w, exclude_pad, oh, step, x + planes.InputBefore(plane, w.InSize()),
              y + planes.OutputBefore(plane, w.OutSize()) + oh * w.w.out * step);
  });
}

template <typename T>
void BlockedAveragePoolBackward(int threads, const PoolWindow& w, bool exclude_pad,
                                const BlockedPoolPlanes& planes, const T* dy, T* dx,
                                std::span<std::byte> scratch) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0);
  ForPlanes(threads, w, planes.count, dx, scratch, [&](int64_t plane, float* sums) {
    const int64_t before = planes.OutputBefore(plane, w.OutSize());
    AverageBackwardOf(block, w, exclude_pad, dy + before, sums);
  });
}

template void BlockedMaxPool(int, const PoolWindow&, const BlockedPoolPlanes&, const float*, float*,
                             uint8_t*);
template void BlockedMaxPoolBackward(int, const PoolWindow&, const BlockedPoolPlanes&,
                                     const uint8_t*, const float*, float*, std::span<std::byte>);
template void BlockedMaxPool(int, const PoolWindow&, const BlockedPoolPlanes&, const float*, float*,
                             int32_t*);
template void BlockedMaxPoolBackward(int, const PoolWindow&, const BlockedPoolPlanes&,
                                     const int32_t*, const float*, float*, std::span<std::byte>);
template void BlockedAveragePool(int, const PoolWindow&, bool, const BlockedPoolPlanes&,
                                 const float*, float*);
template void BlockedAveragePoolBackward(int, const PoolWindow&, bool, const BlockedPoolPlanes&,
                                         const float*, float*, std::span<std::byte>);
template void BlockedMaxPool(int, const PoolWindow&, const BlockedPoolPlanes&, const BFloat16*,
                             BFloat16*, uint8_t*);
template void BlockedMaxPoolBackward(int, const PoolWindow&, const BlockedPoolPlanes&,
                                     const uint8_t*, const BFloat16*, BFloat16*,
                                     std::span<std::byte>);
template void BlockedMaxPool(int, const PoolWindow&, const BlockedPoolPlanes&, const BFloat16*,
                             BFloat16*, int32_t*);
template void BlockedMaxPoolBackward(int, const PoolWindow&, const BlockedPoolPlanes&,
                                     const int32_t*, const BFloat16*, BFloat16*,
                                     std::span<std::byte>);
template void BlockedAveragePool(int, const PoolWindow&, bool, const BlockedPoolPlanes&,
                                 const BFloat16*, BFloat16*);
template void BlockedAveragePoolBackward(int, const PoolWindow&, bool, const BlockedPoolPlanes&,
                                         const BFloat16*, BFloat16*, std::span<std::byte>);

}  // namespace crema
