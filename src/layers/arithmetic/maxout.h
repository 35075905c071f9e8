// Sizes of Maxout, for both devices. See maxout.cc.
#pragma once

#include <cstdint>

#include "graph/layer.h"
#include "layers/as_double.h"

namespace crema {

struct MaxoutSize {
  // Throws an error of the field or of the input if they do not fit.
  MaxoutSize(const Layer& layer, const Shape& x);

  // Returns the place in x of the first of the elements that output `i` chooses from.
  CREMA_HOST_DEVICE int64_t First(int64_t i) const { return i / inner * group * inner + i % inner; }
  // Returns the place of the first of the largest; a NaN is larger than any number.
  template <typename T>
  CREMA_HOST_DEVICE int64_t Largest(const T* x, int64_t i) const {
    const int64_t first = First(i);
    int64_t best = first;
    for (int64_t g = 1; g < group; ++g) {
      const double value = AsDouble(x[first + g * inner]), most = AsDouble(x[best]);
      if (value > most || (value != value && most == most)) best = first + g * inner;
    }
    return best;
  }
  template <typename T>
  CREMA_HOST_DEVICE void Backward(const T* x, const T* dy, int64_t i, T* dx) const {
    const int64_t first = First(i), best = Largest(x, i);
    for (int64_t at = first; at < first + group * inner; at += inner) {
      dx[at] = at == best ? dy[i] : static_cast<T>(0.0F);
    }
  }

  int64_t channels;  // of the output
  int64_t group;     // channels for each of them
  int64_t inner;     // elements of a channel
};

}  // namespace crema
