// The layer of the types SoftmaxWithLoss and WeightedSoftmaxWithLoss.
#pragma once

#include <memory>

#include "graph/layer.h"

namespace crema {

std::unique_ptr<const Layer> MakeSoftmaxWithLoss(const LayerParameter& param);

}  // namespace crema
