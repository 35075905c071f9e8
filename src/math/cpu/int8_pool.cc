#include "math/int8_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/parallel_for.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kLanes = 64;       // channels at a time
constexpr int64_t kGrain = 1 << 14;  // bytes read worth a thread

// Calls body(c, used) for pieces of the channels.
template <typename Body>
[[gnu::always_inline]] inline void ForLanes(int64_t channels, Body&& body) {
  for (int64_t c = 0; c < channels; c += kLanes) body(c, std::min(kLanes, channels - c));
}

// Pools one row of windows of one image.
template <typename T>
[[gnu::always_inline]] inline void MaxRow(const PoolWindow& w, int64_t channels, int64_t oh,
                                          const T* x, T* y) {
  for (int64_t ow = 0; ow < w.w.out; ++ow) {
    ForLanes(channels, [&](int64_t c, int64_t used) {
      T most[kLanes];
      std::fill(most, most + kLanes, std::numeric_limits<T>::lowest());
      for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
        for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
          const T* cell = x + (ih * w.w.in + iw) * channels + c;
          if (used == kLanes) {
            for (int64_t i = 0; i < kLanes; ++i) most[i] = cell[i] > most[i] ? cell[i] : most[i];
          } else {
            for (int64_t i = 0; i < used; ++i) most[i] = cell[i] > most[i] ? cell[i] : most[i];
          }
        }
      }
      std::memcpy(y + ow * channels + c, most, static_cast<size_t>(used) * sizeof(T));
    });
  }
}

inline float Divisor(const PoolWindow& w, bool exclude_pad, int64_t oh, int64_t ow) {
  const int64_t cells = exclude_pad ? (w.h.End(oh) - w.h.Begin(oh)) * (w.w.End(ow) - w.w.Begin(ow))
                                    : w.h.Padded(oh) * w.w.Padded(ow);
  return static_cast<float>(cells);
}

// Stores a mean as the type of y.
[[gnu::always_inline]] inline void Store(float mean, float /*per_step*/, float* y) { *y = mean; }
template <typename T>
[[gnu::always_inline]] inline void Store(float mean, float per_step, T* y) {
  *y = NearestByte<T>(mean, per_step);
}

struct Steps {
  float in;
  float per_out;  // 1 / step
};

template <typename T, typename Out>
[[gnu::always_inline]] inline void MeanRow(const PoolWindow& w, bool exclude_pad, int64_t channels,
                                           int64_t oh, const T* x, Steps steps, Out* y) {
  for (int64_t ow = 0; ow < w.w.out; ++ow) {
    const float factor = steps.in / Divisor(w, exclude_pad, oh, ow);
    ForLanes(channels, [&](int64_t c, int64_t used) {
      int32_t sum[kLanes] = {};
      for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
        for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
          const T* cell = x + (ih * w.w.in + iw) * channels + c;
          if (used == kLanes) {
            for (int64_t i = 0; i < kLanes; ++i) sum[i] += cell[i];
          } else {
            for (int64_t i = 0; i < used; ++i) sum[i] += cell[i];
          }
        }
      }
      for (int64_t i = 0; i < used; ++i) {
        Store(static_cast<float>(sum[i]) * factor, steps.per_out, y + ow * channels + c + i);
      }
    });
  }
}

// Multiversioned instances.
CREMA_MULTIVERSION void MaxRowOf(const PoolWindow& w, int64_t channels, int64_t oh,
                                 const uint8_t* x, uint8_t* y) {
  MaxRow(w, channels, oh, x, y);
}
CREMA_MULTIVERSION void MaxRowOf(const PoolWindow& w, int64_t channels, int64_t oh, const int8_t* x,
                                 int8_t* y) {
  MaxRow(w, channels, oh, x, y);
}
// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define CREMA_MEAN_ROW_OF(T, Out)                                                            \
  CREMA_MULTIVERSION void MeanRowOf(const PoolWindow& w, bool exclude_pad, int64_t channels, \
                                    int64_t oh, const T* x, Steps steps, Out* y) {           \
    MeanRow(w, exclude_pad, channels, oh, x, steps, y);                                      \
  }
// NOLINTEND(bugprone-macro-parentheses)
CREMA_MEAN_ROW_OF(uint8_t, uint8_t)
CREMA_MEAN_ROW_OF(uint8_t, int8_t)
CREMA_MEAN_ROW_OF(uint8_t, float)
CREMA_MEAN_ROW_OF(int8_t, uint8_t)
CREMA_MEAN_ROW_OF(int8_t, int8_t)
CREMA_MEAN_ROW_OF(int8_t, float)

// Calls body(oh, x, y) for each row of windows of each image.
template <typename T, typename Out, typename Body>
void ForRows(int threads, const PoolWindow& window, int64_t batch, int64_t channels, const T* x,
             Out* y, Body&& body) {
  const int64_t row_bytes =
      std::max<int64_t>(1, window.w.out * window.h.kernel * window.w.kernel * channels);
  const int64_t grain = std::max<int64_t>(1, kGrain / row_bytes);
  ParallelFor(threads, batch * window.h.out, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      body(r % window.h.out, x + r / window.h.out * window.InSize() * channels,
           y + r * window.w.out * channels);
    }
  });
}

}  // namespace

void Int8MaxPool(int threads, const PoolWindow& window, int64_t batch, int64_t channels,
                 bool is_signed, const void* x, void* y) {
  DispatchInt8(is_signed, [&]<typename T>(T) {
    ForRows(threads, window, batch, channels, static_cast<const T*>(x), static_cast<T*>(y),
            [&](int64_t oh, const T* from, T* to) { MaxRowOf(window, channels, oh, from, to); });
  });
}

void Int8AveragePool(int threads, const PoolWindow& window, bool exclude_pad, int64_t batch,
                     int64_t channels, Int8Scale scale, const void* x, Int8Scale out, void* y) {
  const Steps steps{scale.step, 1 / out.step};
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    DispatchInt8(out.is_signed, [&]<typename Out>(Out) {
      ForRows(threads, window, batch, channels, static_cast<const T*>(x), static_cast<Out*>(y),
              [&](int64_t oh, const T* from, Out* to) {
                MeanRowOf(window, exclude_pad, channels, oh, from, steps, to);
              });
    });
  });
}

void Int8AveragePool(int threads, const PoolWindow& window, bool exclude_pad, int64_t batch,
                     int64_t channels, Int8Scale scale, const void* x, float* y) {
  const Steps steps{scale.step, 1};
  DispatchInt8(scale.is_signed, [&]<typename T>(T) {
    ForRows(threads, window, batch, channels, static_cast<const T*>(x), y,
            [&](int64_t oh, const T* from, float* to) {
              MeanRowOf(window, exclude_pad, channels, oh, from, steps, to);
            });
  });
}

}  // namespace crema
