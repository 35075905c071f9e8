// Quantization to int8, and conversion of int8 blobs (Layout::kNHWC) from and to other formats.
#pragma once

#include <cstdint>

namespace crema {

// An element q stands for step * q.
struct Int8Scale {
  float step = 1;
  bool is_signed = false;

  float Lowest() const { return is_signed ? -128.0F : 0.0F; }
  float Highest() const { return is_signed ? 127.0F : 255.0F; }
};

// Calls body(T{}) with the element type: int8_t or uint8_t.
template <typename Body>
decltype(auto) DispatchInt8(bool is_signed, Body&& body) {
  return is_signed ? body(int8_t{}) : body(uint8_t{});
}

// Returns v / step as the nearest value of T, ties to even, clamped to its range; NaN becomes 0.
// `per_step` is 1 / step. Without branches, so that loops are vectorised.
template <typename T>
inline T NearestByte(float v, float per_step) {
  constexpr float kLow = T(-1) < T(0) ? -128.0F : 0.0F;
  constexpr float kHigh = T(-1) < T(0) ? 127.0F : 255.0F;
  constexpr float kRound =
      12582912.0F;  // 1.5 * 2^23: a number loses its fraction when this is added
  float q = v * per_step;
  q = q == q ? q : 0.0F;
  q = q > kLow ? q : kLow;
  q = q < kHigh ? q : kHigh;
  const float whole = (q + kRound) - kRound;
  return static_cast<T>(static_cast<int32_t>(whole));
}

// For all functions below: `batch` images of `channels` x `pixels`. Plain is N x C x pixels, Pixels
// and Int8 are N x pixels x C; blocked as in core/memory_format.h. Thread safety: any.
void PlainToInt8(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                 Int8Scale scale, void* y);
void BlockedToInt8(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                   Int8Scale scale, void* y);
void Int8ToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const void* x,
                 Int8Scale scale, float* y);
void Int8ToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const void* x,
                   Int8Scale scale, float* y);
// Floats in the layout of int8 blobs.
void PixelsToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                   float* y);
void PixelsToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                     float* y);

// The layout stays.
void FloatsToInt8(int threads, int64_t count, const float* x, Int8Scale scale, void* y);

}  // namespace crema
