// Binary and Where on the GPU: operands and the sums of their gradients.
#pragma once

#include <algorithm>
#include <cstddef>

#include "layers/arithmetic/broadcasting.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/broadcast_map.cuh"

namespace crema {

// Writes term(i), the gradient of an input at element `i` of the result, summed if it is repeated.
template <typename T, typename Term>
static void WriteGradientOnGpu(const GpuBackward<T>& args, const BroadcastMap& map, size_t input,
                               const Term& term) {
  const TensorView& grad = args.input_grads[input];
  T* dx = args.dx(input);
  if (grad.shape() != args.output_grads[0].shape()) {
    return SumRepetitions(args.queue, map, static_cast<int>(input), grad.count(), term,
                          args.scratch, dx);
  }
  ForElements(args.queue, "BroadcastGradient", map.count,
              [=] CREMA_HOST_DEVICE(int64_t i) { dx[i] = FromFloat<T>(term(i)); });
}

// Returns the scratch bytes of these sums, one after the other.
inline size_t GradientSumScratchOnGpu(const OpDesc& query) {
  const Shape& result = query.info.outputs[0].shape;
  const BroadcastMap map = MapOfInputs(result, query.context.inputs);
  size_t bytes = 0;
  for (size_t i = 0; i < query.context.inputs.size(); ++i) {
    if (IsWhole(query.context.inputs[i], result)) continue;
    bytes = std::max(bytes, RepetitionScratch(map, static_cast<int>(i)));
  }
  return bytes;
}

}  // namespace crema
