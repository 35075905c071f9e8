// Local response normalisation of one image.
#pragma once

#include <cstdint>
#include <span>

namespace crema {

struct LrnShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  // For LrnWithin: the spatial axes if there are not two; height * width is their product then.
  std::span<const int64_t> spatial = {};
  int64_t Plane() const { return height * width; }
};

struct LrnParam {
  int64_t size = 5;  // of the neighbourhood, odd
  double alpha = 1;  // factor on the mean square
  double beta = 0.75;
  double k = 1;
};

// Return the doubles of scratch that the functions below need.
int64_t LrnAcrossScratch(const LrnShape& shape);
int64_t LrnWithinScratch(const LrnShape& shape);

// Over neighbouring channels: scale = k + alpha / size * sum of x^2, y = x * scale^-beta. T is
// float or double. Thread safety: any, with scratch of its own.
template <typename T>
void LrnAcross(const LrnShape& shape, const LrnParam& param, const T* x, T* scale, T* y,
               double* scratch);
template <typename T>
void LrnAcrossBackward(const LrnShape& shape, const LrnParam& param, const T* x, const T* scale,
                       const T* dy, T* dx, double* scratch);

// Over size x size neighbouring pixels of the same channel: scale = 1 + alpha / size^2 * sum of
// x^2; with d spatial axes size^d instead of size^2.
template <typename T>
void LrnWithin(const LrnShape& shape, const LrnParam& param, const T* x, T* scale, T* y,
               double* scratch);
template <typename T>
void LrnWithinBackward(const LrnShape& shape, const LrnParam& param, const T* x, const T* scale,
                       const T* dy, T* dx, double* scratch);

}  // namespace crema
