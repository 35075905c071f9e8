// Sizes of one pooling layer, from its parameters and the shape of its input.
#pragma once

#include "graph/layer.h"
#include "math/pool.h"

namespace crema {

// Checks that need no input; throws as the constructor of a layer does.
void ValidatePoolParam(const Layer& layer);

// Throws kInvalidArgument where the input does not fit the parameters.
PoolWindow MakePoolWindow(const Layer& layer, const Shape& input);

}  // namespace crema
