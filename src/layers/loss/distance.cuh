// Losses of distances between items (contrastive_loss.cu and others), with one team per item.
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

// Scratch for the cost of each of `items`, in addition to LossScratch.
inline size_t ItemCostScratch(const OpDesc& query, int64_t items) {
  return LossScratch(query) + ScratchBytes<float>(items);
}

// ItemCostScratch with the items on axis 0 of input 0.
inline size_t BatchCostScratch(const OpDesc& query) {
  return ItemCostScratch(query, query.context.inputs[0].shape[0]);
}

}  // namespace crema
