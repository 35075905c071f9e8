// One image as columns (Im2col) and its products with the filters. Convolution and, in the reverse
// direction, Deconvolution consist of them.
#pragma once

#include <algorithm>
#include <span>

#include "layers/convolution/conv_geometry.h"
#include "math/bias_activation.h"
#include "math/scratch.h"

namespace crema {

// Returns the number of elements of one image as columns; 0 if the image itself serves.
inline int64_t ConvColumnCount(const ConvGeometry& g) {
  return g.window.IsPointwise() ? 0 : g.in_channels * g.window.KernelSize() * g.window.OutSize();
}
inline int64_t ConvWeightCount(const ConvGeometry& g) { return g.out_channels * g.GroupDepth(); }

// Returns the image as columns, or the image itself if that is the same.
template <typename T>
const T* ConvColumns(const ConvGeometry& g, const T* image, T* columns);

// y = weight * columns.
template <typename T>
void ConvProduct(const ConvGeometry& g, int threads, const T* columns, const T* weight, T* y);

// dx = the columns weight^T dy, summed into an image (Col2im). `columns` is scratch.
template <typename T>
void ConvTransposed(const ConvGeometry& g, int threads, const T* weight, const T* dy, T* columns,
                    T* dx);

// dweight += dy columns^T.
template <typename T>
void ConvWeightGradient(const ConvGeometry& g, const T* columns, const T* dy, T* dweight);

// Memory of the workers of a backward pass. Each has partial sums of its own, so that they need not
// wait for each other. `biases` is the number of biases, `masked` the number of elements of one
// image's masked gradient.
template <typename T>
class ConvBackwardWorkers {
 public:
  ConvBackwardWorkers(const ConvGeometry& g, int64_t biases, int64_t masked, int workers,
                      std::span<std::byte> scratch)
      : geometry_(g), biases_(biases), masked_(masked), workers_(workers) {
    base_ = ScratchCutter(scratch).Take<T>(Piece() * workers);
    for (int i = 0; i < workers; ++i) std::fill_n(WeightGrad(i), ConvWeightCount(g) + biases, T(0));
  }
  static size_t Bytes(const ConvGeometry& g, int64_t biases, int64_t masked, int workers) {
    const ConvBackwardWorkers measure(g, biases, masked);
    return ScratchBytes<T>(measure.Piece() * workers) + kScratchSlack;
  }

  T* WeightGrad(int worker) const { return base_ + worker * Piece(); }
  T* BiasGrad(int worker) const { return WeightGrad(worker) + ConvWeightCount(geometry_); }
  T* Masked(int worker) const { return BiasGrad(worker) + biases_; }
  T* Columns(int worker) const { return Masked(worker) + masked_; }

  // Adds the partial sums in the order of the workers: the same number of threads gives the same
  // bits. Null means not needed.
  void AddTo(T* dweight, T* dbias) const {
    const int64_t weights = ConvWeightCount(geometry_);
    for (int i = 0; i < workers_; ++i) {
      if (dweight != nullptr) AddColumnSums<T>(1, weights, WeightGrad(i), dweight);
      if (dbias != nullptr) AddColumnSums<T>(1, biases_, BiasGrad(i), dbias);
    }
  }

 private:
  ConvBackwardWorkers(const ConvGeometry& g, int64_t biases, int64_t masked)
      : geometry_(g), biases_(biases), masked_(masked) {}
  int64_t Piece() const {
    return ConvWeightCount(geometry_) + biases_ + masked_ + ConvColumnCount(geometry_);
  }

  const ConvGeometry& geometry_;
  int64_t biases_;
  int64_t masked_;
  int workers_ = 0;
  T* base_ = nullptr;
};

}  // namespace crema
