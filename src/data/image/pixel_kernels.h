// Loops that convert image bytes to the input of a net. Vectorised; mirrored rows are as fast as
// plain ones, since they are read backwards and written in order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema {

// Returns the gray value of a color, rounded as OpenCV does.
inline uint8_t GrayOf(int blue, int green, int red) {
  constexpr int kShift = 14;
  const int sum = blue * 1868 + green * 9617 + red * 4899;
  return static_cast<uint8_t>((sum + (1 << (kShift - 1))) >> kShift);
}

// One channel of one sample: out = (pixel - mean) * scale.
template <typename S, typename T>
struct PlaneRows {
  const S* pixels;    // first pixel inside the crop
  const float* mean;  // first value inside the crop, or null: then `mean_value`
  ptrdiff_t stride;   // distance of rows, in pixels and in the mean
  T mean_value;
  T scale;
  int height;
  int width;
  bool mirror;
  T* out;  // height x width
};

// S is uint8_t or float, T is float or double.
template <typename S, typename T>
void ConvertPlane(const PlaneRows<S, T>& plane);

constexpr int kMostPackedChannels = 3;

// All channels of one sample with interleaved pixels (BGRBGR...).
template <typename T>
struct PackedRows {
  const uint8_t* pixels;  // first pixel inside the crop
  ptrdiff_t row_bytes;    // distance of rows
  int channels;           // 1 or 3
  const float* mean;      // as above, for the first channel
  ptrdiff_t mean_stride;  // distance of rows
  ptrdiff_t mean_plane;   // distance of channels
  T mean_values[kMostPackedChannels];
  T scale;
  int height;
  int width;
  bool mirror;
  T* out;  // channels x height x width
};

// T is float or double.
template <typename T>
void ConvertPacked(const PackedRows<T>& rows);

// All channels of one sample, unchanged, interleaved (BGRBGR...).
struct ByteRows {
  const uint8_t* pixels;  // first pixel inside the crop
  ptrdiff_t row_bytes;    // distance of rows
  ptrdiff_t plane;        // distance of channels; 0: already interleaved
  int channels;
  int height;
  int width;
  bool mirror;
  uint8_t* out;  // height x width x channels
};
void CopyBytes(const ByteRows& rows);

// Separates `count` interleaved pixels of 3 channels.
void SplitPixels(const uint8_t* packed, ptrdiff_t count, uint8_t* first, uint8_t* second,
                 uint8_t* third);

}  // namespace crema
