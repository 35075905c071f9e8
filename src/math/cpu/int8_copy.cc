#include "math/int8_copy.h"

#include <algorithm>

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth a thread
constexpr int64_t kTile = 64;        // pixels whose lines are in the cache at once
constexpr int64_t kMostBlock = 16;

// Pixels [begin, end) of one image.
struct Part {
  int64_t channels;
  int64_t pixels;
  int64_t begin;
  int64_t end;
};

template <typename T>
inline void GatherPlanes(const Part& part, const float* x, float per_step, T* y) {
  T row[kTile];
  for (int64_t p = part.begin; p < part.end; p += kTile) {
    const int64_t tile = std::min(kTile, part.end - p);
    for (int64_t c = 0; c < part.channels; ++c) {
      const float* from = x + c * part.pixels + p;
      for (int64_t i = 0; i < tile; ++i) row[i] = NearestByte<T>(from[i], per_step);
      T* to = y + p * part.channels + c;
      for (int64_t i = 0; i < tile; ++i) to[i * part.channels] = row[i];
    }
  }
}

// T is an int8 type, or float with a step of 1.
template <typename T>
inline void ScatterPlanes(const Part& part, const T* x, float step, float* y) {
  for (int64_t p = part.begin; p < part.end; p += kTile) {
    const int64_t tile = std::min(kTile, part.end - p);
    for (int64_t c = 0; c < part.channels; ++c) {
      const T* from = x + p * part.channels + c;
      float* to = y + c * part.pixels + p;
      for (int64_t i = 0; i < tile; ++i) to[i] = static_cast<float>(from[i * part.channels]) * step;
    }
  }
}

template <typename T>
inline void GatherBlocks(const Part& part, int64_t block, const float* x, float per_step, T* y) {
  for (int64_t c = 0; c < part.channels; c += block) {
    const int64_t used = std::min(block, part.channels - c);
    const float* from = x + c * part.pixels;
    if (used == kMostBlock) {
      for (int64_t p = part.begin; p < part.end; ++p) {
        T* to = y + p * part.channels + c;
        for (int64_t i = 0; i < kMostBlock; ++i) {
          to[i] = NearestByte<T>(from[p * kMostBlock + i], per_step);
        }
      }
      continue;
    }
    for (int64_t p = part.begin; p < part.end; ++p) {
      T* to = y + p * part.channels + c;
      for (int64_t i = 0; i < used; ++i) to[i] = NearestByte<T>(from[p * block + i], per_step);
    }
  }
}

template <typename T>
inline void ScatterBlocks(const Part& part, int64_t block, const T* x, float step, float* y) {
  for (int64_t c = 0; c < part.channels; c += block) {
    const int64_t used = std::min(block, part.channels - c);
    float* to = y + c * part.pixels;
    for (int64_t p = part.begin; p < part.end; ++p) {
      const T* from = x + p * part.channels + c;
      for (int64_t i = 0; i < used; ++i) to[p * block + i] = static_cast<float>(from[i]) * step;
      for (int64_t i = used; i < block; ++i) to[p * block + i] = 0;
    }
  }
}

// Multiversioned instances.
// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define CREMA_PLANES_AND_BLOCKS_TO(T)                                                       \
  CREMA_MULTIVERSION void PlanesTo(const Part& part, const T* x, float step, float* y) {    \
    ScatterPlanes(part, x, step, y);                                                        \
  }                                                                                         \
  CREMA_MULTIVERSION void BlocksTo(const Part& part, int64_t block, const T* x, float step, \
                                   float* y) {                                              \
    ScatterBlocks(part, block, x, step, y);                                                 \
  }
// NOLINTEND(bugprone-macro-parentheses)
// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define CREMA_BYTES_OF(T)                                                                    \
  CREMA_PLANES_AND_BLOCKS_TO(T)                                                              \
  CREMA_MULTIVERSION void PlanesOf(const Part& part, const float* x, float per_step, T* y) { \
    GatherPlanes(part, x, per_step, y);                                                      \
  }                                                                                          \
  CREMA_MULTIVERSION void BlocksOf(const Part& part, int64_t block, const float* x,          \
                                   float per_step, T* y) {                                   \
    GatherBlocks(part, block, x, per_step, y);                                               \
  }                                                                                          \
  CREMA_MULTIVERSION void Nearest(const float* x, float per_step, T* y, int64_t begin,       \
                                  int64_t end) {                                             \
    for (int64_t i = begin; i < end; ++i) y[i] = NearestByte<T>(x[i], per_step);             \
  }
// NOLINTEND(bugprone-macro-parentheses)
CREMA_PLANES_AND_BLOCKS_TO(float)
CREMA_BYTES_OF(uint8_t)
CREMA_BYTES_OF(int8_t)

// Calls body(image, part) for the pixels of all images, divided among the threads.
template <typename Body>
void ForParts(int threads, int64_t batch, int64_t channels, int64_t pixels, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, channels));
  ParallelFor(threads, batch * pixels, grain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t image = begin / pixels;
      const int64_t stop = std::min(end, (image + 1) * pixels);
      body(image, Part{channels, pixels, begin - image * pixels, stop - image * pixels});
      begin = stop;
    }
  });
}

int64_t BlockedImage(int64_t channels, int64_t pixels) {
  const int64_t block = ChannelBlock();
  return (channels + block - 1) / block * block * pixels;
}

}  // namespace

void PlainToInt8(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                 Int8Scale scale, void* y) {
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    ForParts(threads, batch, channels, pixels, [&](int64_t n, const Part& part) {
      const int64_t image = n * channels * pixels;
      PlanesOf(part, x + image, 1 / scale.step, static_cast<T*>(y) + image);
    });
  });
}

void BlockedToInt8(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                   Int8Scale scale, void* y) {
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    ForParts(threads, batch, channels, pixels, [&](int64_t n, const Part& part) {
      BlocksOf(part, ChannelBlock(), x + n * BlockedImage(channels, pixels), 1 / scale.step,
               static_cast<T*>(y) + n * channels * pixels);
    });
  });
}

void Int8ToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const void* x,
                 Int8Scale scale, float* y) {
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    ForParts(threads, batch, channels, pixels, [&](int64_t n, const Part& part) {
      const int64_t image = n * channels * pixels;
      PlanesTo(part, static_cast<const T*>(x) + image, scale.step, y + image);
    });
  });
}

void Int8ToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const void* x,
                   Int8Scale scale, float* y) {
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    ForParts(threads, batch, channels, pixels, [&](int64_t n, const Part& part) {
      BlocksTo(part, ChannelBlock(), static_cast<const T*>(x) + n * channels * pixels, scale.step,
               y + n * BlockedImage(channels, pixels));
    });
  });
}

void PixelsToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                   float* y) {
  ForParts(threads, batch, channels, pixels, [&](int64_t n, const Part& part) {
    const int64_t image = n * channels * pixels;
    PlanesTo(part, x + image, 1.0F, y + image);
  });
}

void PixelsToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                     float* y) {
  ForParts(threads, batch, channels, pixels, [&](int64_t n, const Part& part) {
    BlocksTo(part, ChannelBlock(), x + n * channels * pixels, 1.0F,
             y + n * BlockedImage(channels, pixels));
  });
}

void FloatsToInt8(int threads, int64_t count, const float* x, Int8Scale scale, void* y) {
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    ParallelFor(threads, count, kGrain, [&](int64_t begin, int64_t end, int) {
      Nearest(x, 1 / scale.step, static_cast<T*>(y), begin, end);
    });
  });
}

}  // namespace crema
