#include "layers/convolution/conv_matmul.h"

#include "math/gemm.h"
#include "math/im2col.h"

namespace crema {

template <typename T>
const T* ConvColumns(const ConvGeometry& g, const T* image, T* columns) {
  if (g.window.IsPointwise()) return image;
  Im2col(g.window, g.in_channels, image, columns);
  return columns;
}

template <typename T>
void ConvProduct(const ConvGeometry& g, int threads, const T* columns, const T* weight, T* y) {
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  for (int64_t group = 0; group < g.groups; ++group) {
    Gemm<T>(threads, false, false, m, n, k, T(1), weight + group * m * k, k,
            columns + group * k * n, n, T(0), y + group * m * n, n);
  }
}

template <typename T>
void ConvTransposed(const ConvGeometry& g, int threads, const T* weight, const T* dy, T* columns,
                    T* dx) {
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  const bool pointwise = g.window.IsPointwise();
  for (int64_t group = 0; group < g.groups; ++group) {
    Gemm<T>(threads, true, false, k, n, m, T(1), weight + group * m * k, k, dy + group * m * n, n,
            T(0), (pointwise ? dx : columns) + group * k * n, n);
  }
  if (!pointwise) Col2im(g.window, g.in_channels, columns, dx);
}

template <typename T>
void ConvWeightGradient(const ConvGeometry& g, const T* columns, const T* dy, T* dweight) {
  const int64_t m = g.GroupOutputs(), n = g.window.OutSize(), k = g.GroupDepth();
  for (int64_t group = 0; group < g.groups; ++group) {
    Gemm<T>(1, false, true, m, k, n, T(1), dy + group * m * n, n, columns + group * k * n, n, T(1),
            dweight + group * m * k, k);
  }
}

template const float* ConvColumns(const ConvGeometry&, const float*, float*);
template const double* ConvColumns(const ConvGeometry&, const double*, double*);
template void ConvProduct(const ConvGeometry&, int, const float*, const float*, float*);
template void ConvProduct(const ConvGeometry&, int, const double*, const double*, double*);
template void ConvTransposed(const ConvGeometry&, int, const float*, const float*, float*, float*);
template void ConvTransposed(const ConvGeometry&, int, const double*, const double*, double*,
                             double*);
template void ConvWeightGradient(const ConvGeometry&, const float*, const float*, float*);
template void ConvWeightGradient(const ConvGeometry&, const double*, const double*, double*);

}  // namespace crema
