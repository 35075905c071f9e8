// Losses of the distances between items (contrastive_loss.cu and others): a team takes an item.
#pragma once

#include "layers/loss/gpu_loss.cuh"

namespace crema {

template <typename T>
CREMA_HOST_DEVICE float SquaredDistance(const Team& team, const T* a, const T* b, int64_t count) {
  return team.Sum(count, [&](int64_t i) {
    const float difference = ToFloat(a[i]) - ToFloat(b[i]);
    return difference * difference;
  });
}

// Room for the cost of each of that many items, in front of that of the sums.
inline size_t ItemCostScratch(const OpDesc& query, int64_t items) {
  return LossScratch(query) + ScratchBytes<float>(items);
}

// Of rows whose items lie on axis 0.
inline size_t BatchCostScratch(const OpDesc& query) {
  return ItemCostScratch(query, query.context.inputs[0].shape[0]);
}

}  // namespace crema
