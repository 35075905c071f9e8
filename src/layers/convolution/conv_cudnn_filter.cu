#include "layers/convolution/conv_cudnn_filter.h"
#include "math/cuda/group_sums.cuh"
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

// Returns the index in K x B x A of the element at `i` in K x A x B.
CREMA_HOST_DEVICE int64_t Transposed(int64_t i, int64_t a, int64_t b) {
  const int64_t row = Quotient(i, b), in_b = i - row * b;
  const int64_t k = Quotient(row, a), in_a = row - k * a;
  return (k * b + in_b) * a + in_a;
}

// Uses no tiles, since filters are small compared to blobs. Neighbouring threads write neighbouring
// elements.
template <typename T>
void Transpose(const CudaQueue& queue, const FilterTranspose& transpose, const T* from, T* to) {
  const int64_t channels = transpose.channels, space = transpose.space;
  ForElements(queue, "TransposeFilters", transpose.outputs * channels * space,
              [=] CREMA_HOST_DEVICE(int64_t i) { to[i] = from[Transposed(i, space, channels)]; });
}

template <typename T>
void Add(const CudaQueue& queue, const FilterTranspose& transpose, const T* from, T* sum) {
  const int64_t channels = transpose.channels, space = transpose.space;
  ForElements(queue, "AddTransposedGradient", transpose.outputs * channels * space,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const float x = ToFloat(from[Transposed(i, channels, space)]);
                sum[i] = FromFloat<T>(ToFloat(sum[i]) + x);
              });
}

}  // namespace

FilterTranspose::FilterTranspose(const CudnnConvSpec& spec)
    : dtype(spec.dtype),
      outputs(spec.out_channels),
      channels(spec.in_channels / spec.groups),
      space(1) {
  for (const CudnnConvSpec::Axis& axis : spec.axes) space *= axis.kernel;
}

int64_t FilterTranspose::Bytes() const {
  return outputs * channels * space * static_cast<int64_t>(SizeOf(dtype));
}

void FilterTranspose::ToChannelsLast(const CudaQueue& queue, const void* from, void* to) const {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    Transpose(queue, *this, static_cast<const T*>(from), static_cast<T*>(to));
  });
}

void FilterTranspose::AddFromChannelsLast(const CudaQueue& queue, const void* from,
                                          void* sum) const {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    Add(queue, *this, static_cast<const T*>(from), static_cast<T*>(sum));
  });
}

}  // namespace crema
