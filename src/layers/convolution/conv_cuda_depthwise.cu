// Depthwise convolution on the GPU, without matrices.
#include "layers/convolution/conv_cuda.h"
#include "math/cuda/sums.cuh"
#include "math/cuda/windows.cuh"

namespace crema {
namespace {

// Number of output channels, and of output channels that read one input channel.
struct Channels {
  int64_t outputs, sharing;
};
Channels ChannelsOf(const ConvGeometry& g) { return {g.out_channels, g.GroupOutputs()}; }

template <typename T, int kMost>
void Product(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, Channels channels,
             int64_t images, const T* x, const T* weight, T* y) {
  const SlidingWindow<kMost> w = sliding;
  const int64_t planes = images * channels.outputs;
  ForElements(queue, "DepthwiseProduct", planes * w.out_size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t plane = i / w.out_size;
    const T* image = x + plane / channels.sharing * w.in_size;
    const T* filter = weight + plane % channels.outputs * w.kernel_size;
    float sum = 0;
    w.ForKernel(i % w.out_size, [&](int64_t k, int64_t cell) {
      if (cell >= 0) sum += ToFloat(filter[k]) * ToFloat(image[cell]);
    });
    y[i] = FromFloat<T>(sum);
  });
}

template <typename T, int kMost>
void Transposed(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, Channels channels,
                int64_t images, const T* dy, const T* weight, T* dx) {
  const SlidingWindow<kMost> w = sliding;
  const int64_t planes = images * channels.outputs / channels.sharing;
  ForElements(queue, "DepthwiseTransposed", planes * w.in_size, [=] CREMA_HOST_DEVICE(int64_t i) {
    // of the output planes that read this plane
    const int64_t first = i / w.in_size * channels.sharing;
    float sum = 0;
    w.ForViews(i % w.in_size, [&](int64_t k, int64_t window) {
      for (int64_t plane = first; plane < first + channels.sharing; ++plane) {
        sum += ToFloat(weight[plane % channels.outputs * w.kernel_size + k]) *
               ToFloat(dy[plane * w.out_size + window]);
      }
    });
    dx[i] = FromFloat<T>(sum);
  });
}

// Returns the cell under kernel element `k` of a window; -1 in the padding.
template <int kMost>
CREMA_HOST_DEVICE int64_t CellUnder(const SlidingWindow<kMost>& w, int64_t k, int64_t window) {
  int64_t cell = 0, scale = 1;
  for (int a = w.axes() - 1; a >= 0; --a) {
    const SlidingAxis& axis = w.axis[a];
    const int64_t at = axis.Start(window % axis.out) + k % axis.kernel * axis.dilation;
    if (at < 0 || at >= axis.in) return -1;
    cell += at * scale;
    scale *= axis.in;
    window /= axis.out;
    k /= axis.kernel;
  }
  return cell;
}

template <typename T, int kMost>
void AddGradient(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, Channels channels,
                 int64_t images, const T* x, const T* dy, T* dweight) {
  const SlidingWindow<kMost> w = sliding;
  AddRowSums(
      queue, channels.outputs * w.kernel_size, images * w.out_size,
      [=] CREMA_HOST_DEVICE(int64_t r, int64_t i) {
        const int64_t plane = i / w.out_size * channels.outputs + r / w.kernel_size;
        const int64_t window = i % w.out_size;
        const int64_t cell = CellUnder(w, r % w.kernel_size, window);
        if (cell < 0) return 0.0F;
        return ToFloat(dy[plane * w.out_size + window]) *
               ToFloat(x[plane / channels.sharing * w.in_size + cell]);
      },
      dweight);
}

}  // namespace

void CudaDepthwiseProduct(const CudaConv& conv, int64_t images, const void* x, const void* weight,
                          void* y) {
  WithSlidingWindow(conv.g.window, [&](const auto& w) {
    DispatchCudaFloat(conv.dtype, [&]<typename T>(T) {
      Product(conv.queue, w, ChannelsOf(conv.g), images, static_cast<const T*>(x),
              static_cast<const T*>(weight), static_cast<T*>(y));
    });
  });
}

void CudaDepthwiseTransposed(const CudaConv& conv, int64_t images, const void* dy,
                             const void* weight, void* dx) {
  WithSlidingWindow(conv.g.window, [&](const auto& w) {
    DispatchCudaFloat(conv.dtype, [&]<typename T>(T) {
      Transposed(conv.queue, w, ChannelsOf(conv.g), images, static_cast<const T*>(dy),
                 static_cast<const T*>(weight), static_cast<T*>(dx));
    });
  });
}

void CudaAddDepthwiseGradient(const CudaConv& conv, int64_t images, const void* x, const void* dy,
                              void* dweight) {
  WithSlidingWindow(conv.g.window, [&](const auto& w) {
    DispatchCudaFloat(conv.dtype, [&]<typename T>(T) {
      AddGradient(conv.queue, w, ChannelsOf(conv.g), images, static_cast<const T*>(x),
                  static_cast<const T*>(dy), static_cast<T*>(dweight));
    });
  });
}

}  // namespace crema
