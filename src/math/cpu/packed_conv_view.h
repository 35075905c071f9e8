// Internal to PackedConv: offsets of patches in an image, and padded copies of images.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "math/packed_conv.h"

namespace crema::packed_conv {

// Elements after a copy that may be read, though never used.
constexpr int64_t kReadSlack = 8;

// offsets[k] = the offset of input k of a patch in an image, from the first one; Depth() of them.
void FillOffsets(const PackedConvShape& shape, int32_t* offsets);

// Copies one image and puts zeros around it.
void CopyWithPadding(const PackedConvShape& shape, const float* image, float* view);
// The inverse: removes the padding, and writes zeros where no output reads.
void CopyWithoutPadding(const PackedConvShape& shape, const float* view, float* image);

// Pixels of consecutive images as pieces of output rows: image, offset of the first patch in the
// image, first column, length.
template <typename Visit>
[[gnu::always_inline]] inline void ForPixelRuns(const PackedConvShape& s, int64_t first,
                                                int64_t count, Visit&& visit) {
  int64_t image = first / s.Pixels();
  int64_t oh = first % s.Pixels() / s.w.out;
  int64_t ow = first % s.w.out;
  for (int64_t column = 0; column < count;) {
    const int64_t length = std::min(count - column, s.w.out - ow);
    visit(image, oh * s.h.stride * s.w.reach + ow * s.w.stride, column, length);
    column += length;
    ow = 0;
    if (++oh == s.h.out) {
      oh = 0;
      ++image;
    }
  }
}

[[gnu::always_inline]] inline void CopyExactly(const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) std::memcpy(to + i, from + i, 8 * sizeof(float));
  if (i + 4 <= count) {
    std::memcpy(to + i, from + i, 4 * sizeof(float));
    i += 4;
  }
  for (; i < count; ++i) to[i] = from[i];
}

// A vector type of the compiler (`using` would drop the attribute): it would compile a loop of
// eight additions to scalar ones.
typedef float Eight __attribute__((vector_size(32)));  // NOLINT
[[gnu::always_inline]] inline void AddExactly(const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    Eight sum, more;
    std::memcpy(&sum, to + i, sizeof(sum));
    std::memcpy(&more, from + i, sizeof(more));
    sum += more;
    std::memcpy(to + i, &sum, sizeof(sum));
  }
  for (; i < count; ++i) to[i] += from[i];
}

}  // namespace crema::packed_conv
