#include "math/cuda/im2col.h"
#include "math/cuda/windows.cuh"

namespace crema {
namespace {

// A thread handles one window of one plane, so that neighbouring threads write adjacent elements.
template <typename T, int kMost>
void TakeColumns(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, int64_t planes,
                 const T* images, T* columns) {
  const SlidingWindow<kMost> w = sliding;
  ForElements(queue, "Im2col", planes * w.out_size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t plane = i / w.out_size, window = i % w.out_size;
    const T* image = images + plane * w.in_size;
    T* column = columns + plane * w.kernel_size * w.out_size + window;
    w.ForKernel(window, [&](int64_t k, int64_t cell) {
      column[k * w.out_size] = cell < 0 ? FromFloat<T>(0) : image[cell];
    });
  });
}

template <typename T, int kMost>
void SumColumns(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, int64_t planes,
                const T* columns, T* images) {
  const SlidingWindow<kMost> w = sliding;
  ForElements(queue, "Col2im", planes * w.in_size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const T* column = columns + i / w.in_size * w.kernel_size * w.out_size;
    float sum = 0;
    w.ForViews(i % w.in_size,
               [&](int64_t k, int64_t window) { sum += ToFloat(column[k * w.out_size + window]); });
    images[i] = FromFloat<T>(sum);
  });
}

}  // namespace

void CudaIm2col(const CudaQueue& queue, DType dtype, const ConvWindow& window, int64_t planes,
                const void* images, void* columns) {
  WithSlidingWindow(window, [&](const auto& w) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      TakeColumns(queue, w, planes, static_cast<const T*>(images), static_cast<T*>(columns));
    });
  });
}

void CudaCol2im(const CudaQueue& queue, DType dtype, const ConvWindow& window, int64_t planes,
                const void* columns, void* images) {
  WithSlidingWindow(window, [&](const auto& w) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      SumColumns(queue, w, planes, static_cast<const T*>(columns), static_cast<T*>(images));
    });
  });
}

}  // namespace crema
