// Batches of images that are sub-views of larger ones, with gaps between the images.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/parallel_for.h"
#include "math/bias_activation.h"

namespace crema {

template <typename T>
struct ImageRanges {
  const T* data = nullptr;
  int64_t stride = 0;  // elements from one image to the next; 0: dense
};

// Copies the gradient dy of a batch of images, of `size` elements each, to dense memory, masked by
// a ReLU with output y if there is one. T is float or BFloat16. Thread safety: any.
template <typename T>
void GatherMasked(int threads, int64_t images, int64_t size, const FusedRelu& relu,
                  const ImageRanges<T>& y, const ImageRanges<T>& dy, T* masked) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t y_stride = y.stride == 0 ? size : y.stride;
  const int64_t dy_stride = dy.stride == 0 ? size : dy.stride;
  ParallelFor(threads, images * size, kGrain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t image = begin / size, first = begin % size;
      const int64_t count = std::min(size - first, end - begin);
      const T* from = dy.data + image * dy_stride + first;
      if (relu.on) {
        MaskByOutput(count, relu.slope, y.data + image * y_stride + first, from, masked + begin);
      } else {
        std::copy_n(from, count, masked + begin);
      }
      begin += count;
    }
  });
}

}  // namespace crema
