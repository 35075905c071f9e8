// Numbers of the stand-in for cuDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/bfloat16.h"
#include "math/cuda/cudnn.h"
#include "support/half.h"

namespace crema::test {

using Sizes = std::vector<int64_t>;

inline double Load(cudnnDataType_t type, const void* memory, int64_t i) {
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float*>(memory)[i];
  if (type == CUDNN_DATA_BFLOAT16) {
    return static_cast<double>(static_cast<float>(static_cast<const BFloat16*>(memory)[i]));
  }
  return static_cast<double>(static_cast<float>(static_cast<const Half*>(memory)[i]));
}

inline void Store(cudnnDataType_t type, double value, int64_t i, void* memory) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(memory)[i] = rounded;
  } else if (type == CUDNN_DATA_BFLOAT16) {
    static_cast<BFloat16*>(memory)[i] = BFloat16(rounded);
  } else {
    static_cast<Half*>(memory)[i] = Half(rounded);
  }
}

inline double Rounded(cudnnDataType_t type, double value) {
  alignas(float) std::byte place[sizeof(float)];
  Store(type, value, 0, place);
  return Load(type, place, 0);
}

inline int64_t CountOf(const Sizes& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

inline Sizes SpaceOf(const Sizes& sizes) {
  Sizes space;
  for (size_t a = 2; a < sizes.size(); ++a) space.push_back(sizes[a]);
  return space;
}

// The numbers of a tensor, row-major for any strides.
struct Numbers {
  Sizes sizes;
  std::vector<double> values;

  int64_t count() const { return CountOf(sizes); }
  double& operator[](int64_t index) { return values[static_cast<size_t>(index)]; }
  // Returns the element for a place of a tensor that it is broadcast to.
  double& At(const Sizes& place) {
    int64_t index = 0;
    for (size_t a = 0; a < sizes.size(); ++a) {
      index = index * sizes[a] + (sizes[a] == 1 ? 0 : place[a]);
    }
    return values[static_cast<size_t>(index)];
  }
};

// body(place) for each place of a box.
inline void ForPlaces(const Sizes& sizes, const std::function<void(const Sizes&)>& body) {
  Sizes place(sizes.size(), 0);
  while (true) {
    body(place);
    size_t a = sizes.size();
    while (a > 0 && ++place[a - 1] == sizes[a - 1]) place[--a] = 0;
    if (a == 0) return;
  }
}

}  // namespace crema::test
