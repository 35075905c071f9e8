#include "math/inner_product.h"

#include <algorithm>

#include "core/parallel_for.h"
#include "math/gemm.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 15;  // minimum weights per thread

// Computes one row, as a matrix times a vector; threads take parts of the outputs.
template <typename T>
void ForwardRow(int threads, const InnerProductSize& s, const T* x, const T* weight, T* y) {
  if (s.transposed) {
    Gemv<T>(true, s.inputs, s.outputs, T(1), weight, x, T(0), y);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kGrain / s.inputs);
  ParallelFor(threads, s.outputs, grain, [&](int64_t begin, int64_t end, int) {
    Gemv<T>(false, end - begin, s.inputs, T(1), weight + begin * s.inputs, x, T(0), y + begin);
  });
}

}  // namespace

template <typename T>
void InnerProductForward(int threads, const InnerProductSize& s, const T* x, const T* weight,
                         const T* bias, FusedRelu relu, T* y) {
  if (s.rows == 1) {
    ForwardRow<T>(threads, s, x, weight, y);
  } else {
    Gemm<T>(threads, false, !s.transposed, s.rows, s.outputs, s.inputs, T(1), x, s.inputs, weight,
            s.transposed ? s.outputs : s.inputs, T(0), y, s.outputs);
  }
  if (bias != nullptr || relu.on) AddColumnBiasRelu<T>(s.rows, s.outputs, bias, relu, y);
}

template <typename T>
size_t InnerProductBackwardScratch(const InnerProductSize& s, FusedRelu relu) {
  return relu.on ? ScratchBytes<T>(s.rows * s.outputs) + kScratchSlack : 0;
}

template <typename T>
void InnerProductBackward(int threads, const InnerProductSize& s, FusedRelu relu,
                          const ProductGrads<T>& g, std::span<std::byte> scratch) {
  const int64_t m = s.rows, n = s.outputs, k = s.inputs;
  const T* dy = g.dy;
  if (relu.on) {
    T* masked = ScratchCutter(scratch).Take<T>(m * n);
    MaskByOutput<T>(m * n, relu.slope, g.y, dy, masked);
    dy = masked;
  }
  if (g.dweight != nullptr) {
    if (s.transposed) {
      Gemm<T>(threads, true, false, k, n, m, T(1), g.x, k, dy, n, T(1), g.dweight, n);
    } else {
      Gemm<T>(threads, true, false, n, k, m, T(1), dy, n, g.x, k, T(1), g.dweight, k);
    }
  }
  if (g.dbias != nullptr) AddColumnSums<T>(m, n, dy, g.dbias);
  if (g.dx != nullptr) {
    Gemm<T>(threads, false, s.transposed, m, k, n, T(1), dy, n, g.weight, s.transposed ? n : k,
            T(0), g.dx, k);
  }
}

template void InnerProductForward(int, const InnerProductSize&, const float*, const float*,
                                  const float*, FusedRelu, float*);
template void InnerProductForward(int, const InnerProductSize&, const double*, const double*,
                                  const double*, FusedRelu, double*);
template size_t InnerProductBackwardScratch<float>(const InnerProductSize&, FusedRelu);
template size_t InnerProductBackwardScratch<double>(const InnerProductSize&, FusedRelu);
template void InnerProductBackward(int, const InnerProductSize&, FusedRelu,
                                   const ProductGrads<float>&, std::span<std::byte>);
template void InnerProductBackward(int, const InnerProductSize&, FusedRelu,
                                   const ProductGrads<double>&, std::span<std::byte>);

}  // namespace crema
