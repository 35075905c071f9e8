// The loops that turn bytes of images into the numbers of a net. Rows are vectorised, and mirrored
// ones are as fast as plain ones: they are read backwards, so that writing stays in order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema {

// One channel of one sample: out = (pixel - mean) * scale.
template <typename S, typename T>
struct PlaneRows {
  const S* pixels;    // first pixel inside the crop
  const float* mean;  // first value inside the crop, or null: then `mean_value`
  ptrdiff_t stride;   // of rows, in pixels and in the mean
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

// All channels of one sample whose pixels have their channels together (BGRBGR...).
template <typename T>
struct PackedRows {
  const uint8_t* pixels;  // first pixel inside the crop
  ptrdiff_t row_bytes;    // from one row to the next
  int channels;           // 1 or 3
  const float* mean;      // as above, of the first channel
  ptrdiff_t mean_stride;  // of rows
  ptrdiff_t mean_plane;   // from one channel to the next
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

// All channels of one sample as they are, put together pixel by pixel (BGRBGR...).
struct ByteRows {
  const uint8_t* pixels;  // first pixel inside the crop
  ptrdiff_t row_bytes;    // from one row to the next
  ptrdiff_t plane;        // from one channel to the next; 0: they lie together already
  int channels;
  int height;
  int width;
  bool mirror;
  uint8_t* out;  // height x width x channels
};
void CopyBytes(const ByteRows& rows);

// Takes `count` pixels of 3 channels apart.
void SplitPixels(const uint8_t* packed, ptrdiff_t count, uint8_t* first, uint8_t* second,
                 uint8_t* third);

}  // namespace crema
