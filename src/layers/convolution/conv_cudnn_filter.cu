#include "layers/convolution/conv_cudnn_filter.h"
#include "math/cuda/group_sums.cuh"
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

// Where the element of K x B x A lies that is at `i` in K x A x B.
CREMA_HOST_DEVICE int64_t Turned(int64_t i, int64_t a, int64_t b) {
  const int64_t row = Quotient(i, b), in_b = i - row * b;
  const int64_t k = Quotient(row, a), in_a = row - k * a;
  return (k * b + in_b) * a + in_a;
}

// Filters are small beside blobs: no tiles. Threads side by side write side by side.
template <typename T>
void Turn(const CudaQueue& queue, const FilterTurn& turn, const T* from, T* to) {
  const int64_t channels = turn.channels, space = turn.space;
  ForElements(queue, "TurnFilters", turn.outputs * channels * space,
              [=] CREMA_HOST_DEVICE(int64_t i) { to[i] = from[Turned(i, space, channels)]; });
}

template <typename T>
void Add(const CudaQueue& queue, const FilterTurn& turn, const T* from, T* sum) {
  const int64_t channels = turn.channels, space = turn.space;
  ForElements(queue, "AddTurnedGradient", turn.outputs * channels * space,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const float x = ToFloat(from[Turned(i, channels, space)]);
                sum[i] = FromFloat<T>(ToFloat(sum[i]) + x);
              });
}

}  // namespace

FilterTurn::FilterTurn(const CudnnConvSpec& spec)
    : dtype(spec.dtype),
      outputs(spec.out_channels),
      channels(spec.in_channels / spec.groups),
      space(1) {
  for (const CudnnConvSpec::Axis& axis : spec.axes) space *= axis.kernel;
}

int64_t FilterTurn::Bytes() const {
  return outputs * channels * space * static_cast<int64_t>(SizeOf(dtype));
}

void FilterTurn::ToChannelsLast(const CudaQueue& queue, const void* from, void* to) const {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    Turn(queue, *this, static_cast<const T*>(from), static_cast<T*>(to));
  });
}

void FilterTurn::AddFromChannelsLast(const CudaQueue& queue, const void* from, void* sum) const {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    Add(queue, *this, static_cast<const T*>(from), static_cast<T*>(sum));
  });
}

}  // namespace crema
