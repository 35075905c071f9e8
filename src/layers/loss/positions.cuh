// Kernels over the positions of a blob of scores.
#pragma once

#include "math/cuda/launch.cuh"
#include "math/softmax.h"

namespace crema {

// Runs body(threads, position) for all positions. Uses one team per position if the classes of a
// position are close together in memory and there are many classes or few positions; otherwise one
// thread per position.
template <typename Body>
static void ForPositions(const CudaQueue& queue, std::string_view name, const SoftmaxSize& sizes,
                         const Body& body) {
  const int64_t positions = sizes.outer * sizes.inner;
  const bool teams =
      sizes.inner < 8 && sizes.classes > 8 && (sizes.classes >= Team::kWarp || positions <= 4096);
  if (teams) {
    ForTeamsOf(queue, name, positions, sizes.classes,
               [=] CREMA_HOST_DEVICE(const Team& team, int64_t i) { body(team, i); });
  } else {
    ForElements(queue, name, positions, [=] CREMA_HOST_DEVICE(int64_t i) { body(OneThread{}, i); });
  }
}

CREMA_HOST_DEVICE inline int64_t FirstClass(const SoftmaxSize& sizes, int64_t position) {
  return position / sizes.inner * sizes.classes * sizes.inner + position % sizes.inner;
}

}  // namespace crema
