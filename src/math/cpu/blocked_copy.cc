#include "math/blocked_copy.h"

#include <algorithm>

#include "core/error.h"
#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // pixels of a block worth a thread
constexpr int64_t kTile = 16;        // pixels whose lines are in the cache at once

// Interleaves pixels [begin, end) of one block: `used` planes become vectors of kBlock channels.
template <int kBlock, typename T>
inline void Gather(int64_t pixels, int64_t used, const float* x, T* y, int64_t begin, int64_t end) {
  for (int64_t p = begin; p < end; p += kTile) {
    const int64_t tile = std::min(kTile, end - p);
    if (used == kBlock) {
      for (int64_t i = 0; i < tile; ++i) {
        for (int c = 0; c < kBlock; ++c) y[(p + i) * kBlock + c] = x[c * pixels + p + i];
      }
    } else {
      for (int64_t i = 0; i < tile; ++i) {
        for (int64_t c = 0; c < kBlock; ++c) {
          y[(p + i) * kBlock + c] = c < used ? x[c * pixels + p + i] : 0.0F;
        }
      }
    }
  }
}

template <int kBlock, typename T>
inline void Scatter(int64_t pixels, int64_t used, const T* x, float* y, int64_t begin,
                    int64_t end) {
  for (int64_t p = begin; p < end; p += kTile) {
    const int64_t tile = std::min(kTile, end - p);
    for (int64_t c = 0; c < used; ++c) {
      for (int64_t i = 0; i < tile; ++i) y[c * pixels + p + i] = x[(p + i) * kBlock + c];
    }
  }
}

// Multiversioned instances, by block size; bfloat16 has blocks of 16 only.
CREMA_MULTIVERSION void GatherOf(int64_t block, int64_t pixels, int64_t used, const float* x,
                                 float* y, int64_t begin, int64_t end) {
  block == 16 ? Gather<16>(pixels, used, x, y, begin, end)
              : Gather<8>(pixels, used, x, y, begin, end);
}
CREMA_MULTIVERSION void GatherOf(int64_t, int64_t pixels, int64_t used, const float* x, BFloat16* y,
                                 int64_t begin, int64_t end) {
  Gather<16>(pixels, used, x, y, begin, end);
}
CREMA_MULTIVERSION void ScatterOf(int64_t block, int64_t pixels, int64_t used, const float* x,
                                  float* y, int64_t begin, int64_t end) {
  block == 16 ? Scatter<16>(pixels, used, x, y, begin, end)
              : Scatter<8>(pixels, used, x, y, begin, end);
}
CREMA_MULTIVERSION void ScatterOf(int64_t, int64_t pixels, int64_t used, const BFloat16* x,
                                  float* y, int64_t begin, int64_t end) {
  Scatter<16>(pixels, used, x, y, begin, end);
}
CREMA_MULTIVERSION void Convert(const float* x, BFloat16* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i];
}
CREMA_MULTIVERSION void Convert(const BFloat16* x, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i];
}

// Calls body(image, block, begin, end) for all pixels of all blocks, divided among the threads.
template <typename Body>
void ForBlocks(int threads, int64_t batch, int64_t blocks, int64_t pixels, Body&& body) {
  ParallelFor(threads, batch * blocks * pixels, kGrain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t plane = begin / pixels;
      const int64_t stop = std::min(end, (plane + 1) * pixels);
      body(plane / blocks, plane % blocks, begin - plane * pixels, stop - plane * pixels);
      begin = stop;
    }
  });
}

}  // namespace

template <typename T>
void PlainToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                    T* y) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0);
  const int64_t blocks = (channels + block - 1) / block;
  ForBlocks(threads, batch, blocks, pixels, [&](int64_t n, int64_t b, int64_t begin, int64_t end) {
    const int64_t used = std::min(block, channels - b * block);
    const float* from = x + (n * channels + b * block) * pixels;
    T* to = y + (n * blocks + b) * pixels * block;
    GatherOf(block, pixels, used, from, to, begin, end);
  });
}

template <typename T>
void BlockedToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const T* x,
                    float* y) {
  const int64_t block = ChannelBlock();
  CREMA_CHECK(block > 0);
  const int64_t blocks = (channels + block - 1) / block;
  ForBlocks(threads, batch, blocks, pixels, [&](int64_t n, int64_t b, int64_t begin, int64_t end) {
    const int64_t used = std::min(block, channels - b * block);
    const T* from = x + (n * blocks + b) * pixels * block;
    float* to = y + (n * channels + b * block) * pixels;
    ScatterOf(block, pixels, used, from, to, begin, end);
  });
}

void RoundAll(int threads, int64_t count, const float* x, BFloat16* y) {
  ParallelFor(threads, count, kGrain * 4,
              [&](int64_t begin, int64_t end, int) { Convert(x, y, begin, end); });
}

void WidenAll(int threads, int64_t count, const BFloat16* x, float* y) {
  ParallelFor(threads, count, kGrain * 4,
              [&](int64_t begin, int64_t end, int) { Convert(x, y, begin, end); });
}

template void PlainToBlocked(int, int64_t, int64_t, int64_t, const float*, float*);
template void PlainToBlocked(int, int64_t, int64_t, int64_t, const float*, BFloat16*);
template void BlockedToPlain(int, int64_t, int64_t, int64_t, const float*, float*);
template void BlockedToPlain(int, int64_t, int64_t, int64_t, const BFloat16*, float*);

void ChannelsLastToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels,
                         const BFloat16* x, float* y) {
  constexpr int64_t kGrain = 1 << 14;  // elements worth a thread
  ParallelFor(
      threads, batch * channels, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, pixels)),
      [&](int64_t begin, int64_t end, int) {
        for (int64_t plane = begin; plane < end; ++plane) {
          const BFloat16* from = x + plane / channels * pixels * channels + plane % channels;
          for (int64_t p = 0; p < pixels; ++p) y[plane * pixels + p] = from[p * channels];
        }
      });
}

}  // namespace crema
